"""Blocks of a report as lines that fit a terminal; without pictures in a pipe, a file, and without Unicode."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType

from rich.cells import cell_len
from rich.text import Text

from pgdyno.report.charts.page_figures import Figure
from pgdyno.report.sections.section_blocks import Block, Code, Facts, Heading, Items, Paragraph, Reasons, plain
from pgdyno.report.table import UNSEEN, Picture, Table, look_of
from pgdyno.report.terminal.summary_file import Layout
from pgdyno.report.terminal.text_drawing import ACCENT, AMBER, RED, cut, printable, set_cell, words_of, wrap_text

STYLES: Mapping[str, str] = MappingProxyType(
    {"strong": "bold", "amber": AMBER, "bad": RED, "mark": ACCENT, "notes": AMBER, "behind": "dim", "quiet": "dim"}
)
"""Styles of the looks that blocks and cells have."""
GAP = 2
NAME, SHORTEST_NAME = 24, 8
"""Columns that a name gets before others are left out for it, and at least."""


def block_lines(blocks: Iterable[Block], layout: Layout) -> list[Text]:
    """Return `blocks`, each after an empty line unless after a heading; without what a page unfolds or scripts."""
    lines, is_below = [], False
    for block in blocks:
        made = list(_lines(block, layout, layout.room))
        lines += [*([] if is_below else [Text("")]), *made] if made else []
        is_below = isinstance(block, Heading)
    return lines


def _lines(block: Block, layout: Layout, room: int) -> Iterator[Text]:
    match block:
        case Table():
            yield from table_lines(block, layout)
        case Figure(title=title, typed=typed) if typed is not None and layout.pictures:
            chart = [Text(line, ACCENT) for line in typed(room)]
            yield from [*text_lines(title, room, "bold"), *chart] if chart else []
        case Code(text):
            yield from map(Text, map(printable, text.splitlines()))
        case _:
            for text, look, indent in _texts(block):
                yield from text_lines(text, room, STYLES.get(look, ""), indent)


def _texts(block: Block) -> Iterator[tuple[str, str, int]]:
    """Yield text, look, and the indent of its further lines."""
    match block:
        case str():
            yield block, "", 0
        case Paragraph(text, look):
            yield text, look, 0
        case Heading(text):
            yield text, "strong", 0
        case Items(items, look):
            yield from ((f"- {plain(each)}", look, 2) for each in items)
        case Reasons(rows):
            yield from ((f"{row.word}: {row.name}: {row.message}", row.verdict, 4) for row in rows)
        case Facts(facts):
            yield from ((f"{name}: {value}", "", 4) for name, value in facts)


def text_lines(text: str, room: int, style: str = "", indent: int = 0) -> list[Text]:
    """Return `text` in lines of at most `room` columns, `indent` before all but the first."""
    return [Text(line, style) for line in wrap_text(printable(plain(text)), room, " " * indent, chop=True)]


def table_lines(table: Table, layout: Layout) -> list[Text]:
    """Return the table in columns, of which it may leave out some; as sentences if it is too wide."""
    room = layout.room
    caption = text_lines(table.caption, room, "bold") if table.caption else []
    shown = table.visible_columns(pictures=layout.pictures).fit_columns(
        lambda each: _widths(each, room, NAME) is not None
    )
    widths = _widths(shown, room, SHORTEST_NAME)
    if widths is None:
        return [*caption, *(line for each in table.sentences() for line in text_lines(each, room, indent=4))]
    wrapped_headings = [wrap_text(_heading(each), width) for each, width in zip(shown.headings, widths, strict=True)]
    headings = zip_longest(*wrapped_headings, fillvalue="")
    is_left = [at < shown.text_columns or "words" in look_of(each) for at, each in enumerate(shown.headings)]
    return [
        *caption,
        *(_line([each.removesuffix(",") for each in row], widths, is_left, "dim") for row in headings),
        *(_line(row, widths, is_left) for row in shown.rows),
    ]


def _widths(table: Table, room: int, shortest: int) -> list[int] | None:
    """Return the width of each column if they fit with names of `shortest` columns: names grow first, then drawings,
    then headings if all of them fit on one line. None if they do not fit.
    """
    widths, most = [], []
    headings = [*map(_heading, table.headings)]
    for at, heading in enumerate(headings):
        cells = [row[at] for row in table.rows]
        word = max(map(cell_len, words_of(heading)), default=0)
        drawn = [each.columns for each in cells if isinstance(each, Picture)]
        width = max((word, *(fewest for fewest, _ in drawn), *(cell_len(printable(each)) for each in cells)))
        shrinks = table.ranks and at < table.text_columns
        widths.append(max(min(width, shortest), word) if shrinks else width)
        most.append(max((width, *(columns for _, columns in drawn))))
    free = room - _total(widths)
    if free < 0:
        return None
    for at in range(len(widths)):
        grown = min(widths[at] + free, most[at])
        free -= grown - widths[at]
        widths[at] = grown
    whole = [max(pair) for pair in zip(widths, map(cell_len, headings), strict=True)]
    return whole if _total(whole) <= room else widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _heading(heading: str) -> str:
    return "" if look_of(heading) == UNSEEN else printable(heading)


def _line(cells: Sequence[str], widths: Sequence[int], is_left: Sequence[bool], style: str = "") -> Text:
    line = Text()
    for at, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        text = cell.typed(width) if isinstance(cell, Picture) else cut(printable(cell), width)
        own = ACCENT if isinstance(cell, Picture) else " ".join(STYLES.get(each, "") for each in look_of(cell).split())
        line.append(" " * GAP if at else "").append(set_cell(text, width, right=not is_left[at]), style or own.strip())
    line.rstrip()
    return line
