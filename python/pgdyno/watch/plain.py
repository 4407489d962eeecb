"""A frame as plain text: a page for a script or a log, or a line."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from pgdyno.report import numbers
from pgdyno.report.blocks import printable
from pgdyno.report.numbers import NOTHING
from pgdyno.watch import tables, words
from pgdyno.watch.frame import Frame

HEADING_EVERY = 20
_COLUMNS = (("time", 8), ("tps", 7), ("active", 7), ("CPU", 6), ("steal", 6), ("disk", 6), ("WAL/s", 9), ("reads/s", 8))
HEADING = "".join(f"{name:>{width}}" for name, width in _COLUMNS) + "  top wait"
MOST = 10
"""Rows of a table."""


def line_of(frame: Frame) -> str:
    """Return `frame` as a line under HEADING."""
    if frame.away is not None:
        return f"{words.clock(frame.at_s):>8}  away: {printable(frame.away)}"
    cells = [
        words.clock(frame.at_s),
        words.figure(frame.tps),
        words.figure(frame.active_sessions),
        words.percent(frame.cpu.busy if frame.cpu else None),
        words.percent(frame.cpu.steal if frame.cpu else None),
        words.percent(frame.disk.utilisation if frame.disk else None),
        words.size(frame.wal_bytes_per_s),
        words.figure(frame.reads_per_s),
    ]
    figures = "".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, _COLUMNS, strict=True))
    return f"{figures}  {top_wait(frame)}"


def top_wait(frame: Frame) -> str:
    """Return the top wait with its number of sessions."""
    top = next(((name, sessions) for name, sessions in (frame.waits or {}).items() if sessions > 0), None)
    return NOTHING if top is None else f"{printable(top[0])} {numbers.rounded(top[1], 2)}"


def text_of(frame: Frame, title: str, version: str, width: int, *, queries: bool = False) -> str:
    """Return `frame` as a page of text in lines of at most `width` columns."""
    lines = [f"{printable(title)}  PostgreSQL {printable(version)}  {words.clock(frame.at_s)}  {frame.seconds} s"]
    if frame.away is not None:
        lines.append(f"the server is away: {printable(frame.away)}")
    lines += [line[:width] for line in _figures(frame)]
    parts = [tables.waits(frame, width, MOST + 1, pictures=False)]
    parts.append(tables.sessions(frame, width, MOST + 1, queries=queries))
    if frame.statements:
        parts.append(tables.statements(frame, width, MOST + 1))
    if frame.processes:
        parts.append(tables.processes(frame, width, MOST + 1))
    if frame.blockers:
        parts.append(tables.blockers(frame, width, MOST + 1))
    for part in parts:
        lines += ["", *_filled(part)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _filled(lines: list[Text]) -> Iterator[str]:
    return (line.plain for line in lines if line.plain.strip())


def _figures(frame: Frame) -> Iterator[str]:
    yield ""
    yield f"tps          {words.figure(frame.tps)}, {words.transactions_line(frame)}"
    yield f"sessions     {words.sessions_line(frame)}"
    if frame.active:
        classes = ", ".join(f"{name} {numbers.rounded(each, 2)}" for name, each in frame.active.items())
        yield f"active       {classes}"
    yield f"reads        {words.per_s(frame.reads_per_s, 'pages')}, {words.reads_line(frame) or NOTHING}"
    wal = f"{words.size(frame.wal_bytes_per_s)}/s"
    yield f"WAL          {', '.join(part for part in (wal, words.wal_line(frame)) if part)}"
    yield f"checkpoint   {words.checkpoint_line(frame)}"
    if frame.cpu is not None:
        running = words.figure(frame.cpu.running)
        yield f"CPU          {words.percent(frame.cpu.busy)}: {words.cpu_line(frame)}; {running} tasks run or could"
    for disk in frame.disks:
        if disk.holds or disk is frame.disk:
            yield f"{words.disk_name(disk)}: {words.percent(disk.utilisation)}, {words.disk_line(disk)}"
    if frame.memory_available_bytes is not None:
        available = words.size(frame.memory_available_bytes)
        yield f"memory       {available} available, {words.size(frame.dirty_bytes)} dirty"
