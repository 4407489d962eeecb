"""Outputs of frames: a changing screen, lines, one frame as text, or JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from pgdyno.report import numbers
from pgdyno.report.numbers import NOTHING
from pgdyno.report.terminal.text_drawing import printable
from pgdyno.safe_output import print_json
from pgdyno.watch import panels
from pgdyno.watch.frame import INTERVALS, Frame, History
from pgdyno.watch.keyboard import Keys, Suspension
from pgdyno.watch.panels import Right
from pgdyno.watch.screen import Looks, screen

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


WAKE_S = 0.2


class View(Protocol):
    """Receives every second. A context manager, which restores the terminal at its end."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def notes(self, notes: list[str]) -> None:
        """Report missing data, each once."""

    def second(self, history: History, looks: Looks) -> None: ...

    def wait(self) -> bool:
        """Wait a moment; False if the user wants to end."""


class ScreenView:
    """The whole terminal, redrawn every interval, and immediately when a key is pressed or the size changes."""

    def __init__(self, console: Console, interval: int) -> None:
        self._console = console
        self._interval = interval
        self._keys = Keys()
        self._right = Right.PROCESSES
        self._notes: list[str] = []
        self._history: History | None = None
        self._looks: Looks | None = None
        self._shown: Frame | None = None
        self._paused = False
        self._since = 0
        self._size = console.size
        self._live = self._new_live()
        self._suspension = Suspension()

    def __enter__(self) -> ScreenView:
        self._suspension.__enter__()
        self._take()
        self._live.update(Text("connected; the first figures appear in two seconds", "dim"), refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the previous content of the terminal."""
        self._give_back()
        self._suspension.__exit__(kind, error, trace)

    def _take(self) -> None:
        self._keys.__enter__()
        # a stopped display does not crop any more
        self._live = self._new_live()
        self._live.start()

    def _new_live(self) -> Live:
        return Live(console=self._console, screen=True, auto_refresh=False, transient=True, vertical_overflow="crop")

    def _give_back(self) -> None:
        self._live.stop()
        self._keys.__exit__(None, None, None)

    def notes(self, notes: list[str]) -> None:
        """Display them in the footer from now on."""
        self._notes += notes

    def second(self, history: History, looks: Looks) -> None:
        """Draw if the interval is over."""
        self._history, self._looks = history, looks
        self._since += 1
        if not self._paused and (self._since >= self._interval or self._shown is None):
            self._draw(next_frame=True)

    def wait(self) -> bool:
        typed = self._keys.wait(WAKE_S)
        if self._suspension.is_wanted:
            self._give_back()
            self._suspension.stop()
            self._take()
            self._draw(next_frame=False)
        if "q" in typed or "Q" in typed:
            return False
        for key in typed:
            self._press(key)
        if typed or self._console.size != self._size:
            self._draw(next_frame=False)
        return True

    def _press(self, key: str) -> None:
        if key in "pP ":
            self._paused = not self._paused
        elif key in "+=-":
            place = INTERVALS.index(self._interval) + (-1 if key == "-" else 1)
            self._interval = INTERVALS[min(max(place, 0), len(INTERVALS) - 1)]
        elif key in "tT":
            rights = list(Right)
            self._right = rights[(rights.index(self._right) + 1) % len(rights)]

    def _draw(self, *, next_frame: bool) -> None:
        self._size = self._console.size
        if self._history is None or self._looks is None:
            return
        if next_frame or self._shown is None:
            self._since = 0
            self._shown = self._history.frame(self._interval)
        looks = replace(self._looks, interval=self._interval, paused=self._paused, right=self._right, notes=self._notes)
        lines = screen(self._shown, self._history.points, looks, *self._size)
        self._live.update(Group(*lines), refresh=True)


class Stepped:
    """Common part of all views without a screen: a frame every interval, and no keys."""

    def __init__(self, interval: int, *, once: bool = False) -> None:
        """With `once`, it ends after the first frame that has rates."""
        self._interval = interval
        self._seconds = 0
        self._once = once
        self._over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def notes(self, notes: list[str]) -> None:
        """Print notes on standard error, once each."""
        for note in notes:
            print(f"note: {printable(note)}", file=sys.stderr, flush=True)

    def second(self, history: History, looks: Looks) -> None:
        """Print a frame if the interval is over; the first second has no rates and is left out."""
        self._seconds += 1
        if self._seconds > 1 and (self._seconds - 1) % self._interval == 0:
            self.show(history.frame(self._interval), history, replace(looks, interval=self._interval))
            self._over = self._once

    def wait(self) -> bool:
        if not self._over:
            time.sleep(WAKE_S)
        return not self._over

    def show(self, frame: Frame, history: History, looks: Looks) -> None:
        raise NotImplementedError


class LineView(Stepped):
    """A line per interval, as in vmstat."""

    _number = 0

    def show(self, frame: Frame, history: History, looks: Looks) -> None:
        """Print the frame, and the heading now and then."""
        del history, looks
        if self._number % HEADING_EVERY == 0:
            print(HEADING)
        self._number += 1
        print(line_of(frame), flush=True)


class JsonView(Stepped):
    """An object per interval."""

    def show(self, frame: Frame, history: History, looks: Looks) -> None:
        del history
        head = {"server": looks.title, "server_version": looks.version, "processors": looks.processors}
        print_json({**frame.as_json(), **head})


class PageView(Stepped):
    def __init__(self, interval: int, width: int) -> None:
        """Lines have at most `width` columns."""
        super().__init__(interval, once=True)
        self._width = width

    def show(self, frame: Frame, history: History, looks: Looks) -> None:
        print(text_of(frame, looks.title, looks.version, self._width, queries=history.queries), end="", flush=True)
