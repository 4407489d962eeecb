"""Tables in HTML, as rows with bars: each row is on the line on which it begins, so that lines keep their numbers."""

from __future__ import annotations

import re

_BEGIN, _END = re.compile(r"<table\b", re.IGNORECASE), re.compile(r"</table>", re.IGNORECASE)
_ROW = re.compile(r"<tr\b[^>]{0,300}>(?P<cells>.{1,20000}?)(?=</tr>|<tr\b|</table>)", re.IGNORECASE | re.DOTALL)
_CELL = re.compile(r"<t[dh]\b[^>]{0,300}>", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]{0,300}>")
_RULE = "|---|"
"""A line without a row: the readers of tables pass over it."""


def without_html_tables(text: str) -> str:
    """Return `text` with bars in place of the tags of its tables; a table of several rows on one line stays."""
    parts, at = [], 0
    while (begin := _BEGIN.search(text, at)) is not None and (end := _END.search(text, begin.end())) is not None:
        parts += [text[at : begin.start()], _with_bars(text[begin.start() : end.end()])]
        at = end.end()
    return "".join([*parts, text[at:]])


def _with_bars(table: str) -> str:
    lines: dict[int, str] = {}
    at = last = 0
    for row in _ROW.finditer(table):
        cells = [" ".join(_TAG.sub("", cell).replace("|", "/").split()) for cell in _CELL.split(row["cells"])[1:]]
        at += table.count("\n", last, row.start())
        last = row.start()
        if at in lines:
            return table
        lines[at] = f"| {' | '.join(cells)} |"
    return "\n".join(lines.get(number, _RULE) for number in range(table.count("\n") + 1)) if lines else table
