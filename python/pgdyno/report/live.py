"""What a running experiment shows: one line that changes in a terminal, a line a trial elsewhere, or nothing."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from pgdyno.records import Outcome
from pgdyno.report import numbers
from pgdyno.report.blocks import bar, printable, sparkline
from pgdyno.report.terminal import ACCENT, AMBER, RED
from pgdyno.units import format_bytes

SPARKLINE = 12
BAR = 20
SHORTEST_PICTURE = 4
WANTED_LABEL = 30
"""Columns of a label that come before the picture and the phase."""
GAP = "  "
PHASE = "italic"
EVERY_S = 10.0
"""Where lines cannot change, how long it is quiet between two of a trial."""


class LiveView(Protocol):
    """Told by the experiment what happens. A context: the terminal is whole again after it."""

    def __enter__(self) -> Self:
        """Begin to show."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End, whatever happened."""

    def set_up(self, text: str) -> None:
        """What is being prepared: `fetching PostgreSQL 18.6`."""

    def bytes(self, done: int, total: int | None) -> None:
        """How far a transfer is; `total` is None when nobody said."""

    def rows(self, done: int, total: int, per_s: float, left_s: float) -> None:
        """How far a load of `total` rows is, how fast, and how long the rest takes."""

    def trial_started(
        self, number: int, total: int, label: str, seconds: float | None, later: int | None = None
    ) -> None:
        """Trial `number` of `total` begins; it needs `seconds`, its warm-up included, if that is known.

        `later` trials come behind it; None: all of the higher numbers.
        """

    def interval(self, tps: float, p99_ms: float | None, phase: str = "") -> None:
        """A second of the trial, in its `phase`."""

    def trial_ended(self, outcome: Outcome, tps: float | None, p99_ms: float | None) -> None:
        """The trial is over."""

    def note(self, text: str) -> None:
        """Something that stays on the screen."""

    def run_began(self, folder: Path, trials: Sequence[Planned]) -> None:
        """The run has its folder; `trials` are all that are known."""

    def heard(self, event: Mapping[str, Any]) -> None:
        """The engine said this."""

    def run_ended(self, how: str, outcome: Outcome) -> None:
        """The last trial is over, `how` in words that go on from "it"."""

    def stop_wanted(self) -> str | None:
        """Why there is to be no further trial, if somebody who watches wants that."""

    def marks(self) -> list[Mark]:
        """Moments that were marked since this was last asked."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A trial as a grid of the sweep shows it."""

    number: int
    slug: str
    arm: str
    """What it has in common with the others of its curve."""
    clients: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment that somebody marked."""

    wall_us: int
    """Since 1970."""
    text: str


class Alone:
    """A view that nobody but who started the run looks at: what others would want to know or do is left out."""

    def run_began(self, folder: Path, trials: Sequence[Planned]) -> None:
        """Nothing."""

    def heard(self, event: Mapping[str, Any]) -> None:
        """Nothing."""

    def run_ended(self, how: str, outcome: Outcome) -> None:
        """Nothing."""

    def stop_wanted(self) -> str | None:
        """Nobody wants that."""
        return None

    def marks(self) -> list[Mark]:
        """None."""
        return []


def live_view(console: Console, *, quiet: bool = False) -> LiveView:
    """The view that suits `console`."""
    if quiet:
        return QuietView()
    return TerminalView(console) if console.is_terminal and not console.is_dumb_terminal else PlainView(console)


class TimeLeft:
    """How long the rest of a run takes: the trials to come at their plan's length, or at what trials took if longer."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives seconds of any origin."""
        self._clock = clock
        self._starts: list[float] = []
        self._later = 0
        self._seconds: float | None = None

    def trial_started(self, later: int, seconds: float | None) -> None:
        """A trial begins, and `later` ones come behind it."""
        self._starts.append(self._clock())
        self._later, self._seconds = later, seconds

    def left_s(self) -> float | None:
        """Seconds until the last trial ends; None when nothing tells."""
        if not self._starts:
            return None
        took = (self._starts[-1] - self._starts[0]) / (len(self._starts) - 1) if len(self._starts) > 1 else None
        known = [each for each in (self._seconds, took) if each is not None]
        if not known:
            return None
        each = max(known)
        now = self._clock() - self._starts[-1]
        return max(each - now, 0.0) + self._later * each


