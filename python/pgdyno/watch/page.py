"""A frame as text: a page of figures and tables, or a line. Pure functions of a frame."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

from pgdyno.report import numbers
from pgdyno.report.numbers import NOTHING
from pgdyno.report.terminal.text_drawing import bar, printable
from pgdyno.units import format_duration, format_size
from pgdyno.watch.frame import CLASSES, Frame, active_sessions, class_of

STYLES = dict(zip(CLASSES, ("green", "blue", "yellow", "red", "magenta", "bright_black", "cyan"), strict=True))
"""The terminal's own colours, which suit dark and light backgrounds."""
MOST = 10
"""Rows of a table, on average, if the height is not limited."""
_SHARES = {"busy", "steal", "utilisation", "cpu"}


def field_text(of: Frame, name: str) -> str:
    """Return a field with its unit, which its name tells."""
    value = of.get(name)
    if value is None:
        return NOTHING
    if name in _SHARES:
        return f"{value * 100:.0f} %"
    if name == "cache_hit":
        return f"{value * 100:.1f} %"
    if "bytes" in name:
        return format_size(value)
    if name.endswith("_s") and not name.endswith("_per_s"):
        return format_duration(max(value, 0.0))
    return f"{value:.0f}" if value == int(value) and abs(value) < 1000 else numbers.short(value)


def line(frame: Frame) -> str:
    """Return `frame` as a line under HEADING."""
    if frame["away"] is not None:
        return f"{_clock(frame):>8}  away: {printable(frame['away'])}"
    every = {**frame, **(frame["cpu"] or {}), **next(iter(frame["disks"]), {}), "active": active_sessions(frame)}
    cells = "".join(f"{field_text(every, name):>{width}}" for name, _, width in _COLUMNS)
    top = next(
        (f"{printable(name)} {numbers.round_text(each, 2)}" for name, each in _positive(frame["waits"])), NOTHING
    )
    return f"{_clock(frame):>8}{cells}  {top}"


_COLUMNS = (
    ("tps", "tps", 7), ("active", "active", 7), ("busy", "CPU", 6), ("steal", "steal", 6), ("utilisation", "disk", 6),
    ("wal_bytes_per_s", "WAL/s", 9), ("reads_per_s", "reads/s", 8),
)  # fmt: skip
"""A field, its heading, and the width of its column."""
HEADING = f"{'time':>8}{''.join(f'{name:>{width}}' for _, name, width in _COLUMNS)}  top wait"


def _clock(frame: Frame) -> str:
    return time.strftime("%H:%M:%S", time.localtime(frame["at_s"]))


