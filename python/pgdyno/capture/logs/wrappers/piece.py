"""What a wrapper has around a part of a log, and the part."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

CUT_MARK = b" [truncated]"
"""Ends a text whose rest is missing, so that whoever reads the log sees it."""
TIME = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
"""A pattern of a time of RFC 3339."""


class Piece(NamedTuple):
    """A part of a log: a line, a piece of one, or the lines of an entry."""

    text: bytes
    source: bytes = b""
    """The container, host or stream that it comes from."""
    stamp: bytes = b""
    pid: bytes = b""
    chunk: tuple[bytes, int] | None = None
    """The number of the message, which is split, and of this part of it from 1."""
    is_partial: bool = False
    """Whether the next piece of the source continues the last line."""


class Wrapper(NamedTuple):
    """A wrapper; one of both functions is None."""

    name: str
    of_line: Callable[[bytes], Piece | None] | None = None
    """Returns the piece of a line without its newline; None if the line does not have the wrapper."""
    of_record: Callable[[dict[str, Any]], Piece | None] | None = None
    is_split: bool = False
    """Whether PostgreSQL splits messages before they get the wrapper."""


def lines_of(pattern: bytes) -> Callable[[bytes], Piece | None]:
    """Return `of_line` for a pattern with the group `text`, and perhaps `source` and `stamp`."""
    compiled = re.compile(pattern, re.DOTALL)

    def piece(line: bytes) -> Piece | None:
        found = compiled.fullmatch(line)
        if found is None:
            return None
        groups = found.groupdict(b"")
        return Piece(groups["text"], groups.get("source", b""), groups.get("stamp", b""))

    return piece


def text_of(value: object) -> bytes:
    """Return a string of JSON as bytes, without the newline at its end; other values are empty."""
    return value.rstrip("\r\n").encode("utf-8", "replace") if isinstance(value, str) else b""
