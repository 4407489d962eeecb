"""Tables of a frame: a heading over rows, as wide as there is room."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from pgdyno.report import numbers
from pgdyno.report.numbers import NOTHING
from pgdyno.report.terminal.text_drawing import bar, printable
from pgdyno.units import format_duration
from pgdyno.watch.buckets import Session
from pgdyno.watch.chart import style_of
from pgdyno.watch.frame import Blocker, Disk, Frame, Process
from pgdyno.watch.polling import Statement

_SIZES = ((1 << 40, "TB"), (1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB"))


def size(count: float | None) -> str:
    """Return bytes in PostgreSQL's units, powers of 1024: `12.3 MB`."""
    if count is None:
        return NOTHING
    for factor, unit in _SIZES:
        if count >= factor:
            return f"{numbers.rounded(count / factor)} {unit}"
    return f"{count:.0f} B"


def per_s(number: float | None, what: str = "") -> str:
    """Return `120 syncs/s`; a dash if unknown."""
    return f"{NOTHING if number is None else numbers.short(number)}{' ' if what else ''}{what}/s"


def percent(share: float | None) -> str:
    return NOTHING if share is None else f"{share * 100:.0f} %"


def span(seconds: float | None) -> str:
    return NOTHING if seconds is None else format_duration(max(seconds, 0.0))


def clock(at_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at_s))


def figure(number: float | None) -> str:
    """Return three digits and a letter; a small integer without a point."""
    if number is None:
        return NOTHING
    return f"{number:.0f}" if number == int(number) and abs(number) < 1000 else numbers.short(number)


def sessions_line(frame: Frame) -> str:
    parts = [
        f"{figure(frame.sessions)} {'session' if frame.sessions == 1 else 'sessions'}",
        f"{figure(frame.active_sessions)} active",
    ]
    if frame.idle_in_transaction:
        parts.append(f"{figure(frame.idle_in_transaction)} idle in transaction")
    if frame.waiting_for_locks:
        parts.append(f"{figure(frame.waiting_for_locks)} waiting for locks")
    return ", ".join(parts)


def transactions_line(frame: Frame) -> str:
    """Return the text below tps."""
    parts = [per_s(frame.rollbacks_per_s, "rolled back")]
    if frame.oldest_transaction_s is not None:
        parts.append(f"oldest {span(frame.oldest_transaction_s)}")
    if frame.deadlocks_per_s:
        parts.append(per_s(frame.deadlocks_per_s, "deadlocks"))
    return ", ".join(parts)


def cpu_line(frame: Frame) -> str:
    """Return the text below CPU."""
    cpu = frame.cpu
    if cpu is None:
        return ""
    shares = (("user", cpu.user), ("sys", cpu.system), ("io", cpu.iowait), ("steal", cpu.steal))
    return " ".join(f"{name} {share * 100:.0f}" for name, share in shares)


def wal_line(frame: Frame) -> str:
    """Return the text below WAL."""
    parts = []
    if frame.wal_syncs_per_s is not None:
        parts.append(per_s(frame.wal_syncs_per_s, "syncs"))
    if frame.wal_full_page_images_per_s:
        parts.append(per_s(frame.wal_full_page_images_per_s, "page images"))
    return ", ".join(parts)


def checkpoint_line(frame: Frame) -> str:
    """Return the last checkpoint, and the WAL that a crash would have to replay."""
    text = f"{span(frame.since_checkpoint_s)} ago, {size(frame.since_redo_bytes)} since"
    pages = frame.checkpoint_buffers_per_s
    return f"{text}, writing {per_s(pages, 'pages')}" if pages else text


def reads_line(frame: Frame) -> str:
    """Return the text below pages read."""
    parts = [f"{frame.cache_hit * 100:.1f} % hit"] if frame.cache_hit is not None else []
    if frame.temp_bytes_per_s:
        parts.append(f"temp {size(frame.temp_bytes_per_s)}/s")
    return ", ".join(parts)


