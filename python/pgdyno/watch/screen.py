"""A frame as text: figures with their history, the chart of active sessions, tables. Pure functions of a frame."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rich.console import Group, RenderableType
from rich.layout import Layout
from rich.table import Table as RichTable
from rich.text import Text

from pgdyno.report import numbers
from pgdyno.report.numbers import NOTHING
from pgdyno.report.terminal.text_drawing import bar, printable, sparkline
from pgdyno.units import format_duration
from pgdyno.watch.frame import CLASSES, Frame, Point, active_sessions, class_of, stepped

STYLES = dict(zip(CLASSES, ("green", "blue", "yellow", "red", "magenta", "bright_black", "cyan"), strict=True))
"""The terminal's own colours, which suit dark and light backgrounds, in the order from the bottom to the top."""
LETTERS = dict(zip(CLASSES, "CIWLMNo", strict=True))
_LEVELS = " ▁▂▃▄▅▆▇█"
_STEPS = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
ACCENT = "cyan"
_WITH_HISTORY = ("tps", "sessions", "cpu", "disk", "wal_bytes_per_s", "reads_per_s")
HEAD, LOWEST_CHART, HIGHEST_CHART = 2, 4, 24
TWO_TABLES = 160
"""Width from which on there are two tables next to the waits."""
FIVE_FIGURES = 110
"""Width from which on tables have all figures."""
MOST = 10
"""Rows of a table of a page."""


class Table(StrEnum):
    """The tables that share the last place; in a narrow terminal, sessions are one of them."""

    PROCESSES = "processes"
    STATEMENTS = "statements"
    SESSIONS = "sessions"
    BLOCKERS = "blockers"


@dataclass(slots=True)
class Looks:
    interval: int = 1
    colours: bool = True
    queries: bool = False
    paused: bool = False
    table: Table = Table.PROCESSES
    notes: Sequence[str] = ()


