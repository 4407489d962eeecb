"""The blocks of a printed page: values that the typst template sets. No text in them is markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from pgdyno.report.charts import palette
from pgdyno.report.charts.layout import Layout
from pgdyno.report.charts.page_figures import Figure
from pgdyno.report.charts.palette import Theme
from pgdyno.report.html import joined
from pgdyno.report.report_tables import Table
from pgdyno.report.sections.section import FilledSection
from pgdyno.report.translation import Language, current_language, gettext

Block = dict[str, Any]
"""`kind` selects the layout; `keep` is 0 if the page needs the block; otherwise, higher values are left out first."""

MOST_ROWS = 400
"""Largest number of rows of a table on paper."""
LONG_CELL = 48
"""Characters; longer cells count as text, whatever their column."""
TEXT_FONT, CODE_FONT = "Libertinus Serif", "DejaVu Sans Mono"
"""Both come with typst: an English report looks the same on every machine."""
_UNBROKEN = 14
_TOKEN = re.compile(rf"\S{{{_UNBROKEN + 1},}}")
_JOINT = re.compile(r"(?<=[/_.,=:;&?)\]}-])(?=\w)")
_DRAWING = re.compile(r"<svg\b.*?</svg>", re.DOTALL)


def heading(text: str, level: int = 1, *, keep: int = 0) -> Block:
    return {"kind": "heading", "text": text, "level": level, "keep": keep}


def line(text: str, look: str = "plain", *, keep: int = 0) -> Block:
    """Return a paragraph; `look` is plain, quiet, strong or bad."""
    return {"kind": "text", "text": breakable(joined(text)), "look": look, "keep": keep}


def listed(lines: Iterable[str], *, keep: int = 0) -> Block:
    return {"kind": "list", "lines": [breakable(line) for line in lines], "keep": keep}


def code(text: str) -> Block:
    return {"kind": "code", "text": text.rstrip("\n"), "keep": 0}


def pairs(rows: Sequence[tuple[str, str]]) -> Block:
    return {"kind": "pairs", "rows": [[name, breakable(value)] for name, value in rows], "keep": 0}


def figure(of: Figure, *, keep: int = 0) -> Block:
    return {"kind": "figure", "title": joined(of.title), "drawings": drawings(of.drawn(Layout.PRINT)), "keep": keep}


def drawings(markup: str) -> list[str]:
    """Return each drawing of `markup`, with its colours on white."""
    return [_standalone(each) for each in _DRAWING.findall(markup)]


def _standalone(drawing: str) -> str:
    space = "" if "xmlns=" in drawing.partition(">")[0] else ' xmlns="http://www.w3.org/2000/svg"'
    return drawing.replace(">", f"{space}><style>{_style(current_language())}</style>", 1)


@cache
def _style(language: Language) -> str:
    family = ",".join(f"'{name}'" for name in text_fonts(language))
    return palette.chart_css(Theme.LIGHT) + f"text{{font-size:13px;font-family:{family}}}"


def text_fonts(language: Language) -> list[str]:
    """Return the fonts of text, in order of preference; other languages' fonts come from the system."""
    others = palette.FONTS.get(language.value, "")
    return [TEXT_FONT, *(name.strip("'") for name in others.split(",") if name)]


def table(of: Table, *, keep: int = 0) -> Block:
    """Return a table; one that is too long for paper ends with a remark."""
    return rows_table(of.caption, of.headings, of.rows, of.text_columns, keep=keep)


def rows_table(
    caption: str, headings: Sequence[str], rows: Sequence[Sequence[str | Block]], words: int, *, keep: int = 0
) -> Block:
    """Return a table from rows; a cell may be a drawing. The first `words` columns name a row, the rest are figures."""
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


def section_blocks(of: FilledSection) -> Iterator[Block]:
    """Yield the content of a section, without its heading and its folded tables."""
    for each in of.unfolded:
        yield line(each) if isinstance(each, str) else figure(each) if isinstance(each, Figure) else table(each)


def breakable(text: str) -> str:
    """Return `text` with places at which a long name may break, so that it fits its cell."""
    return _TOKEN.sub(lambda token: _broken(token.group()), text)


def _broken(token: str) -> str:
    parts = _JOINT.sub("\u200b", token).split("\u200b")
    return "\u200b".join(part[at : at + _UNBROKEN] for part in parts for at in range(0, len(part), _UNBROKEN))


def _cell(cell: str | Block) -> Block:
    if not isinstance(cell, str):
        return cell
    return {"text": breakable(cell), "long": len(cell) > LONG_CELL}