def disk_line(disk: Disk | None) -> str:
    """Return the text below a disk."""
    if disk is None:
        return ""
    awaited = f", {numbers.rounded(disk.write_await_ms, 2)} ms" if disk.write_await_ms is not None else ""
    return f"r {size(disk.read_bytes_per_s)}/s, w {size(disk.written_bytes_per_s)}/s{awaited}"


def disk_name(disk: Disk | None) -> str:
    if disk is None:
        return "disk"
    return printable(f"disk {disk.device}{f' ({disk.holds})' if disk.holds else ''}")


def process_name(process: Process) -> str:
    """Return the kind and activity of a process: `bench@shop UPDATE`, `checkpointer`."""
    first = process.who or process.kind
    return printable(f"{first} {process.activity}".strip())


def statement_name(statement: Statement) -> str:
    """Return the user of a statement, and its command or text; its identifier distinguishes statements of one
    command.
    """
    who = f"{statement.user}@{statement.database}"
    return printable(f"{statement.query or '?'} {statement.query_id} {who}")


def session_name(session: Session) -> str:
    application = f" {session.application}" if session.application else ""
    return printable(f"{session.user}@{session.database}{application}")


def session_state(session: Session) -> str:
    """Return a session's wait, or its state."""
    if session.state not in ("active", "fastpath function call"):
        return printable(session.state)
    return printable(session.wait) or "CPU"


def blocker_line(blocker: Blocker) -> str:
    does = blocker.wait if blocker.state == "active" and blocker.wait else blocker.state
    return printable(f"{blocker.pid} waits for {blocker.lock} of {blocker.blocked_by} ({does or 'unknown'})")


GAP = 1
WIDEST = 200
"""Width limit of a cell: a statement may be long."""
WIDE_STATEMENTS = 60
"""Width from which on the rows and pages of statements are shown."""


class Right(StrEnum):
    """The table at the right if there is room for only one."""

    PROCESSES = "processes"
    STATEMENTS = "statements"
    SESSIONS = "sessions"
    BLOCKERS = "blockers"


@dataclass(frozen=True, slots=True)
class Column:
    """Cells under a heading; figures are right-aligned, names share the remaining width."""

    heading: str
    cells: Sequence[str]
    styles: Sequence[str] = ()
    is_name: bool = False

    @property
    def width(self) -> int:
        return max(cell_len(self.heading), *(min(cell_len(cell), WIDEST) for cell in self.cells), 0)


def table(columns: Sequence[Column], width: int, height: int, nothing: str) -> list[Text]:
    """Return `columns` in exactly `height` lines of exactly `width` cells; `nothing` is the text without rows."""
    fixed = sum(column.width for column in columns if not column.is_name)
    names = [column for column in columns if column.is_name]
    room = max(width - fixed - GAP * (len(columns) - 1), len(names) * 4)
    widths = _name_widths(names, room)
    lines = [_line([column.heading for column in columns], ["dim"] * len(columns), columns, widths)]
    number = len(columns[0].cells) if columns else 0
    for at in range(min(number, height - 1)):
        styles = [column.styles[at] if column.styles else "" for column in columns]
        lines.append(_line([column.cells[at] for column in columns], styles, columns, widths))
    if number == 0 and height > 1:
        lines.append(Text(nothing, "dim"))
    lines += [Text("")] * (height - len(lines))
    for line in lines[:height]:
        line.truncate(width, overflow="ellipsis", pad=True)
    return lines[:height]


def _name_widths(names: Sequence[Column], room: int) -> dict[int, int]:
    """Return the width of names by column: the widest are cut until all fit; the last one gets the rest."""
    widths = {id(column): column.width for column in names}
    while sum(widths.values()) > room and max(widths.values()) > 1:
        widest = max(widths, key=lambda column: widths[column])
        widths[widest] -= 1
    if names:
        widths[id(names[-1])] += max(room - sum(widths.values()), 0)
    return widths


