"""Tables in documents: by bars, tabs, commas or columns of fixed width, and peaks by scale."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest

from pgdyno.importers.documents.table_cells import NO_FIGURES, column_of, figure_of, plain_head
from pgdyno.importers.parsed import RATES, Output, number, unused_line, whole_number
from pgdyno.messages import Message
from pgdyno.records import UnusedLine

MOST_ROWS = 2000
MOST_METRICS = 60
"""Rows of a table whose rows are metrics."""
LONGEST_ROW = 2000
_MOST_COLUMNS = _LONGEST_HEAD = 40
_RULE = frozenset("|-:+= ─\t")
_MAY_BE_HEAD = re.compile(r"tps|qps|tpm|nopm|(?:transactions?|txns?|trans|tx|req|requests)\s?(?:/|per)", re.IGNORECASE)
_NAMES_FIGURES = re.compile(
    _MAY_BE_HEAD.pattern + r"|client|thread|connection|users|接続数|クライアント|클라이언트|连接数", re.IGNORECASE
)
_NO_HEAD = re.compile(r"[=\[\]]|tps:|qps:|(?<![\w.])\d{1,20}(?:\.\d{1,20})?(?![\w%])", re.IGNORECASE)


_RATE = re.compile(r"\b(?:tps|qps|tpm|nopm)\s?=\s?\d", re.IGNORECASE)


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


@dataclass(slots=True)
class Peaks:
    taken: int
    """Lines."""
    outputs: list[Output] = field(default_factory=list)


def grid_at(lines: Sequence[str], at: int) -> Grid | None:
    """Return the table whose heading is line `at` (an index), or None."""
    text = lines[at]
    if len(text) > LONGEST_ROW or is_rule(text):
        return None
    following = lines[at + 1] if at + 1 < len(lines) else ""
    if "|" in text:
        ruled = is_rule(following) and ("|" in following or "+" in following)
        is_table = ruled or (text.count("|") >= 2 and "|" in following and not _RATE.search(text))
        return _gather(lines, at, _split_bars(text), _split_bars) if is_table else None
    if "\t" in text.strip("\n") and "\t" in following:
        found = _gather(lines, at, _split_tabs(text), _split_tabs)
        if found is not None:
            return found
    if _MAY_BE_HEAD.search(text) is None or _NO_HEAD.search(text):
        return None
    for separator in (";", ","):
        if 1 <= text.count(separator) <= following.count(separator):
            split = partial(_split_cells, separator=separator)
            found = _gather(lines, at, split(text), split)
            if found is None or not _has_rate(found):
                return None
            found.separator = separator
            return found
    return _fixed_grid(lines, at)


def _split_cells(text: str, separator: str) -> list[str]:
    return [cell.strip().strip('"') for cell in text.split(separator)]


def names_figures(text: str) -> bool:
    """Return whether `text` may be the heading of a table within a block of other lines with bars or tabs."""
    return _NAMES_FIGURES.search(text) is not None


def is_rule(text: str) -> bool:
    stripped = text.strip()
    return len(stripped) >= 3 and set(stripped) <= _RULE and ("-" in stripped or "=" in stripped or "─" in stripped)


def _split_bars(text: str) -> list[str]:
    return [cell.strip() for cell in text.strip().removeprefix("|").removesuffix("|").split("|")] if "|" in text else []


def _split_tabs(text: str) -> list[str]:
    return [cell.strip() for cell in text.rstrip("\r\n").split("\t")] if "\t" in text else []


def _gather(lines: Sequence[str], at: int, head: list[str], split: Callable[[str], list[str]]) -> Grid | None:
    rows: list[tuple[int, list[str], str]] = []
    number, is_cut = at + 1, False
    while number < len(lines) and not is_cut:
        text = lines[number]
        if not is_rule(text):
            cells = split(text) if len(text) <= LONGEST_ROW else []
            if len(cells) < 2:
                break
            is_cut = len(rows) == MOST_ROWS
            if not is_cut:
                rows.append((number + 1, cells, text))
        number += not is_cut
    if not rows or len(head) < 2:
        return None
    if _is_second_head(head, rows[0][1]):
        head = _join_heads(head, rows.pop(0)[1])
    return Grid(at + 1, head, rows, number - at, is_cut=is_cut) if rows else None


def _is_second_head(head: Sequence[str], row: Sequence[str]) -> bool:
    if "" not in head or not any(row):
        return False
    return all(figure_of(cell) is None for cell in row) and any(column_of(cell).field in RATES for cell in head if cell)


def _join_heads(head: Sequence[str], names: Sequence[str]) -> list[str]:
    joined, carried = [], ""
    for above, name in zip_longest(head[: len(names)], names, fillvalue=""):
        if above:
            carried = above if column_of(above).field in RATES else ""
        joined.append(f"{above or carried} {name}".strip())
    return joined


def _has_rate(grid: Grid) -> bool:
    rates = [at for at, head in enumerate(grid.head) if column_of(head).field in RATES]
    return any(at < len(cells) and figure_of(cells[at]) is not None for _, cells, _ in grid.rows[:3] for at in rates)


def _fixed_grid(lines: Sequence[str], at: int) -> Grid | None:
    for pattern in (r"\s{2,}", r"\s+"):
        head = re.split(pattern, lines[at].strip())
        if not 2 <= len(head) <= _MOST_COLUMNS or any(len(cell) > _LONGEST_HEAD for cell in head):
            continue
        columns = [column_of(cell) for cell in head]
        known = sum(column.field not in NO_FIGURES for column in columns)
        least = len(head) - 1 if pattern == r"\s+" else 1 if len(head) == 2 else 2
        if known >= max(least, 1 + (pattern == r"\s+")) and any(column.field in RATES for column in columns):
            grid = _gather(lines, at, head, partial(_fixed_cells, count=len(head)))
            if grid is not None and _has_rate(grid):
                return grid
    return None


def _fixed_cells(text: str, count: int) -> list[str]:
    # cells beyond `count` are a note after the row
    for pattern in (r"\s{2,}", r"\s+"):
        cells = re.split(pattern, text.strip())
        if len(cells) >= count and sum(figure_of(cell) is not None for cell in cells[:count]) >= max(1, count - 2):
            return cells
    return []


def transpose(grid: Grid) -> Grid | None:
    """Return `grid` with its first column as its heading, if that names figures: `| TPS | 4,844 | 5,332 |`."""
    width = len(grid.head)
    if width < 2 or len(grid.rows) > MOST_METRICS:
        return None
    names = [plain_head(cells[0]) for _, cells, _ in grid.rows]
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


_LONGEST_CELL = 300
MOST_PEAKS = 400
"""Lines of a table of peaks that are read."""
_PAIR = re.compile(r"(?P<tps>\d[\d,.]{0,30})\s{0,4}/\s{0,4}(?P<ms>[\d. ]{1,30})$")
_SCALE = re.compile(r"scale\s{0,4}(?:factor)?\s{0,4}[:=]?\s{0,4}(?P<scale>[\d,]{1,30})", re.IGNORECASE)


def peaks_at(lines: Sequence[str], at: int) -> Peaks | None:
    """Return a table of peaks at line index `at`: scales across, in pairs of rows clients/threads and tps/latency."""
    if "scale" not in lines[at].lower() or len(lines) < at + 2:
        return None
    head, ratios = _peak_cells(lines[at]), _peak_cells(lines[at + 1])
    scales = [_SCALE.fullmatch(cell) if len(cell) <= _LONGEST_CELL else None for cell in head[1:]]
    if sum(scale is not None for scale in scales) < 2:
        return None
    columns: list[int | None] = [None]
    try:
        for scale in scales:
            columns.append(whole_number(scale["scale"]) if scale else columns[-1])
        peaks = Peaks(2)
        while at + peaks.taken + 1 < len(lines) and peaks.taken < MOST_PEAKS:
            first = at + peaks.taken
            rows = [_peak_cells(lines[first]), _peak_cells(lines[first + 1])]
            if len(rows[0]) < 3 or "/" not in rows[0][1] or len(rows[0]) != len(rows[1]):
                break
            # the lines are read one by one, and listed, if a cell is not a peak
            clients, figures = (row[2:] for row in rows)
            for place, (pair, figure) in enumerate(zip(clients, figures, strict=True), start=2):
                output = _peak(pair, figure, first + 1)
                output.target, output.group = head[0], at + 1
                output.scale = columns[min(place, len(columns) - 1)]
                output.words = {"rows": rows[0][0], "ratio": ratios[place] if place < len(ratios) else ""}
                peaks.outputs.append(output)
            peaks.taken += 2
    except ValueError:
        return None
    return peaks if peaks.outputs else None


def _peak_cells(text: str) -> list[str]:
    return _split_tabs(text) or (_split_bars(text) if text.count("|") >= 2 else [])


def _peak(pair: str, figure: str, line: int) -> Output:
    clients, workers = pair.split("/")
    match = _PAIR.match(figure) if len(figure) <= _LONGEST_CELL else None
    if match is None:
        raise ValueError(f"{figure!r} is not a rate and a latency")
    output = Output("table", line, line + 1)
    output.put("clients", whole_number(clients), line, pair)
    output.put("workers", whole_number(workers), line, pair)
    output.put("tps", number(match["tps"]), line + 1, figure)
    # a space may split a number: "0.12 3"
    output.put("latency_mean_ms", number(match["ms"].replace(" ", "")), line + 1, figure)
    return output


_TIME = re.compile(
    r"(?:(?:elapsed|unix|epoch|wall|clock|sample|time|date) ?)*(?:elapsed|epoch|clock|time|timestamp|date ?time|ts|t|"
    r"s|secs?|seconds?|minutes?|interval|zeit|sekunden?|segundos?|tempo|tiempo|время|секунд[аы]?|時間|时间|秒|시간|초)"
    r"(?: ?[(\[]?(?:s|secs?|seconds?|minutes?|utc)[)\]]?)?"
)
_ALIKE = 1.1
"""Times are the lengths of runs if the longest is at most this many times the shortest."""
_LONGEST_RUN = 1e6
"""Seconds; larger numbers are points in time."""
_LONGEST_SHOWN = 40


def names_times(head: str) -> bool:
    return _TIME.fullmatch(plain_head(head)) is not None


def time_column(heads: Sequence[str], rows: Sequence[Sequence[str]], settings: Sequence[int]) -> int | None:
    """Return the column of times if rows with the same settings have different times; None if rows are runs.

    `settings` are the columns that distinguish runs, such as clients.
    """
    for at, head in enumerate(heads):
        if not names_times(head):
            continue
        times: dict[tuple[str, ...], set[str]] = {}
        for cells in rows:
            if at < len(cells) and cells[at].strip():
                same = tuple(cells[other].strip() for other in settings if other != at and other < len(cells))
                times.setdefault(same, set()).add(cells[at].strip())
        if any(len(each) > 1 and not _are_lengths(each) for each in times.values()):
            return at
    return None


def _are_lengths(times: set[str]) -> bool:
    seconds = []
    for time in times:
        with suppress(ValueError):
            if (figure := figure_of(time)) is not None:
                seconds.append(float(figure.digits.replace(",", ".")))
    return len(seconds) == len(times) and max(seconds) <= min(_ALIKE * min(seconds), _LONGEST_RUN)


def moments(line: int, head: str) -> UnusedLine:
    """Return what is listed in place of the rows below `head`."""
    why = Message(
        "rows-are-moments",
        "the rows are moments of one run (column '{column}'): import its summary; if they are runs, name it 'repeat'",
        column=head.strip()[:_LONGEST_SHOWN],
    )
    return unused_line(line, why)