class TerminalView(Alone):
    """One line at the bottom that follows the trial; lines above it for what is over."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is for tests."""
        self._console = console
        self._left = TimeLeft(clock)
        self._set_up = ""
        self._transfer = ""
        self._trial = ""
        self._running = False
        self._label = ""
        self._phase = ""
        self._rates: deque[float] = deque(maxlen=SPARKLINE)
        self._p99_ms: float | None = None
        # asks for the line at once, so it comes last
        self._live = Live(console=console, refresh_per_second=4, transient=True, get_renderable=self.line)

    def __enter__(self) -> Self:
        """Begin to show."""
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the line away."""
        self._live.stop()

    def line(self) -> Text:
        """The line as it is now, cut to the console's width."""
        line = self._trial_line() if self._running else Text(self._set_up).append(self._transfer, ACCENT)
        line.truncate(self._console.width, overflow="ellipsis")
        return line

    def _trial_line(self) -> Text:
        # where there is little room the picture is shortened, then the phase goes, then the picture, and at last the
        # label is cut: the figures are what one looks at
        forms = [(phase, blocks) for phase in (True, False) for blocks in range(SPARKLINE, SHORTEST_PICTURE - 1, -1)]
        wanted = min(len(self._label), WANTED_LABEL)
        parts = self._figures(phase=False, blocks=0)
        for phase, blocks in forms:
            tried = self._figures(phase=phase, blocks=blocks)
            if self._label_room(tried) >= wanted:
                parts = tried
                break
        label = Text(self._label)
        label.truncate(max(self._label_room(parts), 1), overflow="ellipsis")
        return Text(GAP).join([Text(self._trial, "dim"), label, *parts])

    def _figures(self, *, phase: bool, blocks: int) -> list[Text]:
        parts = [Text(self._phase, PHASE)] if phase and self._phase else []
        if self._rates:
            shown = list(self._rates)[-blocks:] if blocks else []
            parts += [Text(sparkline(shown, blocks), ACCENT)] if shown else []
            parts.append(Text(f"{numbers.short(self._rates[-1])} tps", "bold"))
        if self._p99_ms is not None:
            parts.append(Text(f"p99 {numbers.rounded(self._p99_ms)} ms"))
        left_s = self._left.left_s()
        if left_s is not None:
            parts.append(Text(f"{clock_time(left_s)} left", "dim"))
        return parts

    def _label_room(self, parts: Sequence[Text]) -> int:
        used = len(self._trial) + len(GAP) + sum(len(GAP) + part.cell_len for part in parts)
        return self._console.width - used

    def set_up(self, text: str) -> None:
        """Show what is being prepared, or checked behind a trial, in place of a trial."""
        self._set_up, self._transfer, self._running = printable(text), "", False

    def bytes(self, done: int, total: int | None) -> None:
        """Show how far a transfer is behind what is being prepared."""
        self._transfer = f"{GAP}{format_bytes(done)}"
        if total:
            self._transfer = f"{GAP}{bar(done / total, BAR)} {format_bytes(done)} of {format_bytes(total)}"

    def rows(self, done: int, total: int, per_s: float, left_s: float) -> None:
        """Show how far a load is behind what is being prepared."""
        share = min(done / max(total, 1), 1.0)
        # 100 % is said when nothing is missing
        parts = [f"{bar(share, BAR)} {math.floor(share * 100)} %", f"{numbers.short(per_s)} rows/s"]
        if done < total:
            parts.append(f"{clock_time(left_s)} left")
        self._transfer = GAP + GAP.join(parts)

    def trial_started(
        self, number: int, total: int, label: str, seconds: float | None, later: int | None = None
    ) -> None:
        """Show a trial from here on."""
        self._left.trial_started(total - number if later is None else later, seconds)
        self._trial, self._label, self._running = f"trial {number}/{total}", printable(label), True
        self._rates.clear()
        self._p99_ms, self._phase = None, ""

    def interval(self, tps: float, p99_ms: float | None, phase: str = "") -> None:
        """Show this second's figures."""
        self._phase = printable(phase)
        self._rates.append(tps)
        self._p99_ms = p99_ms

    def trial_ended(self, outcome: Outcome, tps: float | None, p99_ms: float | None) -> None:
        """Leave the trial's result above the line."""
        text = f"{self._trial}{GAP}{self._label}{GAP}{result(outcome, tps, p99_ms)}"
        self._console.print(Text(text, "" if outcome is Outcome.FINISHED else RED), soft_wrap=True)
        self._trial, self._set_up, self._transfer, self._running = "", "", "", False

    def note(self, text: str) -> None:
        """Leave a note above the line."""
        self._console.print(Text(printable(text), AMBER), soft_wrap=True)


