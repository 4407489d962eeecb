"""Azure Monitor: the log of a flexible server in a storage account or an event hub, a record each."""

from __future__ import annotations

from typing import Any

from pgdyno.capture.logs.log_prefix import SEVERITIES
from pgdyno.capture.logs.wrappers.piece import Piece, Wrapper, text_of

_SEVERITIES = tuple(f"{each}:  ".encode() for each in SEVERITIES.replace("[1-5]?", "1").split("|"))


def _of_record(record: dict[str, Any]) -> Piece | None:
    properties = record.get("properties")
    if not isinstance(properties, dict) or not {"resourceId", "category", "LogicalServerName"} & record.keys():
        return None
    text, stamp = text_of(properties.get("message")), text_of(properties.get("timestamp"))
    level, pid = properties.get("errorLevel"), properties.get("processId")
    if level and pid and stamp and not any(each in text[:300] for each in _SEVERITIES):
        text = b"%s [%s] %s:  %s" % (stamp, str(pid).encode(), str(level).encode(), text)
    return Piece(text, text_of(record.get("resourceId")), text_of(record.get("time")))


RECORDS = Wrapper("Azure Monitor's JSON", of_record=_of_record)
