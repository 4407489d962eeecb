"""Docker: `docker compose logs`, and the files of its json-file driver."""

from __future__ import annotations

from typing import Any

from pgdyno.capture.logs.wrappers.piece import Piece, Wrapper, lines_of, text_of

_COLOUR = rb"(?:\x1b\[[0-9;]*m)*"


def _of_record(record: dict[str, Any]) -> Piece | None:
    log = record.get("log")
    if not isinstance(log, str) or "stream" not in record:
        return None
    # a line of more than 16 kB is in several records
    return Piece(text_of(log), stamp=text_of(record.get("time")), is_partial=not log.endswith("\n"))


COMPOSE = Wrapper("docker compose logs", lines_of(_COLOUR + rb"(?P<source>[\w.-]+) *\| ?" + _COLOUR + rb"(?P<text>.*)"))
JSON_FILE = Wrapper("Docker's json-file", of_record=_of_record)
