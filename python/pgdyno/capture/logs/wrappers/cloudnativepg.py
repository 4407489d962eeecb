"""Operators that write rows of the csvlog as JSON, such as CloudNativePG, and jsonlogs in another order of keys."""

from __future__ import annotations

import json
from typing import Any

from pgdyno.capture.logs.wrappers.piece import Piece, Wrapper, text_of

_KEYS = {
    "log_time": "timestamp", "timestamp": "timestamp", "user_name": "user", "user": "user",
    "database_name": "dbname", "dbname": "dbname", "process_id": "pid", "pid": "pid", "session_id": "session_id",
    "session_start_time": "session_start", "session_start": "session_start", "virtual_transaction_id": "vxid",
    "vxid": "vxid", "error_severity": "error_severity", "sql_state_code": "state_code", "state_code": "state_code",
    "message": "message", "detail": "detail", "query": "statement", "statement": "statement",
    "application_name": "application_name", "backend_type": "backend_type", "leader_pid": "leader_pid",
}  # fmt: skip
"""The columns of a csvlog, and the keys of a jsonlog."""


def _of_record(record: dict[str, Any]) -> Piece | None:
    inner = record.get("record")
    found = inner if isinstance(inner, dict) else record
    if "error_severity" not in found or "message" not in found:
        return Piece(b"", b"the operator") if "logger" in record and "level" in record else None
    values = {_KEYS[key]: value for key, value in found.items() if key in _KEYS and value not in ("", None)}
    line = json.dumps({"timestamp": values.pop("timestamp", ""), **values}, separators=(",", ":"), ensure_ascii=False)
    return Piece(line.encode("utf-8", "replace"), text_of(record.get("logging_pod")))


ROWS = Wrapper("CloudNativePG's JSON", of_record=_of_record)
