"""The records of a file of JSON: a record a line, a list of them, or a list within an object, in bounded memory."""

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

MOST_CHARACTERS = 32 << 20
"""Of a record."""
_BETWEEN = re.compile(r"[\s,\[\]]*")
_OPENING = re.compile(r"\{\s*\"(?:events|records|entries|results)\"\s*:\s*\[\s*")
_DECODER = json.JSONDecoder()


def json_records(lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield records and the number of their first lines; None for one that is damaged."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    buffer, first = "", 1
    is_new_line = True
    for number, line in lines:
        text = decoder.decode(line)
        if buffer and is_new_line and text.startswith("{"):
            # whatever came before it has no end
            yield first, None
            buffer = ""
        if not buffer:
            text, first = text[_end_of_gap(text, 0) :], number
        buffer += text
        is_new_line = line.endswith(b"\n")
        if is_new_line and not text.rstrip().endswith(("}", "},", "]")):
            continue
        at = 0
        while at < len(buffer):
            began = at
            try:
                record, at = _DECODER.raw_decode(buffer, at)
            except ValueError:
                if (opening := _OPENING.match(buffer, at)) is None:
                    break
                at = opening.end()
                continue
            inner = record if isinstance(record, dict) and _OPENING.match(buffer, began) is None else {}
            for each in [inner] if inner else _list_in(record):
                yield first, each
            at, first = _end_of_gap(buffer, at), number
        buffer = buffer[at:] if len(buffer) - at < MOST_CHARACTERS else ""
    # what follows a list is no record
    if buffer.startswith("{"):
        yield first, None


def _list_in(record: object) -> Iterator[dict[str, Any]]:
    values: object = next(iter(record.values()), None) if isinstance(record, dict) else None
    if isinstance(values, list):
        yield from (each for each in values if isinstance(each, dict))


def _end_of_gap(text: str, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return found.end() if found is not None else at
