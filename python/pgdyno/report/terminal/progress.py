"""The progress of a running experiment: one changing line in a terminal, a line per trial elsewhere, or nothing."""

import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from pgdyno.records import Outcome
from pgdyno.report import numbers
from pgdyno.report.answers.comparison import percent
from pgdyno.report.run_events import (
    BytesDone,
    IntervalEnded,
    Looked,
    Noted,
    RowsDone,
    RunEvent,
    SetUp,
    TrialEnded,
    TrialStarted,
)
from pgdyno.report.terminal.text_drawing import ACCENT, AMBER, RED, bar, printable, sparkline
from pgdyno.units import format_bytes

SPARKLINE = 12
BAR = 20
SHORTEST_PICTURE = 4
WANTED_LABEL = 30
"""Columns of a label that take precedence over chart and phase."""
GAP = "  "
PHASE = "italic"
EVERY_S = 10.0
"""Interval between two lines of a trial if lines cannot change."""


class LiveView(ABC):
    """Follows a run: `event` is called for everything that happens.

    It is a context manager, because some views change the terminal and must restore it.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(  # noqa: B027 - most views hold nothing
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release what the view holds, also after an exception."""

    @abstractmethod
    def event(self, event: RunEvent) -> None:
        """Show `event`, or ignore it if this view has no use for it."""


def live_view(console: Console, *, quiet: bool = False) -> LiveView:
    if quiet:
        return QuietView()
    return TerminalView(console) if console.is_terminal and not console.is_dumb_terminal else PlainView(console)


class TimeLeft:
    """The remaining time of a run: remaining trials count with their planned length, or the actual one if longer."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns seconds from any origin."""
        self._clock = clock
        self._starts: list[float] = []
        self._later = 0
        self._seconds: float | None = None

    def trial_started(self, later: int, seconds: float | None, *, is_over: bool = False) -> None:
        """Record the start of a trial, with `later` ones after it; ignore one that is over (`TrialStarted.is_over`)."""
        if is_over:
            return
        self._starts.append(self._clock())
        self._later, self._seconds = later, seconds

    def left_s(self) -> float | None:
        """Return the seconds until the last trial ends; None if unknown."""
        if not self._starts:
            return None
        took = (self._starts[-1] - self._starts[0]) / (len(self._starts) - 1) if len(self._starts) > 1 else None
        known = [each for each in (self._seconds, took) if each is not None]
        if not known:
            return None
        each = max(known)
        now = self._clock() - self._starts[-1]
        return max(each - now, 0.0) + self._later * each


class TerminalView(LiveView):
    """One line at the bottom that follows the trial; lines above it for completed ones."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
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
        # it requests the line at once, so it comes last
        self._live = Live(console=console, refresh_per_second=4, transient=True, get_renderable=self.line)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def line(self) -> Text:
        """Return the current line, cut to the console's width."""
        line = self._trial_line() if self._running else Text(self._set_up).append(self._transfer, ACCENT)
        line.truncate(self._console.width, overflow="ellipsis")
        return line

    def _trial_line(self) -> Text:
        # with little room, shorten the chart, then drop the phase, then the chart, and finally cut the label:
        # the figures matter most
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
            parts.append(Text(f"p99 {numbers.round_text(self._p99_ms)} ms"))
        left_s = self._left.left_s()
        if left_s is not None:
            parts.append(Text(f"{clock_time(left_s)} left", "dim"))
        return parts

    def _label_room(self, parts: Sequence[Text]) -> int:
        used = len(self._trial) + len(GAP) + sum(len(GAP) + part.cell_len for part in parts)
        return self._console.width - used

    def event(self, event: RunEvent) -> None:
        """Change the line, or print above it what is over."""
        match event:
            case SetUp(text):
                self._set_up, self._transfer, self._running = printable(text), "", False
            case BytesDone():
                self._transfer = f"{GAP}{_bytes(event)}"
            case RowsDone():
                self._transfer = f"{GAP}{_rows(event)}"
            case TrialStarted():
                self._start(event)
            case IntervalEnded(tps, p99_ms, phase):
                self._phase, self._p99_ms = printable(phase), p99_ms
                self._rates.append(tps)
            case TrialEnded():
                self._end(event)
            case Looked():
                self._console.print(Text(printable(look_line(event)), ACCENT), soft_wrap=True)
            case Noted(text):
                self._console.print(Text(printable(text), AMBER), soft_wrap=True)

    def _start(self, trial: TrialStarted) -> None:
        self._left.trial_started(trial.later, trial.seconds, is_over=trial.is_over)
        self._trial, self._label, self._running = _place(trial), printable(trial.label), True
        self._rates.clear()
        self._p99_ms, self._phase = None, ""

    def _end(self, trial: TrialEnded) -> None:
        text = f"{self._trial}{GAP}{self._label}{GAP}{result(trial)}"
        self._console.print(Text(text, "" if trial.outcome is Outcome.FINISHED else RED), soft_wrap=True)
        self._trial, self._set_up, self._transfer, self._running = "", "", "", False


