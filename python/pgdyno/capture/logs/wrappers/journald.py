"""`journalctl -o json`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pgdyno.capture.logs.wrappers.piece import CUT_MARK, Piece, Wrapper, text_of
from pgdyno.capture.logs.wrappers.syslog import in_chunks


def _of_record(record: dict[str, Any]) -> Piece | None:
    if "__REALTIME_TIMESTAMP" not in record or "MESSAGE" not in record:
        return None
    message = record["MESSAGE"]
    # other characters than printable ones make it a list of bytes
    text = bytes(message).rstrip(b"\r\n") if isinstance(message, list) else text_of(message)
    at = datetime.fromtimestamp(int(record["__REALTIME_TIMESTAMP"]) / 1e6, UTC)
    stamp = f"{at:%Y-%m-%dT%H:%M:%S.%f}Z".encode()
    if record.get("_LINE_BREAK") == "line-max":
        text += CUT_MARK
    host, pid = text_of(record.get("_HOSTNAME")), text_of(record.get("SYSLOG_PID") or record.get("_PID"))
    return in_chunks(Piece(text, host, stamp, pid))


RECORDS = Wrapper("journald's JSON", of_record=_of_record, is_split=True)
