"""Where frames go: the terminal, or standard output as lines, a page or JSON."""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Sequence
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from pgdyno.report.terminal.text_drawing import printable
from pgdyno.watch.frame import INTERVALS, Frame, History
from pgdyno.watch.screen import Looks, Table, screen

WAKE_S = 0.2
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;<?]*[^0-9;<?]?|O?.?)", re.DOTALL)
"""The bytes of a function key, a cursor key, or a key with Alt: F2 ends with a Q."""


class Keys:
    """Standard input as keys while the block lasts; nothing if it is not a terminal."""

    def __enter__(self) -> Keys:
        """Switch the terminal out of its line mode; Ctrl-C stays a signal."""
        self._file = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
        if self._file is not None:
            self._before = termios.tcgetattr(self._file)
            tty.setcbreak(self._file)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            # unread keys are not for the shell
            termios.tcsetattr(self._file, termios.TCSAFLUSH, self._before)

    def wait(self, seconds: float) -> str:
        """Return letters and other characters, waiting up to `seconds` for one; possibly empty."""
        ready, _, _ = select.select([] if self._file is None else [self._file], [], [], seconds)
        if not ready or self._file is None:
            return ""
        typed = os.read(self._file, 64)
        if not typed:
            # the terminal was closed
            self._file = None
        return _SEQUENCE.sub("", typed.decode(errors="replace"))


class ScreenView:
    """The whole terminal, redrawn every interval, and immediately when a key is pressed or the size changes."""

    def __init__(self, console: Console, looks: Looks) -> None:
        self._console = console
        self._looks = looks
        self._keys = Keys()
        self._history: History | None = None
        self._shown: Frame | None = None
        self._must_stop = False
        self._since = 0

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGTSTP, self._note_stop)
        self._take()
        self._live.update(Text("connected; the first figures appear in two seconds", "dim"), refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._give_back()
        signal.signal(signal.SIGTSTP, self._before)

    def _note_stop(self, *_: object) -> None:
        self._must_stop = True

    def _take(self) -> None:
        self._keys.__enter__()
        self._size = self._console.size
        # a stopped display does not crop any more
        self._live = Live(
            console=self._console, screen=True, auto_refresh=False, transient=True, vertical_overflow="crop"
        )
        self._live.start()

    def _give_back(self) -> None:
        self._live.stop()
        self._keys.__exit__()

    def notes(self, notes: Sequence[str]) -> None:
        """Display them in the footer."""
        self._looks.notes = notes

    def second(self, history: History) -> None:
        """Draw if the interval is over."""
        self._history = history
        self._since += 1
        if not self._looks.paused and (self._since >= self._looks.interval or self._shown is None):
            self._since = 0
            self._shown = history.frame(self._looks.interval)
            self._draw()

    def wait(self) -> bool:
        typed = self._keys.wait(WAKE_S)
        if self._must_stop:
            self._must_stop = False
            self._give_back()
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTSTP)
            signal.signal(signal.SIGTSTP, self._note_stop)
            self._take()
            self._draw()
        if "q" in typed or "Q" in typed:
            return False
        for key in typed:
            self._press(key)
        if typed or self._console.size != self._size:
            self._draw()
        return True

    def _press(self, key: str) -> None:
        looks = self._looks
        if key in "pP ":
            looks.paused = not looks.paused
        elif key in "+=-":
            place = INTERVALS.index(looks.interval) + (-1 if key == "-" else 1)
            looks.interval = INTERVALS[min(max(place, 0), len(INTERVALS) - 1)]
        elif key in "tT":
            tables = list(Table)
            looks.table = tables[(tables.index(looks.table) + 1) % len(tables)]

    def _draw(self) -> None:
        self._size = self._console.size
        if self._history is not None and self._shown is not None:
            self._live.update(screen(self._shown, self._history.points, self._looks, *self._size), refresh=True)


class PrintedView:
    """A frame every interval on standard output, and no keys."""

    def __init__(self, interval: int, show: Callable[[Frame], None], *, once: bool) -> None:
        """With `once`, it ends after the first frame that has rates."""
        self._interval = interval
        self._show = show
        self._once = once
        self._seconds = self._noted = 0
        self._over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def notes(self, notes: Sequence[str]) -> None:
        """Print new ones on standard error."""
        for note in notes[self._noted :]:
            print(f"note: {printable(note)}", file=sys.stderr, flush=True)
        self._noted = len(notes)

    def second(self, history: History) -> None:
        """Print a frame if the interval is over; the first second has no rates and is left out."""
        self._seconds += 1
        if self._seconds > 1 and (self._seconds - 1) % self._interval == 0:
            self._show(history.frame(self._interval))
            self._over = self._once

    def wait(self) -> bool:
        if not self._over:
            time.sleep(WAKE_S)
        return not self._over


View = ScreenView | PrintedView
"""Receives every second and the notes; `wait` returns False if it has ended."""
