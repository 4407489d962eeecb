"""Tables in documents: by bars, tabs, commas or columns of fixed width, and tables of particular shapes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.importers.documents.table_cells import NO_FIGURES, column_of, figure_of, plain
from pgdyno.importers.parsed import Output, number, whole_number

MOST_ROWS = 2000
"""Rows of a table that are read."""
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
    separator: str = ""
    """The character between cells of a row without bars."""
    is_cut: bool = False
    """Whether rows beyond `MOST_ROWS` follow."""


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
            if found is None or not _has_rate(found):
                return None
            found.separator = separator
            return found
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
    is_cut = len(rows) == MOST_ROWS and number < len(lines) and len(split(lines[number][:LONGEST_ROW])) >= 2
    if _is_second_head(head, rows[0][1]):
        head = _joined(head, rows.pop(0)[1])
    return Grid(at + 1, head, rows, number - at, is_cut=is_cut) if rows else None


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
        known = sum(column.field not in NO_FIGURES for column in columns)
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
        is_cut = len(rows) == MOST_ROWS and number < len(lines) and _fixed_cells(lines[number], len(head)) is not None
        grid = Grid(at + 1, head, rows, number - at, is_cut=is_cut)
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
    return Grid(grid.line, head, rows, grid.taken, grid.separator)


Rows = Sequence[tuple[int, str]]
"""Lines with their numbers."""

SWEEP_COLUMNS = {
    "thc": "clients",
    "threads": "clients",
    "thds": "clients",
    "clients": "clients",
    "elaptime": "duration_s",
    "reads": "reads",
    "writes": "writes",
    "others": "others",
    "tps": "tps",
    "qps": "qps",
    "errs": "errors",
    "errors": "errors",
    "min": "latency_min_ms",
    "avg": "latency_mean_ms",
    "max": "latency_max_ms",
    "p95": "p95",
    "p99": "p99",
}
"""Words of a sweep's heading, and the corresponding fields."""
_WHOLE = {"clients", "reads", "writes", "others", "errors"}

_LONGEST = 300
"""Longest line of a list, or cell, that is examined."""
_PAIR = re.compile(r"(?P<tps>\d[\d,.]{0,30})\s{0,4}/\s{0,4}(?P<ms>[\d. ]{1,30})$")
_PROSE = re.compile(
    r"(?<![\d,])(?P<tps>\d[\d,]{0,30}) TPS on (?P<target>.{1,100}?) at scale factor (?P<scale>\d[\d,]{0,30}?)\.?$",
    re.IGNORECASE,
)
_SCALE = re.compile(r"scale\s{0,4}(?:factor)?\s{0,4}[:=]?\s{0,4}(?P<scale>[\d,]{1,30})", re.IGNORECASE)


def sweep_header(text: str) -> list[str] | None:
    """Return the fields for a line such as `thc elaptime reads … p95`; None if it is not such a heading."""
    words = text.split()
    if len(words) < 4 or any(word.lower() not in SWEEP_COLUMNS for word in words):
        return None
    fields = [SWEEP_COLUMNS[word.lower()] for word in words]
    return fields if "clients" in fields and "tps" in fields else None


def sweep_row(text: str, fields: Sequence[str], line: int) -> Output | None:
    """Return one row of a sweep; None if `text` is none. Text after the last column is a note."""
    words = text.split()
    if len(words) < len(fields):
        return None
    try:
        values = [number(word.removesuffix("s")) for word in words[: len(fields)]]
    except ValueError:
        return None
    output = Output("sysbench", line, line)
    for name, value in zip(fields, values, strict=True):
        if name.startswith("p"):
            output.percentiles_ms[float(name[1:])] = value
            output.printed["percentiles_ms"] = (line, text.strip())
        else:
            output.put(name, int(value) if name in _WHOLE else value, line, text)
    return output


def in_prose(text: str, line: int) -> Output | None:
    """Read a line of a list such as `190,000 TPS on PostgreSQL 9.4.4 at scale factor 3,000`."""
    match = _PROSE.search(text.strip()) if len(text) <= _LONGEST else None
    if match is None:
        return None
    output = Output("table", line, line, target=match["target"])
    try:
        output.put("tps", number(match["tps"]), line, text)
        output.put("scale", whole_number(match["scale"]), line, text)
    except ValueError:
        return None
    return output


def _cells(text: str) -> list[str]:
    """Return the cells of a row, by tabs or Markdown's bars."""
    if "\t" in text:
        return [cell.strip() for cell in text.rstrip("\n").split("\t")]
    if text.count("|") >= 2:
        return [cell.strip() for cell in text.strip().strip("|").split("|")]
    return []


def by_scale(rows: Rows) -> tuple[list[Output], int] | None:
    """Read a table of peaks: scales across, and in pairs of rows clients/threads and tps/latency.

    `rows` begin with its possible first line. Returns the outputs and the number of lines read.
    """
    head = _cells(rows[0][1])
    scales = [_SCALE.fullmatch(cell) if len(cell) <= _LONGEST else None for cell in head[1:]]
    if len([scale for scale in scales if scale]) < 2:
        return None
    columns: list[int | None] = [None]
    for scale in scales:
        columns.append(_maybe_whole(scale["scale"]) if scale else columns[-1])
    target, taken = head[0], 1
    if len(rows) < 2:
        return None
    ratios = _cells(rows[1][1])
    taken += 1
    outputs: list[Output] = []
    while taken + 1 < len(rows):
        (at, clients_text), (below, figures_text) = rows[taken], rows[taken + 1]
        clients, figures = _cells(clients_text), _cells(figures_text)
        if len(clients) < 3 or "/" not in clients[1] or len(figures) != len(clients):
            break
        for place in range(2, len(clients)):
            figure = _peak(clients[place], figures[place])
            if figure is None:
                # the caller reads the lines one by one, and lists those that no parser accepts
                return None
            output = Output("table", at, below, target=target)
            output.put("clients", figure[0], at, clients_text)
            output.put("workers", figure[1], at, clients_text)
            output.put("tps", figure[2], below, figures[place])
            output.put("latency_mean_ms", figure[3], below, figures[place])
            output.scale = columns[place] if place < len(columns) else columns[-1]
            output.words = {"rows": clients[0], "ratio": ratios[place] if place < len(ratios) else ""}
            outputs.append(output)
        taken += 2
    return (outputs, taken) if outputs else None


def _peak(clients: str, figures: str) -> tuple[int, int, float, float] | None:
    """Read clients, threads, throughput and latency of a pair of cells: `26/26` above `423,148/0.123`."""
    pair, figure = clients.split("/"), _PAIR.match(figures) if len(figures) <= _LONGEST else None
    if len(pair) != 2 or figure is None:
        return None
    try:
        # a space may split a number: "0.12 3"
        return (
            whole_number(pair[0]),
            whole_number(pair[1]),
            number(figure["tps"]),
            number(figure["ms"].replace(" ", "")),
        )
    except ValueError:
        return None


def _maybe_whole(text: str) -> int | None:
    try:
        return whole_number(text)
    except ValueError:
        return None