@dataclass(frozen=True, slots=True)
class Page:
    """A frame in the width of the console."""

    frame: Frame
    queries: bool
    """Whether statements have their texts."""
    notes: Sequence[str] = ()
    height: int | None = None
    """The lines that it fills; None for as many as it needs."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        figures, tables = _figures(self.frame), list(_tables(self.frame, queries=self.queries))
        times = (f"{_clock(self.frame)}  {self.frame['seconds']} s  ", "dim")
        version = f"  PostgreSQL {printable(self.frame['server_version'])}"
        yield _one_line(("pgdyno watch  ", "dim"), times, (printable(self.frame["server"]), "bold"), version)
        yield from (figures, "", _legend(self.frame))
        room = MOST * len(tables) if self.height is None else self.height - figures.row_count - 4 - len(tables)
        for number, row in enumerate(tables):
            # what one leaves of its equal share is for the next
            most = max(room // (len(tables) - number), 1)
            room -= min(most, max(len(rows) for _, _, rows in row))
            yield from ([""] if self.height is None else [])
            yield _side_by_side(row, most)
        if self.notes:
            yield _one_line((printable("; ".join(self.notes)), "yellow"))


def _one_line(*parts: str | tuple[str, str]) -> Text:
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


_FIGURES = {
    "tps": ("tps", "{}", {
        "rollbacks_per_s": "{} rolled back/s", "oldest_transaction_s": "oldest {}", "deadlocks_per_s": "{} deadlocks/s",
    }),
    "sessions": ("sessions", "{}", {
        "idle_in_transaction": "{} idle in transaction", "waiting_for_locks": "{} waiting for locks",
    }),
    "WAL": ("wal_bytes_per_s", "{}/s", {
        "wal_syncs_per_s": "{} syncs/s", "wal_full_page_images_per_s": "{} page images/s",
    }),
    "reads": ("reads_per_s", "{} pages/s", {"cache_hit": "{} hit", "temp_bytes_per_s": "temp {}/s"}),
    "checkpoint": ("since_checkpoint_s", "{} ago", {
        "since_redo_bytes": "{} since", "checkpoint_buffers_per_s": "writing {} pages/s",
    }),
}  # fmt: skip
"""By name a field and its text, and details by their field, which are left out if they are unknown or 0."""


def _figures(frame: Frame) -> RichTable:
    grid = RichTable.grid(expand=True, padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, justify="right", style="bold")
    grid.add_column(no_wrap=True, overflow="ellipsis", style="dim", ratio=1)
    for name, (field, value, details) in _FIGURES.items():
        if name == "WAL":
            for row in _host_figures(frame):
                grid.add_row(*row)
        shown = (text.format(field_text(frame, each)) for each, text in details.items() if frame[each])
        grid.add_row(name, value.format(field_text(frame, field)), ", ".join(shown))
    return grid


def _host_figures(frame: Frame) -> Iterator[tuple[str, str, str]]:
    cpu = frame["cpu"]
    if cpu is not None:
        shares = (("user", "user"), ("sys", "system"), ("io", "iowait"), ("steal", "steal"))
        parts = " ".join(f"{name} {cpu[share] * 100:.0f}" for name, share in shares)
        cores = f"{field_text(cpu, 'running')} runnable, {field_text(frame, 'processors')} cores"
        yield "CPU", field_text(cpu, "busy"), f"{parts}, {cores}"
    for at, disk in enumerate(frame["disks"]):
        if at == 0 or disk["holds"]:
            name = printable(f"{disk['device']} ({disk['holds']})" if disk["holds"] else disk["device"])
            awaited = "" if disk["write_await_ms"] is None else f"{numbers.round_text(disk['write_await_ms'], 2)} ms, "
            moved = f"r {field_text(disk, 'read_bytes_per_s')}/s, w {field_text(disk, 'written_bytes_per_s')}/s"
            yield "" if at else "disk", field_text(disk, "utilisation"), f"{name} {awaited}{moved}"
    if frame["memory_available_bytes"] is not None:
        available, dirty = (field_text(frame, each) for each in ("memory_available_bytes", "dirty_bytes"))
        yield "memory", available, f"available, {dirty} dirty"


def _legend(frame: Frame) -> Text:
    if frame["away"] is not None:
        return _one_line((f"no connection to the server: {printable(frame['away'])}", "red"))
    active = numbers.round_text(active_sessions(frame) or 0.0) if frame["active"] is not None else NOTHING
    parts: list[str | tuple[str, str]] = [("active sessions ", "dim"), (active, "bold")]
    for name, sessions in sorted(_positive(frame["active"]), key=lambda item: -item[1]):
        parts += [("  ■ ", STYLES[name]), f"{name} {numbers.round_text(sessions, 2)}"]
    return _one_line(*parts)


def _positive(sessions: Mapping[str, float] | None) -> list[tuple[str, float]]:
    return [(name, number) for name, number in (sessions or {}).items() if number > 0]


_Table = tuple[Mapping[str, int], Sequence[str], Sequence[Sequence[str | Text]]]
"""Headings of names with their shares of the width, headings of figures, which are never cut, and rows."""


def _tables(frame: Frame, *, queries: bool) -> Iterator[list[_Table]]:
    """Yield the tables that have rows; those that stand next to each other together."""
    processes = [_process(row) for row in frame["processes"]]
    sessions = {"    pid sessions": 3, "state or wait": 3, "query" if queries else "command": 2 + 2 * queries}
    figures = ("active", "calls/s", "ms", "rows/s", "reads/s")
    every: list[list[_Table]] = [
        [({"blockers": 1}, (), [_blocker(row) for row in frame["blockers"]])],
        [
            ({"active by wait": 1}, ("avg", ""), _waits(frame)),
            ({"    pid processes by I/O": 1}, ("CPU", "read/s", "write/s"), processes),
        ],
        [(sessions, ("open",), [_session(row) for row in frame["backends"]])],
        [({"statements by time": 1}, figures, [_statement(row) for row in frame["statements"]])],
    ]
    for row in every:
        if shown := [table for table in row if table[2]]:
            yield shown


def _side_by_side(tables: Sequence[_Table], most: int) -> RichTable:
    """Return the first `most` rows of one or two tables."""
    grid = RichTable.grid(expand=True, padding=(0, 1, 0, 0))
    shown = []
    for (names, figures, rows), share in zip(tables, (2, 3), strict=False):
        grid.add_column(ratio=share)
        table = RichTable(box=None, expand=True, header_style="dim", padding=(0, 1, 0, 0), pad_edge=False)
        for heading, ratio in names.items():
            table.add_column(heading, no_wrap=True, overflow="ellipsis", ratio=ratio)
        for heading in figures:
            # a bar has no heading
            table.add_column(heading, no_wrap=True, justify="right" if heading else "left")
        for row in rows[:most]:
            table.add_row(*(printable(cell) if isinstance(cell, str) else cell for cell in row))
        shown.append(table)
    grid.add_row(*shown)
    return grid


def _waits(frame: Frame) -> list[tuple[str, str, Text]]:
    rows = [(name, sessions, STYLES[class_of(name)]) for name, sessions in _positive(frame["waits"])]
    rows += [(name, sessions, "dim") for name, sessions in _positive(frame["background"])]
    most = max((sessions for _, sessions, _ in rows), default=1.0)
    return [(name, numbers.round_text(each, 2), Text(bar(each / most, 10), style)) for name, each, style in rows]


def _process(row: Frame) -> Sequence[str]:
    name = f"{row['pid']:>7} {row['who'] or row['kind']} {row['activity']}"
    return name, *(field_text(row, each) for each in ("cpu", "read_bytes_per_s", "written_bytes_per_s"))


def _session(row: Frame) -> Sequence[str]:
    state = (row["wait"] or "CPU") if row["state"] in ("active", "fastpath function call") else row["state"]
    who = f"{row['pid']:>7} {row['user']}@{row['database']} {row['application']}"
    return who, state, row["query"], field_text(row, "transaction_s")


def _statement(row: Frame) -> Sequence[str]:
    # the identifier distinguishes statements of one command
    name = f"{row['query'] or '?'} {row['query_id']} {row['user']}@{row['database']}"
    return name, *(
        field_text(row, each) for each in ("sessions", "calls_per_s", "mean_ms", "rows_per_s", "reads_per_s")
    )


def _blocker(row: Frame) -> Sequence[Text]:
    does = row["wait"] if row["state"] == "active" and row["wait"] else row["state"]
    text = f"{row['pid']} waits for {row['lock']} of {row['blocked_by']} ({does or 'unknown'})"
    return [Text(printable(text), "red")]
