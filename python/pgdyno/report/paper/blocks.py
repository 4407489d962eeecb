"""What a printed page is made of: values that the typst template sets. No text in them is ever markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from pgdyno.report import palette
from pgdyno.report.charts.layout import Layout
from pgdyno.report.figures import Figure
from pgdyno.report.html import joined
from pgdyno.report.palette import Theme
from pgdyno.report.tables import Table
from pgdyno.report.texts import Language, current_language, gettext

Block = dict[str, Any]
"""`kind` says which; `keep` is 0 for what a page cannot do without, and the higher, the sooner it is left out."""

MOST_ROWS = 400
"""Of a table: more of them nobody reads on paper."""
LONG_CELL = 48
"""Characters; longer ones are words, whatever their column holds."""
TEXT_FONT, CODE_FONT = "Libertinus Serif", "DejaVu Sans Mono"
"""Both come with typst: a report in English looks the same wherever it is set."""
_UNBROKEN = 14
_TOKEN = re.compile(rf"\S{{{_UNBROKEN + 1},}}")
_JOINT = re.compile(r"(?<=[/_.,=:;&?)\]}-])(?=\w)")
_DRAWING = re.compile(r"<svg\b.*?</svg>", re.DOTALL)


def heading(text: str, level: int = 1, *, keep: int = 0) -> Block:
    """A heading of a section, or of a part of it."""
    return {"kind": "heading", "text": text, "level": level, "keep": keep}


def line(text: str, look: str = "plain", *, keep: int = 0) -> Block:
    """A paragraph; `look` is plain, quiet, strong or bad."""
    return {"kind": "text", "text": breakable(joined(text)), "look": look, "keep": keep}


def listed(lines: Iterable[str], *, keep: int = 0) -> Block:
    """A list of sentences."""
    return {"kind": "list", "lines": [breakable(line) for line in lines], "keep": keep}


def code(text: str) -> Block:
    """Lines as they are typed."""
    return {"kind": "code", "text": text.rstrip("\n"), "keep": 0}


def pairs(rows: Sequence[tuple[str, str]]) -> Block:
    """Names and what they are."""
    return {"kind": "pairs", "rows": [[name, breakable(value)] for name, value in rows], "keep": 0}


def figure(of: Figure, *, keep: int = 0) -> Block:
    """A picture under its sentence."""
    return {"kind": "figure", "title": joined(of.title), "drawings": drawings(of.drawn(Layout.PRINT)), "keep": keep}


def drawings(markup: str) -> list[str]:
    """Each drawing of `markup`, with the colours that it has on white."""
    return [_standalone(each) for each in _DRAWING.findall(markup)]


def _standalone(drawing: str) -> str:
    space = "" if "xmlns=" in drawing.partition(">")[0] else ' xmlns="http://www.w3.org/2000/svg"'
    return drawing.replace(">", f"{space}><style>{_style(current_language())}</style>", 1)


@cache
def _style(language: Language) -> str:
    family = ",".join(f"'{name}'" for name in text_fonts(language))
    return palette.chart_css(Theme.LIGHT) + f"text{{font-size:13px;font-family:{family}}}"


def text_fonts(language: Language) -> list[str]:
    """What text is set in, the first that has a letter; other languages' fonts are those of the system."""
    others = palette.FONTS.get(language.value, "")
    return [TEXT_FONT, *(name.strip("'") for name in others.split(",") if name)]


def table(of: Table, *, keep: int = 0) -> Block:
    """A table; one that is too long for paper ends with a word about it."""
    return rows_table(of.caption, of.headings, of.rows, of.text_columns, keep=keep)


def rows_table(
    caption: str, headings: Sequence[str], rows: Sequence[Sequence[str | Block]], words: int, *, keep: int = 0
) -> Block:
    """The same of rows; a cell may be a drawing. `words` columns from the left name a row, the rest are figures."""
    if len(rows) > MOST_ROWS:
        caption = gettext(
            "{caption}; the first {count} of {all} rows: the HTML report has all",
            caption=caption,
            count=MOST_ROWS,
            all=f"{len(rows):,}",
        )
    return {
        "kind": "table",
        "caption": caption,
        "headings": [breakable(each) for each in headings],
        "rows": [[_cell(each) for each in row] for row in rows[:MOST_ROWS]],
        "words": words,
        "keep": keep,
    }


def breakable(text: str) -> str:
    """`text` with places at which a long name may be broken: nothing runs over the edge of a cell."""
    return _TOKEN.sub(lambda token: _broken(token.group()), text)


def _broken(token: str) -> str:
    parts = _JOINT.sub("\u200b", token).split("\u200b")
    return "\u200b".join(part[at : at + _UNBROKEN] for part in parts for at in range(0, len(part), _UNBROKEN))


def _cell(cell: str | Block) -> Block:
    if not isinstance(cell, str):
        return cell
    return {"text": breakable(cell), "long": len(cell) > LONG_CELL}
