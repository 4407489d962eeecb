"""A frame as a screen: header, tiles, the chart, tables, the keys. A pure function of figures and a size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from pgdyno.report.terminal.text_drawing import printable, sparkline
from pgdyno.watch import panels
from pgdyno.watch.chart import legend, stacked
from pgdyno.watch.frame import Frame, Point, stepped
from pgdyno.watch.panels import Right

ACCENT = "cyan"
TILE = 38
"""Minimum width of a tile."""
GAP = 2
LOWEST_CHART = 4
ONE_TABLE, TWO_TABLES = 110, 160
"""Widths below which there are two and three tables."""


@dataclass(frozen=True, slots=True)
class Looks:
    title: str
    version: str
    interval: int
    paused: bool = False
    right: Right = Right.PROCESSES
    notes: Sequence[str] = ()
    processors: float | None = None
    """Cores that the server may use; None if its host is not this one."""
    colours: bool = True
    queries: bool = False


def screen(frame: Frame, points: Sequence[Point], looks: Looks, width: int, height: int) -> list[Text]:
    """Return exactly `height` lines of at most `width` cells."""
    head = [_header(frame, looks, width), *_tiles(frame, points, looks, width)]
    foot = [_footer(looks, width)]
    room = height - len(head) - len(foot) - 2
    chart_height = max(min(room // 2, 24), LOWEST_CHART)
    # leave a blank line above a table
    table_height = max(room - chart_height, 0)
    body = [*_chart(frame, points, looks, width, chart_height), Text("")]
    body += _tables(frame, looks, width, table_height)
    lines = [*head, *body][: height - 1]
    lines += [Text("")] * (height - 1 - len(lines))
    return [*lines, *foot][:height]


def _header(frame: Frame, looks: Looks, width: int) -> Text:
    line = Text(no_wrap=True).append("pgdyno watch  ", "dim")
    line.append(printable(looks.title), "bold")
    if looks.version:
        line.append(f"  PostgreSQL {printable(looks.version)}", "")
    right = Text().append(panels.clock(frame.at_s))
    right.append(f"  {looks.interval} s", "dim")
    if looks.paused:
        right = Text().append("paused  ", f"bold {ACCENT}").append_text(right)
    if frame.away is not None:
        right = Text().append("away  ", "bold red").append_text(right)
    line.truncate(max(width - right.cell_len - GAP, 1), overflow="ellipsis", pad=True)
    return line.append("  ").append_text(right)


@dataclass(frozen=True, slots=True)
class _Tile:
    name: str
    value: str
    values: Sequence[float | None]
    detail: str
    top: float | None = None
    """Upper end of its chart; None: the highest value."""


def _tiles(frame: Frame, points: Sequence[Point], looks: Looks, width: int) -> list[Text]:
    across = max(min(width // TILE, 6), 1)
    down = 1 if across >= 3 else 2
    each = (width - GAP * (across - 1)) // across
    steps = stepped(points, looks.interval, each)
    tiles = _all_tiles(frame, steps, is_local=frame.cpu is not None)[: across * down]
    lines = []
    for row in range(0, len(tiles), across):
        first, second = Text(no_wrap=True), Text(no_wrap=True)
        for at, tile in enumerate(tiles[row : row + across]):
            gap = " " * GAP if at else ""
            first.append(gap).append_text(_tile_line(tile, each))
            detail = Text(tile.detail, "dim")
            detail.truncate(each, overflow="ellipsis", pad=True)
            second.append(gap).append_text(detail)
        lines += [first, second]
    return lines


def _all_tiles(frame: Frame, steps: Sequence[Point], *, is_local: bool) -> list[_Tile]:
    tps = _Tile("tps", panels.figure(frame.tps), [step.tps for step in steps], panels.transactions_line(frame))
    wal = _Tile("WAL", f"{panels.size(frame.wal_bytes_per_s)}/s", [step.wal for step in steps], panels.wal_line(frame))
    reads = _Tile("reads", per_page(frame), [step.reads for step in steps], panels.reads_line(frame))
    counts = [step.sessions for step in steps]
    sessions = _Tile("sessions", panels.figure(frame.sessions), counts, panels.sessions_line(frame).partition(", ")[2])
    checkpoint = _Tile("checkpoint", "", [], panels.checkpoint_line(frame))
    if not is_local:
        return [tps, sessions, wal, reads, checkpoint]
    cpu = frame.cpu
    busy = _Tile(
        "CPU", panels.percent(cpu.busy if cpu else None), [step.cpu for step in steps], panels.cpu_line(frame), 1.0
    )
    disk = frame.disk
    use = panels.percent(disk.utilisation if disk else None)
    disks = _Tile(panels.disk_name(disk), use, [step.disk for step in steps], panels.disk_line(disk), 1.0)
    return [tps, busy, wal, disks, sessions, reads, checkpoint]


def per_page(frame: Frame) -> str:
    """Return pages that were read from outside shared buffers."""
    return panels.per_s(frame.reads_per_s, "pages")


def _tile_line(tile: _Tile, width: int) -> Text:
    line = Text(tile.name, no_wrap=True)
    line.append(f" {tile.value}", "bold")
    room = width - line.cell_len - 1
    known = [value or 0.0 for value in tile.values][-room:] if room > 0 else []
    if len(known) > 1 and room >= 4:
        line.append(" " * (1 + room - len(known)))
        line.append(sparkline(known, room, tile.top), ACCENT)
    line.truncate(width, overflow="ellipsis", pad=True)
    return line


def _chart(frame: Frame, points: Sequence[Point], looks: Looks, width: int, height: int) -> list[Text]:
    steps = [step.active for step in stepped(points, looks.interval, width)]
    lines = stacked(steps, width, height, looks.processors, colours=looks.colours)
    keys = Text(no_wrap=True).append("active sessions", "dim")
    if frame.away is not None:
        keys.append(f"  no connection to the server: {printable(frame.away)}", "red")
    else:
        keys.append(f" {panels.figure(frame.active_sessions)}", "bold")
        for key in legend(frame.active, colours=looks.colours):
            keys.append("  ").append_text(key)
    keys.truncate(width, overflow="ellipsis")
    return [keys, *lines]


def _tables(frame: Frame, looks: Looks, width: int, height: int) -> list[Text]:
    if height < 2:
        return []
    local = frame.cpu is not None or bool(frame.processes)
    if width < ONE_TABLE:
        left = width * 2 // 5
        return _side_by_side([panels.waits(frame, left, height), _right(frame, looks, width - left - GAP, height)])
    if width < TWO_TABLES or not local:
        left = width // 3
        first = _waits_and_blockers(frame, left, height)
        return _side_by_side([first, _right(frame, looks, width - left - GAP, height)])
    left, middle = width // 4, width * (5 if looks.queries else 4) // 10
    first = _waits_and_blockers(frame, left, height)
    second = panels.sessions(frame, middle, height, queries=looks.queries)
    # sessions are in the middle, blockers below the waits
    last = panels.statements if looks.right is Right.STATEMENTS else panels.processes
    third = last(frame, width - left - middle - 2 * GAP, height)
    return _side_by_side([first, second, third])


def _waits_and_blockers(frame: Frame, width: int, height: int) -> list[Text]:
    """Return both in one column; if no session waits for a lock, only the waits."""
    if not frame.blockers or height < LOWEST_CHART + 2:
        return panels.waits(frame, width, height)
    number = len(frame.waits or {}) + len(frame.background or {}) + 1
    above = min(number, height - min(len(frame.blockers) + 2, height // 2))
    first = [*panels.waits(frame, width, above), Text("")]
    return [*first, *panels.blockers(frame, width, height - len(first))]


def _right(frame: Frame, looks: Looks, width: int, height: int) -> list[Text]:
    if looks.right is Right.SESSIONS:
        return panels.sessions(frame, width, height, queries=looks.queries)
    return panels.RIGHTS[looks.right](frame, width, height)


def _side_by_side(columns: Sequence[list[Text]]) -> list[Text]:
    widths = [max(line.cell_len for line in column) for column in columns]
    lines = []
    for parts in zip(*columns, strict=True):
        line = Text(no_wrap=True)
        for at, (part, width) in enumerate(zip(parts, widths, strict=True)):
            padded = part.copy()
            padded.truncate(width, pad=True)
            line.append(" " * GAP if at else "").append_text(padded)
        lines.append(line)
    return lines


def _footer(looks: Looks, width: int) -> Text:
    line = Text("", no_wrap=True)
    for key, word in (("q", "quit"), ("p", "resume" if looks.paused else "pause"), ("+ -", "interval"), ("t", "table")):
        line.append(f"{key} ", "bold").append(f"{word}  ", "dim")
    if looks.notes:
        line.append(printable("; ".join(looks.notes)), "yellow")
    line.truncate(width, overflow="ellipsis")
    return line
