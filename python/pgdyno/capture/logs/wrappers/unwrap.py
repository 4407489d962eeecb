"""Takes a wrapper off the lines of a log."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import BinaryIO

from pgdyno.capture.logs.log_prefix import PARTS, SEVERITIES
from pgdyno.capture.logs.wrappers.json_records import json_records
from pgdyno.capture.logs.wrappers.piece import CUT_MARK, Piece, Wrapper
from pgdyno.capture.logs.wrappers.syslog import join_messages

Lines = Iterator[tuple[int, bytes]]
"""Lines without their newlines, and their numbers in the file, which never become smaller."""
_LONGEST_BYTES, _PIECE_BYTES = 16 << 20, 1 << 20
_BEGINS = re.compile(rf"[^\n]{{0,400}}?(?:{SEVERITIES}):  ".encode())
_OTHER = re.compile(rf"[^\n]{{0,400}}?(?:{PARTS}):  ".encode())


def lines_of_file(file: BinaryIO, most: int = _LONGEST_BYTES) -> Lines:
    """Yield the lines of `file` with their newlines; longer ones than `most` bytes in pieces."""
    number = 1
    while line := file.readline(most):
        yield number, line
        number += line.endswith(b"\n")


def pieces(lines: Lines, wrapper: Wrapper) -> Iterator[tuple[int, Piece, bool]]:
    """Yield the pieces of `lines`, with their newlines, and whether they had the wrapper: others stay as they are."""
    if wrapper.of_record is not None:
        for number, record in json_records(lines):
            piece = wrapper.of_record(record) if record is not None else None
            if piece is None:
                # part of what came before may be in it
                yield number, Piece(CUT_MARK), False
            else:
                yield number, piece, True
        return
    assert wrapper.of_line is not None
    source = b""
    for number, line in lines:
        text = line.rstrip(b"\r\n")
        found = wrapper.of_line(text)
        source = found.source if found is not None else source
        yield number, found if found is not None else Piece(text, source), found is not None


class Unwrapping:
    """The pieces of one source without their wrapper."""

    def __init__(self, wrapper: Wrapper, source: bytes, *, stamped: bool, year: int) -> None:
        """`stamped` if the lines have no time and process but the wrapper's; `year` completes a time without one."""
        self.wrapper, self.source = wrapper, source
        self.stamped = stamped
        self.count = 0
        """Pieces whose wrapper was taken off."""
        self.others = 0
        """Pieces of other sources, which are left out."""
        self.first_other = 0
        self._year = year

    def fresh(self) -> Unwrapping:
        """Return one that has taken nothing off yet."""
        return Unwrapping(self.wrapper, self.source, stamped=self.stamped, year=self._year)

    def lines(self, lines: Lines) -> Lines:
        """Yield the lines of the log with their newlines."""
        last = 0
        for number, text in self._texts(lines):
            for place, line in enumerate(text.split(b"\n")):
                is_entry = place == 0 or _BEGINS.match(line) is not None
                if is_entry:
                    last = max(number, last + 1)
                elif not line.startswith((b"\t", b" ")) and line and _OTHER.match(line) is None:
                    # it continues the piece, but its tab is gone
                    line = b" " + line  # noqa: PLW2901 - the line as it is read
                yield last, line + b"\n"

    def _texts(self, lines: Lines) -> Lines:
        begun, text = 0, None
        chosen = self._choose_pieces(lines)
        for number, piece in join_messages(chosen) if self.wrapper.is_split else chosen:
            if text is None:
                begun, text = number, self._stamp(piece) + piece.text if self.stamped else piece.text
            else:
                text += piece.text
            if not piece.is_partial or len(text) > _LONGEST_BYTES:
                yield begun, text
                text = None
        if text is not None:
            yield begun, text + CUT_MARK

    def _choose_pieces(self, lines: Lines) -> Iterator[tuple[int, Piece]]:
        for number, piece, is_wrapped in pieces(lines, self.wrapper):
            if is_wrapped and piece.source != self.source:
                self.others += 1
                self.first_other = self.first_other or number
                continue
            self.count += is_wrapped
            if is_wrapped or piece.source in (self.source, b""):
                yield number, piece

    def _stamp(self, piece: Piece) -> bytes:
        if not piece.stamp or piece.text.startswith((b"\t", b" ")):
            return b""
        text = piece.stamp.decode("ascii", "replace").replace("Z", "+00:00").replace(",", ".")
        try:
            at = (
                datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text))
                if text[0].isdigit()
                else datetime.strptime(f"{self._year} {text.partition('.')[0]}", "%Y %b %d %H:%M:%S").replace(
                    tzinfo=UTC
                )
            )
        except ValueError:
            return b""
        milliseconds = f".{at.microsecond // 1000:03}" if "." in text else ""
        zone = f"{at:%z}" or "UTC"
        return f"{at:%Y-%m-%d %H:%M:%S}{milliseconds} {zone} [{piece.pid.decode() or 0}] ".encode()


class UnwrappedFile:
    """Reads like a file what is left of a log without its wrappers."""

    def __init__(self, file: BinaryIO, layers: Sequence[Unwrapping]) -> None:
        is_json = layers[0].wrapper.of_record is not None
        lines = lines_of_file(file, _PIECE_BYTES if is_json else _LONGEST_BYTES)
        for layer in layers:
            lines = layer.lines(lines)
        self._lines, self._rest = lines, bytearray()
        self._numbers, self._before = array("Q"), 1

    def read(self, size: int) -> bytes:
        """Return `size` bytes, less at the end."""
        while len(self._rest) < size and (found := next(self._lines, None)) is not None:
            self._numbers.append(found[0])
            self._rest += found[1]
        data = bytes(self._rest[:size])
        del self._rest[:size]
        return data

    def number(self, line: int) -> int:
        """Return the number in the file of a line of the log."""
        if not self._numbers:
            return line
        return self._numbers[min(max(line - self._before, 0), len(self._numbers) - 1)]

    def forget(self, line: int) -> None:
        """Lines before `line` are not asked for any more."""
        del self._numbers[: line - self._before]
        self._before = max(line, self._before)