def _line(cells: Sequence[str], styles: Sequence[str], columns: Sequence[Column], widths: Mapping[int, int]) -> Text:
    line = Text(no_wrap=True)
    for at, (cell, style, column) in enumerate(zip(cells, styles, columns, strict=True)):
        width = widths.get(id(column), column.width)
        cut = set_cell_size(cell, width - 1) + "…" if cell_len(cell) > width else cell
        padded = set_cell_size(cut, width) if column.is_name else " " * (width - cell_len(cut)) + cut
        line.append(" " * GAP if at else "").append(padded, style)
    return line


def waits(frame: Frame, width: int, height: int, *, pictures: bool = True) -> list[Text]:
    """Return the waits of clients, most first, then the background processes."""
    rows = [(name, sessions, style_of(name)) for name, sessions in (frame.waits or {}).items() if sessions > 0]
    rows += [(name, sessions, "dim") for name, sessions in (frame.background or {}).items() if sessions > 0]
    highest = max((sessions for _, sessions, _ in rows), default=0.0)
    columns = [
        Column("active by wait", [printable(name) for name, _, _ in rows], is_name=True),
        Column("avg", [numbers.rounded(sessions, 2) for _, sessions, _ in rows]),
    ]
    if pictures and width >= 34:
        bars = [bar(sessions / highest if highest else 0.0, width // 5) for _, sessions, _ in rows]
        columns.append(Column("", bars, [style for _, _, style in rows]))
    return table(columns, width, height, "no active session")


def processes(frame: Frame, width: int, height: int) -> list[Text]:
    rows = frame.processes
    columns = [
        Column("pid", [str(row.pid) for row in rows]),
        Column("processes by I/O", [process_name(row) for row in rows], is_name=True),
        Column("CPU", [percent(row.cpu) for row in rows]),
        Column("read/s", [_amount(row.read_bytes_per_s) for row in rows]),
        Column("write/s", [_amount(row.written_bytes_per_s) for row in rows]),
    ]
    return table(columns, width, height, "no process was seen")


def sessions(frame: Frame, width: int, height: int, *, queries: bool = False) -> list[Text]:
    """Return sessions with a transaction or a statement, the longest transaction first."""
    rows = frame.backends
    columns = [
        Column("pid", [str(row.pid) for row in rows]),
        Column("sessions", [session_name(row) for row in rows], is_name=True),
        Column("open", [span(row.transaction_s) for row in rows]),
        Column("state or wait", [session_state(row) for row in rows], is_name=True),
        Column("query" if queries else "command", [printable(row.query) for row in rows], is_name=True),
    ]
    return table(columns, width, height, "no session is in a transaction")


def statements(frame: Frame, width: int, height: int) -> list[Text]:
    rows = frame.statements
    columns = [
        Column("statements by time", [statement_name(row) for row in rows], is_name=True),
        Column("active", [numbers.rounded(row.sessions, 2) for row in rows]),
        Column("calls/s", [numbers.short(row.calls_per_s) for row in rows]),
        Column("ms", [numbers.rounded(row.mean_ms, 3) if row.mean_ms is not None else "" for row in rows]),
    ]
    if width >= WIDE_STATEMENTS:
        columns.append(Column("rows/s", [numbers.short(row.rows_per_s) for row in rows]))
        columns.append(Column("reads/s", [numbers.short(row.reads_per_s) for row in rows]))
    return table(columns, width, height, "none yet: every 10 s, with pg_stat_statements in this database")


def blockers(frame: Frame, width: int, height: int) -> list[Text]:
    """Return sessions that wait for locks, and their blockers."""
    rows = [blocker_line(each) for each in frame.blockers]
    columns = [Column("blockers", rows, ["red"] * len(rows), is_name=True)]
    return table(columns, width, height, "no session waits for a lock")


RIGHTS: Mapping[Right, Callable[[Frame, int, int], list[Text]]] = {
    Right.PROCESSES: processes,
    Right.STATEMENTS: statements,
    Right.SESSIONS: sessions,
    Right.BLOCKERS: blockers,
}


def _amount(count: float) -> str:
    return size(count) if count else "0"
