"""A frame as plain text: a page for a script or a log, or a line."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from pgdyno.report import numbers
from pgdyno.report.numbers import NOTHING
from pgdyno.report.terminal.text_drawing import printable
from pgdyno.watch import panels
from pgdyno.watch.frame import Frame

HEADING_EVERY = 20
_COLUMNS = (("time", 8), ("tps", 7), ("active", 7), ("CPU", 6), ("steal", 6), ("disk", 6), ("WAL/s", 9), ("reads/s", 8))
HEADING = "".join(f"{name:>{width}}" for name, width in _COLUMNS) + "  top wait"
MOST = 10
"""Rows of a table."""


def line_of(frame: Frame) -> str:
    """Return `frame` as a line under HEADING."""
    if frame.away is not None:
        return f"{panels.clock(frame.at_s):>8}  away: {printable(frame.away)}"
    cells = [
        panels.clock(frame.at_s),
        panels.figure(frame.tps),
        panels.figure(frame.active_sessions),
        panels.percent(frame.cpu.busy if frame.cpu else None),
        panels.percent(frame.cpu.steal if frame.cpu else None),
        panels.percent(frame.disk.utilisation if frame.disk else None),
        panels.size(frame.wal_bytes_per_s),
        panels.figure(frame.reads_per_s),
    ]
    figures = "".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, _COLUMNS, strict=True))
    return f"{figures}  {top_wait(frame)}"


def top_wait(frame: Frame) -> str:
    """Return the top wait with its number of sessions."""
    top = next(((name, sessions) for name, sessions in (frame.waits or {}).items() if sessions > 0), None)
    return NOTHING if top is None else f"{printable(top[0])} {numbers.rounded(top[1], 2)}"


def text_of(frame: Frame, title: str, version: str, width: int, *, queries: bool = False) -> str:
    """Return `frame` as a page of text in lines of at most `width` columns."""
    lines = [f"{printable(title)}  PostgreSQL {printable(version)}  {panels.clock(frame.at_s)}  {frame.seconds} s"]
    if frame.away is not None:
        lines.append(f"no connection to the server: {printable(frame.away)}")
    lines += [line[:width] for line in _figures(frame)]
    parts = [panels.waits(frame, width, MOST + 1, pictures=False)]
    parts.append(panels.sessions(frame, width, MOST + 1, queries=queries))
    if frame.statements:
        parts.append(panels.statements(frame, width, MOST + 1))
    if frame.processes:
        parts.append(panels.processes(frame, width, MOST + 1))
    if frame.blockers:
        parts.append(panels.blockers(frame, width, MOST + 1))
    for part in parts:
        lines += ["", *_filled(part)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _filled(lines: list[Text]) -> Iterator[str]:
    return (line.plain for line in lines if line.plain.strip())


def _figures(frame: Frame) -> Iterator[str]:
    yield ""
    yield f"tps          {panels.figure(frame.tps)}, {panels.transactions_line(frame)}"
    yield f"sessions     {panels.sessions_line(frame)}"
    if frame.active:
        classes = ", ".join(f"{name} {numbers.rounded(each, 2)}" for name, each in frame.active.items())
        yield f"active       {classes}"
    yield f"reads        {panels.per_s(frame.reads_per_s, 'pages')}, {panels.reads_line(frame) or NOTHING}"
    wal = f"{panels.size(frame.wal_bytes_per_s)}/s"
    yield f"WAL          {', '.join(part for part in (wal, panels.wal_line(frame)) if part)}"
    yield f"checkpoint   {panels.checkpoint_line(frame)}"
    if frame.cpu is not None:
        running = panels.figure(frame.cpu.running)
        yield f"CPU          {panels.percent(frame.cpu.busy)}: {panels.cpu_line(frame)}; {running} tasks run or could"
    for disk in frame.disks:
        if disk.holds or disk is frame.disk:
            yield f"{panels.disk_name(disk)}: {panels.percent(disk.utilisation)}, {panels.disk_line(disk)}"
    if frame.memory_available_bytes is not None:
        available = panels.size(frame.memory_available_bytes)
        yield f"memory       {available} available, {panels.size(frame.dirty_bytes)} dirty"