def _place(trial: TrialStarted) -> str:
    return f"trial {trial.number}" if trial.is_open else f"trial {trial.number}/{trial.total}"


def _bytes(transfer: BytesDone) -> str:
    if not transfer.total:
        return format_bytes(transfer.done)
    done, total = format_bytes(transfer.done), format_bytes(transfer.total)
    return f"{bar(transfer.done / transfer.total, BAR)} {done} of {total}"


def _rows(load: RowsDone) -> str:
    share = min(load.done / max(load.total, 1), 1.0)
    # rounded down: 100 % must mean that no row is missing
    parts = [f"{bar(share, BAR)} {math.floor(share * 100)} %", f"{numbers.short(load.per_s)} rows/s"]
    if load.done < load.total:
        parts.append(f"{clock_time(load.left_s)} left")
    return GAP.join(parts)


class PlainView(LiveView):
    """For files, pipes and dumb terminals: a line per preparation, one now and then for a trial, one at its end."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        """Write to `console` without colour or control characters; `clock` is for tests."""
        self._console = console
        self._clock = clock
        self._left = TimeLeft(clock)
        self._said: set[str] = set()
        self._trial = ""
        self._spoke = 0.0

    def event(self, event: RunEvent) -> None:
        """Print a line for what is prepared, now and then one for a running trial, and one for each result."""
        match event:
            case SetUp(text):
                # once for each text: what comes before every trial would fill a log
                if text not in self._said:
                    self._said.add(text)
                    self._print(text)
            case TrialStarted():
                self._left.trial_started(event.later, event.seconds, is_over=event.is_over)
                self._trial = f"{_place(event)}{GAP}{event.label}"
                self._spoke = self._clock()
            case IntervalEnded():
                if self._clock() - self._spoke >= EVERY_S:
                    self._spoke = self._clock()
                    self._print(self._progress(event))
            case TrialEnded():
                self._print(f"{self._trial}{GAP}{result(event)}")
            case Looked():
                self._print(look_line(event))
            case Noted(text):
                self._print(text)

    def _progress(self, interval: IntervalEnded) -> str:
        left_s = self._left.left_s()
        left = [] if left_s is None else [f"{clock_time(left_s)} left"]
        phase = [interval.phase] if interval.phase else []
        return GAP.join([self._trial, *phase, figures(interval.tps, interval.p99_ms), *left])

    def _print(self, text: str) -> None:
        self._console.print(Text(printable(text)), soft_wrap=True)


class QuietView(LiveView):
    def event(self, event: RunEvent) -> None:
        """Ignore the event."""


def look_line(look: Looked) -> str:
    """Return `B vs A at 8 clients: +4.6 % throughput so far, interval +1.1 to +8.2 %, 5 of at most 40 pairs`."""
    interval = numbers.range_text(percent(look.low).removesuffix(" %"), percent(look.high))
    state = " so far" if look.verdict is None else f" ({look.verdict})"
    change = f"{percent(look.change)} {look.metric}{state}"
    pairs = f"{look.pairs} of at most {look.most} pairs"
    return f"{look.arm} vs {look.base} at {look.point}: {change}, interval {interval}, {pairs}"


def result(of: TrialEnded) -> str:
    """Return `71.3k tps  p99 2.10 ms`; preceded by the outcome if the trial did not finish."""
    said = figures(of.tps, of.p99_ms)
    if of.composite is not None:
        said = f"composite {numbers.round_text(of.composite)}"
    if of.queries_s is not None:
        said = f"all queries {numbers.ms(1e9 * of.queries_s)} ms"
    if of.instructions is not None:
        said = f"{of.instructions:,.0f} instructions a transaction"
    return said if of.outcome is Outcome.FINISHED else GAP.join([of.outcome.value, said]).strip()


def figures(tps: float | None, p99_ms: float | None) -> str:
    """Return `71.3k tps  p99 2.10 ms` without unknown figures."""
    said = [] if tps is None else [f"{numbers.short(tps)} tps"]
    if p99_ms is not None:
        said.append(f"p99 {numbers.round_text(p99_ms)} ms")
    return GAP.join(said)


def clock_time(seconds: float) -> str:
    minutes, secs = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{secs:02d}" if hours else f"{minutes}:{secs:02d}"
