"""Google Cloud Logging: the entries of Cloud SQL, AlloyDB and GKE, as a list or a line each."""

from __future__ import annotations

import json
from typing import Any

from pgdyno.capture.logs.wrappers.piece import Piece, Wrapper, text_of


def _of_record(record: dict[str, Any]) -> Piece | None:
    if "logName" not in record and "insertId" not in record:
        return None
    payload = record.get("jsonPayload")
    text = record.get("textPayload")
    if isinstance(payload, dict):
        text = payload["message"] if isinstance(payload.get("message"), str) else json.dumps(payload)
    labels = (record.get("resource") or {}).get("labels") or {}
    source = labels.get("database_id") or labels.get("instance_id") or labels.get("pod_name")
    split = record.get("split") or {}
    return Piece(
        text_of(text), text_of(source), text_of(record.get("timestamp")),
        is_partial=split.get("index", 0) + 1 < split.get("totalSplits", 1),
    )  # fmt: skip


ENTRIES = Wrapper("Google Cloud Logging's JSON", of_record=_of_record)