def size(count: float | None) -> str:
    """Return bytes in PostgreSQL's units, powers of 1024: `12.3 MB`."""
    if count is None:
        return NOTHING
    for factor, unit in ((1 << 40, "TB"), (1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB")):
        if count >= factor:
            return f"{numbers.rounded(count / factor)} {unit}"
    return f"{count:.0f} B"


def percent(share: float | None) -> str:
    return NOTHING if share is None else f"{share * 100:.0f} %"


def figure(number: float | None) -> str:
    """Return three digits and a letter; a small integer without a point."""
    if number is None:
        return NOTHING
    return f"{number:.0f}" if number == int(number) and abs(number) < 1000 else numbers.short(number)


def _span(seconds: float | None) -> str:
    return NOTHING if seconds is None else format_duration(max(seconds, 0.0))


def _clock(frame: Frame) -> str:
    return time.strftime("%H:%M:%S", time.localtime(frame["at_s"]))


def screen(frame: Frame, points: Sequence[Point], looks: Looks, width: int, height: int) -> Layout:
    """Return a layout for a terminal of this size."""
    rows = list(_figures(frame))[: max(height - LOWEST_CHART - 13, 3)]
    rows_of_chart = min(max((height - len(rows) - HEAD - 2) // 2, LOWEST_CHART), HIGHEST_CHART)
    chart = stacked(
        stepped(points, looks.interval, width), width, rows_of_chart, frame["processors"], colours=looks.colours
    )
    narrow = width < TWO_TABLES
    shown = [looks.table] if narrow or looks.table is Table.SESSIONS else [Table.SESSIONS, looks.table]
    most = 3 if width < FIVE_FIGURES else None
    waits: list[RenderableType] = [_waits(frame, width // (3 if narrow else 4))]
    if frame["blockers"] and looks.table is not Table.BLOCKERS:
        waits.insert(0, _table(frame, looks, Table.BLOCKERS))
    whole, tables = Layout(), Layout()
    whole.split_column(
        Layout(_header(frame, looks), size=1),
        Layout(_with_history(rows, points, looks.interval, width), size=len(rows)),
        Layout(Group(_legend(frame, looks), *chart), size=rows_of_chart + 1),
        tables,
        Layout(_footer(looks), size=1),
    )
    tables.split_row(
        Layout(Group(*waits), ratio=2), *(Layout(_table(frame, looks, each, figures=most), ratio=3) for each in shown)
    )
    return whole


def page(frame: Frame, looks: Looks) -> Group:
    """Return a frame for a file: all tables, of which empty ones are left out."""
    figures = _grid()
    for name, value, _, detail in _figures(frame):
        figures.add_row(name, value, detail)
    tables = [_waits(frame, 0, MOST), _table(frame, looks, Table.SESSIONS, MOST)]
    further = (Table.STATEMENTS, Table.PROCESSES, Table.BLOCKERS)
    tables += [_table(frame, looks, each, MOST) for each in further if frame[each]]
    parts: list[RenderableType] = [_header(frame, looks), "", figures, "", _legend(frame, looks)]
    return Group(*parts, *(each for table in tables for each in ("", table)))


def line(frame: Frame) -> str:
    """Return `frame` as a line under HEADING."""
    if frame["away"] is not None:
        return f"{_clock(frame):>8}  away: {printable(frame['away'])}"
    cpu: Frame = frame["cpu"] or {}
    disk: Frame = next(iter(frame["disks"]), {})
    cells = (
        _clock(frame),
        figure(frame["tps"]),
        figure(active_sessions(frame)),
        *map(percent, (cpu.get("busy"), cpu.get("steal"), disk.get("utilisation"))),
        size(frame["wal_bytes_per_s"]),
        figure(frame["reads_per_s"]),
    )
    top = next((f"{printable(name)} {numbers.rounded(each, 2)}" for name, each in _positive(frame["waits"])), NOTHING)
    return "".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, _COLUMNS, strict=True)) + f"  {top}"


_COLUMNS = (("time", 8), ("tps", 7), ("active", 7), ("CPU", 6), ("steal", 6), ("disk", 6), ("WAL/s", 9), ("reads/s", 8))
HEADING = "".join(f"{name:>{width}}" for name, width in _COLUMNS) + "  top wait"


def _header(frame: Frame, looks: Looks) -> RichTable:
    left = Text.assemble(("pgdyno watch  ", "dim"), (printable(frame["server"]), "bold"))
    left.append(f"  PostgreSQL {printable(frame['server_version'])}" if frame["server_version"] else "")
    away, paused = "away  " if frame["away"] is not None else "", "paused  " if looks.paused else ""
    right = Text.assemble((away, "bold red"), (paused, f"bold {ACCENT}"), _clock(frame))
    line = RichTable.grid(expand=True)
    line.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    line.add_column(no_wrap=True, justify="right")
    line.add_row(left, right.append(f"  {looks.interval} s", "dim"))
    return line


Figure = tuple[str, str, str, str]
"""A name, its value, the field of a point that is its history, and details."""
_FIGURES = {
    "tps": ("{tps}", "{rollbacks_per_s} rolled back/s, oldest {oldest_transaction_s}, {deadlocks_per_s} deadlocks/s"),
    "sessions": (
        "{sessions}",
        "{active_sessions} active, {idle_in_transaction} idle in transaction, {waiting_for_locks} waiting for locks",
    ),
    "WAL": ("{wal_bytes_per_s}/s", "{wal_syncs_per_s} syncs/s, {wal_full_page_images_per_s} page images/s"),
    "reads": ("{reads_per_s} pages/s", "{cache_hit} hit, temp {temp_bytes_per_s}/s"),
    "checkpoint": ("{since_checkpoint_s} ago", "{since_redo_bytes} since, writing {checkpoint_buffers_per_s} pages/s"),
    "memory": ("{memory_available_bytes}", "available, {dirty_bytes} dirty"),
}
"""By name a value and its details. A detail is left out if it is unknown, and 0 unless it is the first."""
_FIELD = re.compile(r"\{(\w+)\}")


class _Texts(dict[str, Any]):
    """The fields of a frame as text."""

    def __getitem__(self, name: str) -> str:
        value = super().__getitem__(name)
        if "bytes" in name:
            return size(value)
        if name == "cache_hit":
            return NOTHING if value is None else f"{value * 100:.1f} %"
        return _span(value) if name.endswith("_s") and not name.endswith("per_s") else figure(value)


def _figures(frame: Frame) -> Iterator[Figure]:
    texts = _Texts(frame, active_sessions=active_sessions(frame))
    for name, (value, details) in _FIGURES.items():
        if name == "WAL":
            yield from _host_figures(frame)
        parts = [
            part.format_map(texts)
            for at, part in enumerate(details.split(", "))
            if all((known := texts.get(each)) is not None and (known or at == 0) for each in _FIELD.findall(part))
        ]
        if name != "memory" or frame["memory_available_bytes"] is not None:
            yield name, value.format_map(texts), _FIELD.findall(value)[0], ", ".join(parts)


def _host_figures(frame: Frame) -> Iterator[Figure]:
    cpu = frame["cpu"]
    if cpu is not None:
        shares = (("user", "user"), ("sys", "system"), ("io", "iowait"), ("steal", "steal"))
        parts = " ".join(f"{name} {cpu[share] * 100:.0f}" for name, share in shares)
        yield "CPU", percent(cpu["busy"]), "cpu", f"{parts}, {figure(cpu['running'])} runnable"
    for at, disk in enumerate(frame["disks"]):
        if at == 0 or disk["holds"]:
            name = "" if at else "disk"
            yield name, percent(disk["utilisation"]), name, _disk(disk)


def _disk(disk: Frame) -> str:
    name = printable(f"{disk['device']} ({disk['holds']})" if disk["holds"] else disk["device"])
    awaited = f"{numbers.rounded(disk['write_await_ms'], 2)} ms, " if disk["write_await_ms"] is not None else ""
    return f"{name} {awaited}r {size(disk['read_bytes_per_s'])}/s, w {size(disk['written_bytes_per_s'])}/s"


def _grid() -> RichTable:
    grid = RichTable.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, justify="right", style="bold")
    grid.add_column(no_wrap=True, overflow="ellipsis", style="dim")
    return grid


def _with_history(rows: Iterable[Figure], points: Sequence[Point], interval: int, width: int) -> RichTable:
    grid = _grid()
    room = max(width - 88, 8)
    grid.expand, grid.columns[-1].ratio = True, 1
    grid.add_column(no_wrap=True, style=ACCENT, width=room)
    steps = stepped(points, interval, room)
    for name, value, history, detail in rows:
        known = [step.get(history, 0.0) for step in steps if history in _WITH_HISTORY]
        # shares have a fixed scale
        picture = sparkline(known, room, 1.0 if history in ("cpu", "disk") else None) if len(known) > 1 else ""
        grid.add_row(name, value, detail, picture)
    return grid


def _legend(frame: Frame, looks: Looks) -> Text:
    if frame["away"] is not None:
        return Text(
            f"no connection to the server: {printable(frame['away'])}", "red", no_wrap=True, overflow="ellipsis"
        )
    keys = Text.assemble(("active sessions ", "dim"), (figure(active_sessions(frame)), "bold"))
    for name, sessions in sorted(_positive(frame["active"]), key=lambda item: -item[1]):
        keys.append("  ■ " if looks.colours else f"  {LETTERS[name]} ", STYLES[name] if looks.colours else "")
        keys.append(f"{name} {numbers.rounded(sessions, 2)}")
    keys.no_wrap, keys.overflow = True, "ellipsis"
    return keys


def nice_top(highest: float) -> float:
    """Return the round figure at or above `highest` at which an axis ends, at least 1."""
    size = 10.0 ** math.floor(math.log10(max(highest, 1.0)))
    return next(step * size for step in _STEPS if step * size >= max(highest, 1.0) - 1e-9)


def stacked(
    columns: Sequence[Point], width: int, height: int, limit: float | None, *, colours: bool = True
) -> list[Text]:
    """Return active sessions over time in `height` lines of `width` cells with their axis, the last column at the end.

    `limit` is the number of processors, drawn as a line if it is within the axis. Without `colours`, a cell has the
    letter of the class at its middle.
    """
    highest = max((sum(column.get(name, 0.0) for name in CLASSES) for column in columns), default=0.0)
    if limit is not None and limit > 2.5 * max(highest, 1.0):
        limit = None
    top = nice_top(max(highest, limit or 0.0))
    labels = {height - 1: numbers.axis(top)}
    line = -1 if limit is None else min(max(math.ceil(limit / top * height - 1e-9) - 1, 0), height - 1)
    if limit is not None:
        labels[line] = f"{numbers.axis(limit)} CPU"
    room = max(map(len, labels.values()))
    cells = max(width - room - 2, 1)
    shown = [_eighths(column, 8 * height / top) for column in [*([{}] * cells), *columns][-cells:]]
    lines = []
    for row in reversed(range(height)):
        axis = "|" if not colours else "┤" if row in labels else "│"
        text = Text(no_wrap=True).append(f"{labels.get(row, ''):>{room}} {axis}", "dim" if colours else "")
        for column in shown:
            text.append(*_cell(column[row * 8 : row * 8 + 8], is_line=row == line, colours=colours))
        lines.append(text)
    return lines


def _eighths(column: Point, per_session: float) -> list[str]:
    """Return the class of each eighth of a cell from the bottom."""
    classes: list[str] = []
    total = 0.0
    for name in CLASSES:
        total += column.get(name, 0.0)
        classes += [name] * (round(total * per_session) - len(classes))
    return classes


def _cell(classes: Sequence[str], *, is_line: bool, colours: bool) -> tuple[str, str]:
    """Return the character of a cell, and its style; `classes` are of its eighths that are filled, from the bottom."""
    filled = len(classes)
    if not colours:
        return LETTERS[classes[filled // 2]] if filled >= 4 else "-" if is_line else " ", ""
    if is_line:
        # the line is drawn over the bars, which keep their colour
        return "╌", f"default on {STYLES[classes[filled // 2]]}" if filled >= 4 else ""
    if filled < 8:
        return _LEVELS[filled], STYLES[classes[filled // 2]] if filled else ""
    lower = classes.count(classes[0])
    return _LEVELS[lower], STYLES[classes[0]] + (f" on {STYLES[classes[-1]]}" if lower < 8 else "")


def _positive(sessions: Mapping[str, float] | None) -> list[tuple[str, float]]:
    return [(name, number) for name, number in (sessions or {}).items() if number > 0]


Rows = Iterable[Sequence[str | Text]]


def _rich_table(names: Mapping[str, int], figures: Sequence[str], rows: Rows, nothing: str) -> RichTable:
    """Return rows of names, which share the width as `names` says, and figures, which are never cut."""
    table = RichTable(box=None, expand=True, header_style="dim", padding=(0, 1, 0, 0), pad_edge=False)
    for heading, ratio in names.items():
        table.add_column(heading, no_wrap=True, overflow="ellipsis", ratio=ratio)
    for heading in figures:
        # a bar has no heading
        table.add_column(heading, no_wrap=True, justify="right" if heading else "left")
    for row in rows:
        cells = row[: len(names) + len(figures)]
        table.add_row(*(printable(cell) if isinstance(cell, str) else cell for cell in cells))
    if not table.rows:
        table.add_row(Text(nothing, "dim"))
    return table


def _waits(frame: Frame, width: int, most: int | None = None) -> RichTable:
    rows = [(name, sessions, STYLES[class_of(name)]) for name, sessions in _positive(frame["waits"])]
    rows += [(name, sessions, "dim") for name, sessions in _positive(frame["background"])]
    highest = max((sessions for _, sessions, _ in rows), default=1.0)
    cells = [
        (name, numbers.rounded(sessions, 2), Text(bar(sessions / highest, width // 5), style))
        for name, sessions, style in rows[:most]
    ]
    return _rich_table({"active by wait": 1}, ("avg", "") if rows else (), cells, "no active session")


def _table(
    frame: Frame, looks: Looks, table: Table, most: int | None = None, *, figures: int | None = None
) -> RichTable:
    """Return the first `most` rows of a table with its first `figures`."""
    columns, row_of, nothing = _TABLES[table]
    names, *headings = columns
    if table is Table.SESSIONS:
        names = {**names, "query" if looks.queries else "command": 2 + 2 * looks.queries}
    return _rich_table(names, headings[:figures], map(row_of, frame[_LISTS.get(table, table)][:most]), nothing)


def _process(row: Frame) -> Sequence[str]:
    name = f"{row['pid']:>7} {row['who'] or row['kind']} {row['activity']}"
    return name, percent(row["cpu"]), size(row["read_bytes_per_s"]), size(row["written_bytes_per_s"])


def _session(row: Frame) -> Sequence[str]:
    state = (row["wait"] or "CPU") if row["state"] in ("active", "fastpath function call") else row["state"]
    who = f"{row['pid']:>7} {row['user']}@{row['database']} {row['application']}"
    return who, state, row["query"], _span(row["transaction_s"])


def _statement(row: Frame) -> Sequence[str]:
    # the identifier distinguishes statements of one command
    name = f"{row['query'] or '?'} {row['query_id']} {row['user']}@{row['database']}"
    mean = numbers.rounded(row["mean_ms"]) if row["mean_ms"] is not None else ""
    calls, rows, reads = (numbers.short(row[name]) for name in ("calls_per_s", "rows_per_s", "reads_per_s"))
    return name, numbers.rounded(row["sessions"], 2), calls, mean, rows, reads


def _blocker(row: Frame) -> Sequence[Text]:
    does = row["wait"] if row["state"] == "active" and row["wait"] else row["state"]
    text = f"{row['pid']} waits for {row['lock']} of {row['blocked_by']} ({does or 'unknown'})"
    return [Text(printable(text), "red")]


_TABLES: Mapping[Table, tuple[Sequence[Any], Callable[[Frame], Sequence[str | Text]], str]] = {
    Table.PROCESSES: (({"    pid processes by I/O": 1}, "CPU", "read/s", "write/s"), _process, "no process was seen"),
    Table.STATEMENTS: (
        ({"statements by time": 1}, "active", "calls/s", "ms", "rows/s", "reads/s"),
        _statement,
        "every 10 s, with pg_stat_statements in this database",
    ),
    Table.SESSIONS: (({"    pid sessions": 3, "state or wait": 3}, "open"), _session, "no session is in a transaction"),
    Table.BLOCKERS: (({"blockers": 1},), _blocker, "no session waits for a lock"),
}
"""The names and the headings of figures, a row, and what stands for no row."""
_LISTS = {Table.SESSIONS: "backends"}


def _footer(looks: Looks) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    for key, word in (("q", "quit"), ("p", "resume" if looks.paused else "pause"), ("+ -", "interval"), ("t", "table")):
        line.append(f"{key} ", "bold").append(f"{word}  ", "dim")
    return line.append(printable("; ".join(looks.notes)), "yellow")
