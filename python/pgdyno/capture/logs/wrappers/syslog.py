"""Syslog, and journald's short formats. PostgreSQL splits a message at newlines, and at 900 bytes between two words."""

import re
from collections.abc import Iterator

from pgdyno.capture.logs.wrappers.piece import CUT_MARK, TIME, Piece, Wrapper

_HEADER = re.compile(
    rb"(?:(?:\d+ )?<\d+>)?(?:(?P<stamp>[A-Z][a-z]{2} [ \d]?\d \d\d:\d\d:\d\d(?:\.\d+)?|" + TIME + rb")"
    rb" (?P<source>\S+) [\w./@-]*?(?:postgres|postmaster)[\w./@-]*\[(?P<pid>\d+)\]:"
    rb"|1 (?P<stamp5>" + TIME + rb") (?P<source5>\S+) (?:postgres|postmaster)\S* (?P<pid5>\d+) \S+ (?:-|\[.*?\]))"
    rb" ?(?P<text>.*)",
    re.DOTALL,
)
_CHUNK = re.compile(rb"\[(\d+)(?:-(\d+))?\] ?(.*)", re.DOTALL)
_ESCAPES = {b"#011": b"\t", b"#012": b"\n", b"#015": b"\r"}
_ESCAPE = re.compile(rb"#01[125]")
_SPLIT_BYTES = 900
_LAST_LINES = 2000
"""Lines after which nothing more is expected of a message."""


def _of_line(line: bytes) -> Piece | None:
    found = _HEADER.fullmatch(line)
    if found is None:
        return None
    text = _ESCAPE.sub(lambda escape: _ESCAPES[escape[0]], found["text"])
    stamp, source = found["stamp"] or found["stamp5"], found["source"] or found["source5"]
    return in_chunks(Piece(text, source, stamp, found["pid"] or found["pid5"]))


def in_chunks(piece: Piece) -> Piece:
    """Return `piece` without the numbers that PostgreSQL writes before its text."""
    found = _CHUNK.fullmatch(piece.text)
    if found is None:
        return piece
    if found[2] is not None:
        return piece._replace(text=found[3], chunk=(found[1], int(found[2])))
    # the number of a message, or that of a part without it
    goes_on = found[3].startswith((b"\t", b" "))
    return piece._replace(text=found[3], chunk=(b"", int(found[1]) if goes_on else 1))


class _Message:
    def __init__(self, number: int, piece: Piece) -> None:
        self.number, self.last, self.piece, self.parts = number, number, piece, piece.chunk[1] if piece.chunk else 1
        self.texts = [piece.text]
        self.is_cut = piece.chunk is not None and piece.chunk[1] != 1
        self.is_open = piece.chunk is not None

    def is_continued_by(self, piece: Piece) -> bool:
        before, chunk = self.piece.chunk, piece.chunk
        if not self.is_open or before is None or chunk is None:
            return False
        return chunk[0] == before[0] and chunk[1] > 1

    def add(self, number: int, piece: Piece) -> None:
        assert piece.chunk is not None
        before, text = self.texts[-1], piece.text
        self.is_cut = self.is_cut or piece.chunk[1] != self.parts + 1
        self.parts, self.last = piece.chunk[1], number
        word = re.match(rb"\s*\S*", text)
        may_go_on = len(before) + len(word[0] if word is not None else b"") > _SPLIT_BYTES
        if may_go_on and not text.startswith((b"\t", b"  ")):
            self.texts[-1] = before + text
            return
        # a line of 900 bytes may also be split before a tab
        self.is_cut = self.is_cut or may_go_on
        self.texts.append(text if text.startswith((b"\t", b" ")) else b" " + text)

    def whole(self) -> Piece:
        text = b"\n".join(self.texts)
        return self.piece._replace(text=text + CUT_MARK if self.is_cut else text)


def join_messages(pieces: Iterator[tuple[int, Piece]]) -> Iterator[tuple[int, Piece]]:
    """Yield whole messages in the order of their first parts: those of several processes are mixed."""
    waiting: list[_Message] = []
    current: dict[tuple[bytes, bytes], _Message] = {}
    for number, piece in pieces:
        key = (piece.source, piece.pid)
        message = current.get(key)
        if message is not None and message.is_continued_by(piece):
            message.add(number, piece)
        else:
            if message is not None:
                message.is_open = False
            current[key] = _Message(number, piece)
            waiting.append(current[key])
        ready = 0
        while ready < len(waiting) and (not waiting[ready].is_open or waiting[ready].last + _LAST_LINES < number):
            waiting[ready].is_open = False
            yield waiting[ready].number, waiting[ready].whole()
            ready += 1
        del waiting[:ready]
    for message in waiting:
        yield message.number, message.whole()


SYSLOG = Wrapper("syslog", _of_line, is_split=True)
