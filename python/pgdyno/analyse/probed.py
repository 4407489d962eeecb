"""What a probe saw beside a trial, on the trial's own clock: means over stretches of it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from pgdyno.analyse.source import RunSource
from pgdyno.store.bounded import whole_of
from pgdyno.store.tables import EventRow, SeriesRow, WaitRow

CLIENT = "client backend"
CHECKPOINTER = "checkpointer"

Span = tuple[float, float]
"""From, to: seconds since the trial began, its warm-up counted."""
Key = Callable[[WaitRow], str | None]
"""What a wait counts as; None leaves it out."""


class ProbedSource(RunSource, Protocol):
    """A run with its probe's tables: `store.read.RunData` is one."""

    def events(self, trial: int) -> Sequence[EventRow]:
        """What the engine said besides its intervals."""

    def series(self, trial: int) -> Sequence[SeriesRow]:
        """The probe's figures."""

    def waits(self, trial: int) -> Sequence[WaitRow]:
        """What sessions waited for."""


def by_class(row: WaitRow) -> str | None:
    """Clients' waits by class: CPU, IO, LWLock, Lock, IPC and so on; other processes are left out."""
    return row.wait_type if row.backend_type in (None, CLIENT) else None


def by_wait(row: WaitRow) -> str | None:
    """Clients' waits one by one: `IO DataFileRead`, `CPU`."""
    kind = by_class(row)
    return kind if kind is None or row.wait is None else f"{kind} {row.wait}"


@dataclass(frozen=True)
class Probed:
    """A trial's probe."""

    origin_us: int
    """Of the engine's clock, at which the first transaction was due."""
    waits_rows: Sequence[WaitRow]
    series_rows: Sequence[SeriesRow]
    """Both in order of time."""

    def sessions(self, span: Span, key: Key = by_class) -> dict[str, float]:
        """Mean active sessions by `key` over the looks within `span`; empty without a look."""
        looks, rows = self._summed(span)
        found: dict[str, float] = defaultdict(float)
        for row in rows:
            name = key(row)
            if name is not None and row.sessions:
                found[name] += row.sessions / looks
        return dict(found)

    def looks(self, span: Span) -> int:
        """How often sessions were looked at within `span`."""
        return self._summed(span)[0]

    def mean(self, source: str, metric: str, span: Span) -> float | None:
        """Mean of a gauge, an average or a mean over the samples that end within `span`; all labels added up."""
        rows = self.samples(source, metric, span)
        return sum(row.value for row in rows) / len({row.t_us for row in rows}) if rows else None

    def largest(self, source: str, metric: str, span: Span) -> float | None:
        """The largest single value within `span`, over all labels."""
        return max((row.value for row in self.samples(source, metric, span)), default=None)

    def amount(self, source: str, metric: str, span: Span) -> float | None:
        """What a counter gained in the samples that end within `span`; None where there is no sample of `source`.

        A metric whose zeros are left out gained 0.
        """
        if not self._within(source, span):
            return None
        return sum(row.value for row in self.samples(source, metric, span))

    def samples(self, source: str, metric: str, span: Span) -> list[SeriesRow]:
        """Figures of one metric whose samples end within `span`."""
        return [row for row in self._within(source, span) if row.metric == metric]

    def has(self, source: str) -> bool:
        """Whether there is any sample of `source`."""
        return source in self._by_source

    def _within(self, source: str, span: Span) -> Sequence[SeriesRow]:
        rows, times = self._by_source.get(source, ((), ()))
        # a sample is about the time before it: one at the very end belongs to the span, one at its begin does not
        begin, end = (bisect_right(times, self._us(each)) for each in span)
        return rows[begin:end]

    def _summed(self, span: Span) -> tuple[int, Sequence[WaitRow]]:
        """Looks within `span`, and sessions by wait over all of them."""
        begin, end = (bisect_left(self._looks, self._us(each)) for each in span)
        rows = self.waits_rows[begin:end]
        return len({row.t_us for row in rows}), rows

    def _us(self, second: float) -> int:
        return self.origin_us + round(second * 1e6)

    @cached_property
    def _looks(self) -> Sequence[int]:
        return [row.t_us for row in self.waits_rows]

    @cached_property
    def _by_source(self) -> Mapping[str, tuple[Sequence[SeriesRow], Sequence[int]]]:
        found: dict[str, list[SeriesRow]] = defaultdict(list)
        for row in self.series_rows:
            found[row.source].append(row)
        return {source: (rows, [row.t_us for row in rows]) for source, rows in found.items()}


@dataclass(frozen=True)
class SummedProbe(Probed):
    """A trial's probe whose looks at sessions are there as sums over some stretches only."""

    sums: Mapping[Span, tuple[int, Sequence[WaitRow]]]
    """Looks, and sessions by wait over all of them; a stretch that is not among these is one without a look."""

    def _summed(self, span: Span) -> tuple[int, Sequence[WaitRow]]:
        return self.sums.get(span, (0, ()))


def probed(events: Sequence[EventRow], waits: Sequence[WaitRow], series: Sequence[SeriesRow]) -> Probed | None:
    """The probe of a trial from its tables; None without one, and when the engine never got to its load."""
    origin = origin_us(events)
    if origin is None or not (waits or series):
        return None
    return Probed(origin, waits, series)


def trial_probed(run: ProbedSource, trial: int) -> Probed | None:
    """`probed` of trial number `trial`."""
    return probed(run.events(trial), run.waits(trial), run.series(trial))


def origin_us(events: Sequence[EventRow]) -> int | None:
    """Where intervals count from, on the clock of events: `origin_us` of `connected` (docs/reference/events.md)."""
    said = next((row for row in events if row.kind == "connected"), None)
    return None if said is None else whole_of(said.kind, said.detail, "origin_us")
