"""Amazon CloudWatch: `aws logs tail`, and the JSON of get-log-events, filter-log-events and Insights."""

from __future__ import annotations

from typing import Any

from pgdyno.capture.logs.wrappers.piece import TIME, Piece, Wrapper, lines_of, text_of


def _of_record(record: dict[str, Any]) -> Piece | None:
    if "@message" in record:
        return Piece(text_of(record["@message"]), text_of(record.get("@logStream")), text_of(record.get("@timestamp")))
    if not isinstance(record.get("message"), str) or not {"ingestionTime", "eventId"} & record.keys():
        return None
    stamp = str(record.get("timestamp", "")).encode()
    return Piece(text_of(record["message"]), text_of(record.get("logStreamName")), stamp)


TAIL = Wrapper("aws logs tail", lines_of(rb"(?P<stamp>" + TIME + rb") (?P<source>\S+) (?P<text>.*)"))
EVENTS = Wrapper("CloudWatch's JSON", of_record=_of_record)
