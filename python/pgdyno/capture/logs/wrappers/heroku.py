"""Heroku's logplex: `heroku logs`, and log drains."""

from __future__ import annotations

import re

from pgdyno.capture.logs.wrappers.piece import TIME, Piece, Wrapper

_LINE = re.compile(
    rb"(?:(?:\d+ )?<\d+>1 )?(?P<stamp>" + TIME + rb") (?:app\[postgres(?:\.(?P<one>\d+))?\]:"
    rb"|\S+ app postgres(?:\.(?P<other>\d+))? -) \[(?P<source>\w+)\] \[(?P<message>\d+)-(?P<part>\d+)\] ?(?P<text>.*)",
    re.DOTALL,
)


def _of_line(line: bytes) -> Piece | None:
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    part = int(found["part"])
    text = found["text"].lstrip(b" ") if part == 1 else found["text"]
    pid = found["one"] or found["other"] or b"0"
    return Piece(text.replace(b"#011", b"\t"), found["source"], found["stamp"], pid, (found["message"], part))


LOGPLEX = Wrapper("Heroku's logplex", _of_line, is_split=True)
