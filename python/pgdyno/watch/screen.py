"""A frame as text: figures with their history, the chart of active sessions, tables. Pure functions of a frame."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from rich.console import Group, RenderableType
from rich.layout import Layout
from rich.table import Table as RichTable
from rich.text import Text

from pgdyno.report import numbers
from pgdyno.report.numbers import NOTHING
from pgdyno.report.terminal.text_drawing import bar, printable, sparkline
from pgdyno.units import format_duration
from pgdyno.watch.chart import LETTERS, STYLES, stacked, style_of
from pgdyno.watch.frame import Frame, Point, active_sessions, stepped

ACCENT = "cyan"
_WITH_HISTORY = ("tps", "sessions", "cpu", "disk", "wal_bytes_per_s", "reads_per_s")
HEAD, LOWEST_CHART, HIGHEST_CHART = 2, 4, 24
TWO_TABLES = 160
"""Width from which on there are two tables next to the waits."""
MOST = 10
"""Rows of a table of a page."""


class Table(StrEnum):
    """The tables that share the last place; in a narrow terminal, sessions are one of them."""

    PROCESSES = "processes"
    STATEMENTS = "statements"
    SESSIONS = "sessions"
    BLOCKERS = "blockers"


@dataclass(frozen=True, slots=True)
class Looks:
    title: str
    version: str
    interval: int
    paused: bool = False
    table: Table = Table.PROCESSES
    notes: Sequence[str] = ()
    processors: float | None = None
    """Cores that the server may use; None if its host is not this one."""
    colours: bool = True
    queries: bool = False
    is_narrow: bool = False
    """Whether tables leave out what is less important."""


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


def clock(at_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at_s))


def figure(number: float | None) -> str:
    """Return three digits and a letter; a small integer without a point."""
    if number is None:
        return NOTHING
    return f"{number:.0f}" if number == int(number) and abs(number) < 1000 else numbers.short(number)


def _span(seconds: float | None) -> str:
    return NOTHING if seconds is None else format_duration(max(seconds, 0.0))


def screen(frame: Frame, points: Sequence[Point], looks: Looks, width: int, height: int) -> Layout:
    """Return a layout for a terminal of this size."""
    rows = list(_figures(frame))[: max(height - LOWEST_CHART - 13, 3)]
    chart = min(max((height - len(rows) - HEAD - 2) // 2, LOWEST_CHART), HIGHEST_CHART)
    whole = Layout()
    whole.split_column(
        Layout(_header(frame, looks), size=1),
        Layout(_with_history(rows, points, looks.interval, width), size=len(rows)),
        Layout(
            Group(
                _legend(frame, looks),
                *stacked(stepped(points, looks.interval, width), width, chart, looks.processors, colours=looks.colours),
            ),
            size=chart + 1,
        ),
        tables := Layout(),
        Layout(_footer(looks), size=1),
    )
    narrow = width < TWO_TABLES
    looks = replace(looks, is_narrow=width < 110)
    shown = [looks.table] if narrow or looks.table is Table.SESSIONS else [Table.SESSIONS, looks.table]
    waits: RenderableType = _waits(frame, width // (3 if narrow else 4))
    if frame["blockers"] and looks.table is not Table.BLOCKERS:
        waits = Group(_blockers(frame, looks), waits)
    tables.split_row(Layout(waits, ratio=2), *(Layout(_TABLES[each](frame, looks), ratio=3) for each in shown))
    return whole


def page(frame: Frame, looks: Looks) -> Group:
    """Return a frame for a file: all tables, of which empty ones are left out."""
    figures = _grid()
    for name, value, _, detail in _figures(frame):
        figures.add_row(name, value, detail)
    parts: list[RenderableType] = [_header(frame, looks), "", figures, "", _legend(frame, looks)]
    parts += ["", _waits(frame, 0, MOST), "", _sessions(frame, looks, MOST)]
    for table in (Table.STATEMENTS, Table.PROCESSES, Table.BLOCKERS):
        if frame[table]:
            parts += ["", _TABLES[table](frame, looks, MOST)]
    return Group(*parts)


def line(frame: Frame) -> str:
    """Return `frame` as a line under HEADING."""
    if frame["away"] is not None:
        return f"{clock(frame['at_s']):>8}  away: {printable(frame['away'])}"
    cpu: Frame = frame["cpu"] or {}
    disk: Frame = next(iter(frame["disks"]), {})
    cells = (
        clock(frame["at_s"]),
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
    left = Text.assemble(("pgdyno watch  ", "dim"), (printable(looks.title), "bold"))
    left.append(f"  PostgreSQL {printable(looks.version)}" if looks.version else "")
    away, paused = "away  " if frame["away"] is not None else "", "paused  " if looks.paused else ""
    right = Text.assemble((away, "bold red"), (paused, f"bold {ACCENT}"), clock(frame["at_s"]))
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


def _figures(frame: Frame) -> Iterator[Figure]:
    values = {**frame, "active_sessions": active_sessions(frame)}
    texts = {name: _text_of(name, value) for name, value in values.items() if name in _SHOWN}
    for name, (value, details) in _FIGURES.items():
        if name == "WAL":
            yield from _host_figures(frame)
        parts = [
            part.format_map(texts)
            for at, part in enumerate(details.split(", "))
            if all(values[each] is not None and (values[each] or at == 0) for each in _FIELD.findall(part))
        ]
        if name != "memory" or values["memory_available_bytes"] is not None:
            yield name, value.format_map(texts), _FIELD.findall(value)[0], ", ".join(parts)


_SHOWN = {name for texts in _FIGURES.values() for text in texts for name in _FIELD.findall(text)}


def _text_of(name: str, value: float | None) -> str:
    if "bytes" in name:
        return size(value)
    if name == "cache_hit":
        return NOTHING if value is None else f"{value * 100:.1f} %"
    return _span(value) if name.endswith("_s") and not name.endswith("per_s") else figure(value)


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


def _positive(sessions: Mapping[str, float] | None) -> list[tuple[str, float]]:
    return [(name, number) for name, number in (sessions or {}).items() if number > 0]


def _table(
    names: Mapping[str, int], figures: Sequence[str], rows: Iterable[Sequence[str | Text]], nothing: str
) -> RichTable:
    """Return rows of names, which share the width as `names` says, and figures, which are never cut."""
    table = RichTable(box=None, expand=True, header_style="dim", padding=(0, 1, 0, 0), pad_edge=False)
    for heading, ratio in names.items():
        table.add_column(heading, no_wrap=True, overflow="ellipsis", ratio=ratio)
    for heading in figures:
        # a bar has no heading
        table.add_column(heading, no_wrap=True, justify="right" if heading else "left")
    for row in rows:
        table.add_row(*(printable(cell) if isinstance(cell, str) else cell for cell in row))
    if not table.rows:
        table.add_row(Text(nothing, "dim"))
    return table


def _waits(frame: Frame, width: int, most: int | None = None) -> RichTable:
    rows = [(name, sessions, style_of(name)) for name, sessions in _positive(frame["waits"])]
    rows += [(name, sessions, "dim") for name, sessions in _positive(frame["background"])]
    highest = max((sessions for _, sessions, _ in rows), default=1.0)
    cells = [
        (name, numbers.rounded(sessions, 2), Text(bar(sessions / highest, width // 5), style))
        for name, sessions, style in rows[:most]
    ]
    return _table({"active by wait": 1}, ("avg", "") if rows else (), cells, "no active session")


def _processes(frame: Frame, _looks: Looks, most: int | None = None) -> RichTable:
    rows = [
        (
            f"{row['pid']:>7} {row['who'] or row['kind']} {row['activity']}",
            percent(row["cpu"]),
            size(row["read_bytes_per_s"]),
            size(row["written_bytes_per_s"]),
        )
        for row in frame["processes"][:most]
    ]
    return _table({"    pid processes by I/O": 1}, ("CPU", "read/s", "write/s"), rows, "no process was seen")


def _sessions(frame: Frame, looks: Looks, most: int | None = None) -> RichTable:
    """Return sessions with a transaction or a statement, the longest transaction first."""
    rows = []
    for row in frame["backends"][:most]:
        works = row["state"] in ("active", "fastpath function call")
        who = f"{row['pid']:>7} {row['user']}@{row['database']} {row['application']}"
        rows.append((who, (row["wait"] or "CPU") if works else row["state"], row["query"], _span(row["transaction_s"])))
    names = {"    pid sessions": 3, "state or wait": 3, "query" if looks.queries else "command": 2 + 2 * looks.queries}
    return _table(names, ("open",), rows, "no session is in a transaction")


def _statements(frame: Frame, looks: Looks, most: int | None = None) -> RichTable:
    figures = ("active", "calls/s", "ms", "rows/s", "reads/s")[: 3 if looks.is_narrow else 5]
    rows = []
    for row in frame["statements"][:most]:
        # the identifier distinguishes statements of one command
        name = f"{row['query'] or '?'} {row['query_id']} {row['user']}@{row['database']}"
        mean = numbers.rounded(row["mean_ms"]) if row["mean_ms"] is not None else ""
        rates = (numbers.short(row[name]) for name in ("calls_per_s", "rows_per_s", "reads_per_s"))
        calls, others = next(rates), tuple(rates)
        rows.append((name, numbers.rounded(row["sessions"], 2), calls, mean, *others)[: len(figures) + 1])
    return _table({"statements by time": 1}, figures, rows, "every 10 s, with pg_stat_statements in this database")


def _blockers(frame: Frame, _looks: Looks, most: int | None = None) -> RichTable:
    rows = []
    for row in frame["blockers"][:most]:
        does = row["wait"] if row["state"] == "active" and row["wait"] else row["state"]
        text = f"{row['pid']} waits for {row['lock']} of {row['blocked_by']} ({does or 'unknown'})"
        rows.append((Text(printable(text), "red"),))
    return _table({"blockers": 1}, (), rows, "no session waits for a lock")


_TABLES: Mapping[Table, Callable[..., RichTable]] = {
    Table.PROCESSES: _processes,
    Table.STATEMENTS: _statements,
    Table.SESSIONS: _sessions,
    Table.BLOCKERS: _blockers,
}


def _footer(looks: Looks) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    for key, word in (("q", "quit"), ("p", "resume" if looks.paused else "pause"), ("+ -", "interval"), ("t", "table")):
        line.append(f"{key} ", "bold").append(f"{word}  ", "dim")
    return line.append(printable("; ".join(looks.notes)), "yellow")
