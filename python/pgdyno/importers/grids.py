"""Finds tables in a document: by bars, tabs, commas, or columns of fixed width; headings and rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.importers.cells import figure_of
from pgdyno.importers.columns import column_of, plain

MOST_ROWS = 2000
MOST_METRICS = 60
"""Rows of a table whose rows are metrics."""
LONGEST_ROW = 2000
_RULE = frozenset("|-:+= ─\t")
_MAY_BE_HEAD = re.compile(r"tps|qps|tpm|nopm|(?:transactions?|txns?|trans|tx|req|requests)\s?(?:/|per)", re.IGNORECASE)
_NAMES_FIGURES = re.compile(
    _MAY_BE_HEAD.pattern + r"|client|thread|connection|users|接続数|クライアント|클라이언트|连接数", re.IGNORECASE
)
_NO_HEAD = re.compile(r"[=\[\]]|tps:|qps:|(?<![\w.])\d{1,20}(?:\.\d{1,20})?(?![\w%])", re.IGNORECASE)
"""Headings of columns without bars contain no figures."""
RATES = ("tps", "qps", "nopm", "tpm")


@dataclass(slots=True)
class Grid:
    """A table: headings of columns, and rows with their line numbers."""

    line: int
    head: list[str]
    rows: list[tuple[int, list[str], str]]
    """Line number, cells, and the line itself."""
    taken: int
    """Lines, including the heading."""


def grid_at(lines: Sequence[str], at: int) -> Grid | None:
    """Return the table whose heading is line `at` (an index), or None."""
    text = lines[at]
    if len(text) > LONGEST_ROW or is_rule(text):
        return None
    following = lines[at + 1] if at + 1 < len(lines) else ""
    if "|" in text:
        ruled = is_rule(following) and ("|" in following or "+" in following)
        return _gather(lines, at, _by_bars) if ruled or (text.count("|") >= 2 and "|" in following) else None
    if "\t" in text.strip("\n") and "\t" in following:
        found = _gather(lines, at, _by_tabs)
        if found is not None:
            return found
    if _MAY_BE_HEAD.search(text) is None or _NO_HEAD.search(text):
        return None
    for separator in (";", ","):
        if text.count(separator) >= 1 and following.count(separator) >= text.count(separator):
            found = _gather(
                lines, at, lambda row, mark=separator: [cell.strip().strip('"') for cell in row.split(mark)]
            )
            return found if found is not None and _has_rate(found) else None
    return _fixed(lines, at)


def names_figures(text: str) -> bool:
    """Return whether `text` may be the heading of a table within a block of other lines with bars or tabs."""
    return _NAMES_FIGURES.search(text) is not None


def is_rule(text: str) -> bool:
    """Return whether the line separates a table's heading from its rows."""
    stripped = text.strip()
    return len(stripped) >= 3 and set(stripped) <= _RULE and ("-" in stripped or "=" in stripped or "─" in stripped)


def _by_bars(text: str) -> list[str]:
    if "|" not in text:
        return []
    return [cell.strip() for cell in text.strip().removeprefix("|").removesuffix("|").split("|")]


def _by_tabs(text: str) -> list[str]:
    return [cell.strip() for cell in text.rstrip("\r\n").split("\t")] if "\t" in text else []


def _gather(lines: Sequence[str], at: int, split: object) -> Grid | None:
    """Return heading and rows, which `split` cuts into cells; a second row of headings is joined to the first."""
    assert callable(split)
    head: list[str] = split(lines[at])
    rows: list[tuple[int, list[str], str]] = []
    number = at + 1
    while number < len(lines) and len(rows) < MOST_ROWS:
        text = lines[number]
        if is_rule(text):
            number += 1
            continue
        cells = split(text) if len(text) <= LONGEST_ROW else []
        if len(cells) < 2:
            break
        rows.append((number + 1, cells, text))
        number += 1
    if not rows or len(head) < 2:
        return None
    if _is_second_head(head, rows[0][1]):
        head = _joined(head, rows.pop(0)[1])
    return Grid(at + 1, head, rows, number - at) if rows else None


def _is_second_head(head: Sequence[str], row: Sequence[str]) -> bool:
    """Return whether `row` names the columns below `head`, which has the unit: `clients | TPS | |` above `| PG14 |
    PG15`.
    """
    if "" not in head or not any(row):
        return False
    return all(figure_of(cell) is None for cell in row) and any(column_of(cell).field in RATES for cell in head if cell)


def _joined(head: Sequence[str], names: Sequence[str]) -> list[str]:
    joined, carried = [], ""
    for at, name in enumerate(names):
        above = head[at] if at < len(head) else ""
        if above:
            carried = above if column_of(above).field in RATES else ""
        joined.append(f"{above or carried} {name}".strip())
    return joined


def _has_rate(grid: Grid) -> bool:
    """Return whether a column is a rate, and one of the first rows has a figure in it."""
    rates = [at for at, head in enumerate(grid.head) if column_of(head).field in RATES]
    return any(at < len(cells) and figure_of(cells[at]) is not None for _, cells, _ in grid.rows[:3] for at in rates)


def _fixed(lines: Sequence[str], at: int) -> Grid | None:
    """Return a table whose columns are separated only by spaces."""
    text = lines[at].strip()
    for pattern in (r"\s{2,}", r"\s+"):
        head = re.split(pattern, text)
        if not 2 <= len(head) <= 40 or any(len(cell) > 40 for cell in head):
            continue
        columns = [column_of(cell) for cell in head]
        if not any(column.field in RATES for column in columns):
            continue
        known = sum(column.field not in ("label", "ignored") for column in columns)
        if known < 2 and not (pattern == r"\s{2,}" and len(head) == 2):
            continue
        if pattern == r"\s+" and known < len(head) - 1:
            continue
        rows: list[tuple[int, list[str], str]] = []
        number = at + 1
        while number < len(lines) and len(rows) < MOST_ROWS:
            if is_rule(lines[number]):
                number += 1
                continue
            cells = _fixed_cells(lines[number], len(head))
            if cells is None:
                break
            rows.append((number + 1, cells, lines[number]))
            number += 1
        grid = Grid(at + 1, head, rows, number - at)
        if rows and _has_rate(grid):
            return grid
    return None


def _fixed_cells(text: str, count: int) -> list[str] | None:
    """Return the cells of a row of fixed width; those beyond `count` are a note after it."""
    stripped = text.strip()
    if not stripped or len(text) > LONGEST_ROW or not any(character.isdigit() for character in stripped):
        return None
    for pattern in (r"\s{2,}", r"\s+"):
        cells = re.split(pattern, stripped)
        if len(cells) >= count and sum(figure_of(cell) is not None for cell in cells[:count]) >= max(1, count - 2):
            return cells
    return None


def transposed(grid: Grid) -> Grid | None:
    """Return `grid` with its first column as its heading, if that names figures: `| TPS | 4,844 | 5,332 |`."""
    width = len(grid.head)
    if width < 2 or len(grid.rows) > MOST_METRICS:
        return None
    names = [plain(cells[0]) for _, cells, _ in grid.rows]
    rates = [at for at, name in enumerate(names) if column_of(name).field in RATES and column_of(name).target is None]
    if not rates:
        return None
    line, _, text = grid.rows[rates[0]]
    head = ["target", *(cells[0] for _, cells, _ in grid.rows)]
    rows = [
        (line, [grid.head[at], *(cells[at] if at < len(cells) else "" for _, cells, _ in grid.rows)], text)
        for at in range(1, width)
    ]
    return Grid(grid.line, head, rows, grid.taken)
