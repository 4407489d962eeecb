"""Wraps text to columns: Chinese, Japanese and Korean characters are two columns wide, and lines may break after
most.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len

_CLOSING = "\u3001\u3002\uff0c\uff0e\u30fb\uff1a\uff1b\uff1f\uff01\uff09\u300d\u300f\u3011\u201d\u2019,.:;?!)]}%"
"""Characters that must not begin a line: full stops, commas, closing brackets and quotes."""
_OPENING = "\uff08\u300c\u300e\u3010\u201c\u2018([{"
"""Characters that must not end a line."""
_BETWEEN = re.compile(r"\s+(?!%)")
_IDEOGRAPH = re.compile(r"[\u2e80-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")
"""Chinese and Japanese lines may break at these; Korean has spaces."""


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Return `text` in lines of at most `width` columns, `indent` before all but the first; longer words are not
    broken.
    """
    lines: list[str] = []
    line = ""
    for space, piece in _pieces(text):
        longer = f"{line}{space}{piece}" if line.strip() else line + piece
        if line.strip() and cell_len(longer) > width:
            lines.append(line)
            line = indent + piece
        else:
            line = longer
    return [*lines, line] if line.strip() else lines


def set_cell(text: str, width: int, *, right: bool) -> str:
    """Return `text` padded to `width` columns."""
    space = " " * max(width - cell_len(text), 0)
    return space + text if right else text + space


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Return unbreakable pieces, each with the space before it: words, and single ideographs with their punctuation."""
    for at, word in enumerate(words_of(text)):
        space, piece = (" " if at else ""), ""
        for character in word:
            if piece and _may_break(piece[-1], character):
                yield space, piece
                space, piece = "", ""
            piece += character
        yield space, piece


def words_of(text: str) -> list[str]:
    """Return the words of `text`, a percent sign with its number: no line begins with it."""
    return _BETWEEN.split(text.strip()) if text.strip() else []


def _may_break(before: str, after: str) -> bool:
    if after in _CLOSING or before in _OPENING:
        return False
    return bool(_IDEOGRAPH.match(before) or _IDEOGRAPH.match(after))
