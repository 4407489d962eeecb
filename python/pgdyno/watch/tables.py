"""Tables of a frame: a heading over rows, as wide as there is room."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from pgdyno.report import numbers
from pgdyno.report.blocks import bar, printable
from pgdyno.watch import words
from pgdyno.watch.frame import Frame
from pgdyno.watch.waits import style_of

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
        """Return the width of its widest cell."""
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
        Column("processes by I/O", [words.process_name(row) for row in rows], is_name=True),
        Column("CPU", [words.percent(row.cpu) for row in rows]),
        Column("read/s", [_amount(row.read_bytes_per_s) for row in rows]),
        Column("write/s", [_amount(row.written_bytes_per_s) for row in rows]),
    ]
    return table(columns, width, height, "no process was seen")


def sessions(frame: Frame, width: int, height: int, *, queries: bool = False) -> list[Text]:
    """Return sessions with a transaction or a statement, the longest transaction first."""
    rows = frame.backends
    columns = [
        Column("pid", [str(row.pid) for row in rows]),
        Column("sessions", [words.session_name(row) for row in rows], is_name=True),
        Column("open", [words.span(row.transaction_s) for row in rows]),
        Column("state or wait", [words.session_state(row) for row in rows], is_name=True),
        Column("query" if queries else "command", [printable(row.query) for row in rows], is_name=True),
    ]
    return table(columns, width, height, "no session has a transaction")


def statements(frame: Frame, width: int, height: int) -> list[Text]:
    rows = frame.statements
    columns = [
        Column("statements by time", [words.statement_name(row) for row in rows], is_name=True),
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
    rows = [words.blocker_line(each) for each in frame.blockers]
    columns = [Column("blockers", rows, ["red"] * len(rows), is_name=True)]
    return table(columns, width, height, "no session waits for a lock")


RIGHTS: Mapping[Right, Callable[[Frame, int, int], list[Text]]] = {
    Right.PROCESSES: processes,
    Right.STATEMENTS: statements,
    Right.SESSIONS: sessions,
    Right.BLOCKERS: blockers,
}


def _amount(count: float) -> str:
    return words.size(count) if count else "0"