class PlainView(Alone):
    """For files, pipes and dumb terminals: a line for what is prepared, one now and then of a trial, one at its end."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        """Writes to `console` without colour or control characters; `clock` is for tests."""
        self._console = console
        self._clock = clock
        self._left = TimeLeft(clock)
        self._said: set[str] = set()
        self._trial = ""
        self._spoke = 0.0

    def __enter__(self) -> Self:
        """Nothing to begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to end."""

    def _print(self, text: str) -> None:
        self._console.print(Text(printable(text)), soft_wrap=True)

    def set_up(self, text: str) -> None:
        """A line, once for each thing that is prepared: what comes before every trial would fill a log."""
        if text not in self._said:
            self._said.add(text)
            self._print(text)

    def bytes(self, done: int, total: int | None) -> None:
        """Nothing: a log has no use for progress."""

    def rows(self, done: int, total: int, per_s: float, left_s: float) -> None:
        """Nothing, for the same reason."""

    def trial_started(
        self, number: int, total: int, label: str, seconds: float | None, later: int | None = None
    ) -> None:
        """Keep the name for the lines of the trial."""
        self._left.trial_started(total - number if later is None else later, seconds)
        self._trial = f"trial {number}/{total}{GAP}{label}"
        self._spoke = self._clock()

    def interval(self, tps: float, p99_ms: float | None, phase: str = "") -> None:
        """A line, if the last one was a while ago."""
        if self._clock() - self._spoke < EVERY_S:
            return
        self._spoke = self._clock()
        left_s = self._left.left_s()
        left = [] if left_s is None else [f"{clock_time(left_s)} left"]
        self._print(GAP.join([self._trial, *([phase] if phase else []), figures(tps, p99_ms), *left]))

    def trial_ended(self, outcome: Outcome, tps: float | None, p99_ms: float | None) -> None:
        """The trial's line."""
        self._print(f"{self._trial}{GAP}{result(outcome, tps, p99_ms)}")

    def note(self, text: str) -> None:
        """A line."""
        self._print(text)


class QuietView(Alone):
    """Shows nothing."""

    def __enter__(self) -> Self:
        """Nothing to begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to end."""

    def set_up(self, text: str) -> None:
        """Nothing."""

    def bytes(self, done: int, total: int | None) -> None:
        """Nothing."""

    def rows(self, done: int, total: int, per_s: float, left_s: float) -> None:
        """Nothing."""

    def trial_started(
        self, number: int, total: int, label: str, seconds: float | None, later: int | None = None
    ) -> None:
        """Nothing."""

    def interval(self, tps: float, p99_ms: float | None, phase: str = "") -> None:
        """Nothing."""

    def trial_ended(self, outcome: Outcome, tps: float | None, p99_ms: float | None) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""


def result(outcome: Outcome, tps: float | None, p99_ms: float | None) -> str:
    """`71.3k tps  p99 2.10 ms`; the outcome first where the trial is no result."""
    said = figures(tps, p99_ms)
    return said if outcome is Outcome.FINISHED else GAP.join([outcome.value, said]).strip()


def figures(tps: float | None, p99_ms: float | None) -> str:
    """`71.3k tps  p99 2.10 ms`; what is not known is left out."""
    said = [] if tps is None else [f"{numbers.short(tps)} tps"]
    if p99_ms is not None:
        said.append(f"p99 {numbers.rounded(p99_ms)} ms")
    return GAP.join(said)


def clock_time(seconds: float) -> str:
    """`11:40`, `1:02:09`."""
    minutes, secs = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{secs:02d}" if hours else f"{minutes}:{secs:02d}"
