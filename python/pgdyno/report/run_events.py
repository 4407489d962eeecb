"""The events of a running experiment, which it passes to a view, and the requests of those who watch it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pgdyno.messages import Message
from pgdyno.records import Outcome


@dataclass(frozen=True, slots=True)
class GridTrial:
    """A trial as a grid of the sweep shows it."""

    number: int
    slug: str
    arm: str
    """What this trial has in common with the others of its curve."""
    clients: int


@dataclass(frozen=True, slots=True)
class RunBegan:
    """The run has its folder."""

    folder: Path
    trials: Sequence[GridTrial]
    """All trials that are known; a search adds more later."""


@dataclass(frozen=True, slots=True)
class SetUp:
    """A step of preparing or checking something has begun."""

    text: str
    """In lower case, without a full stop: `fetching PostgreSQL 18.6`."""


@dataclass(frozen=True, slots=True)
class BytesDone:
    """The transfer of the current step has advanced."""

    done: int
    total: int | None
    """None if the sender did not report it."""


@dataclass(frozen=True, slots=True)
class RowsDone:
    """The load of the current step has advanced."""

    done: int
    total: int
    per_s: float
    left_s: float


@dataclass(frozen=True, slots=True)
class TrialStarted:
    """The load of a trial begins."""

    number: int
    total: int
    label: str
    seconds: float | None
    """How long the trial takes, its warm-up included; None if the plan does not say."""
    later: int
    """How many trials follow this one; of a duet, how many pairs."""
    is_over: bool = False
    """Whether it ran at the same time as the trial before, and is only shown now."""
    is_open: bool = False
    """Whether more trials may be added: `total` is then the number of those known so far."""


@dataclass(frozen=True, slots=True)
class IntervalEnded:
    """One second of a trial is over."""

    tps: float
    p99_ms: float | None
    phase: str = ""


@dataclass(frozen=True, slots=True)
class EngineReported:
    """The load engine has written an event (docs/reference/events.md)."""

    event: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TrialEnded:
    """A trial is over and stored."""

    outcome: Outcome
    tps: float | None
    p99_ms: float | None
    composite: float | None = None
    """The figure of a trial of tpch, which has no other."""
    instructions: float | None = None
    """Per transaction, if the trial counted them."""
    queries_s: float | None = None
    """Seconds of single queries together, by their medians."""


@dataclass(frozen=True, slots=True)
class Looked:
    """A run that stops when decided has looked at the difference between two arms at one point."""

    arm: str
    base: str
    point: str
    metric: str
    """The metric's words: throughput."""
    pairs: int
    most: int
    """Pairs after which the point gets no more trials."""
    change: float
    """Relative, as are the ends of its interval: 0.01 for 1 %."""
    low: float
    high: float
    margin: float
    """Relative: differences within it count as none."""
    verdict: str | None
    """faster, slower or same; None while the point is not decided."""


@dataclass(frozen=True, slots=True)
class BestSeen:
    """The best configuration so far of a search for settings, or its figures, has changed."""

    figure: float
    start: float | None
    """The figure of the starting configuration; None if it has none."""
    unit: str
    """`tps`, or `ms` for a latency."""
    noise: float | None
    """Standard deviation of one trial, relative: 0.02 for 2 %; None without repeated trials."""
    trials: int
    """Number of trials of this configuration."""
    settings: Mapping[str, str]
    """What it changes of the starting configuration; empty for that itself."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A remark that stays on the screen."""

    text: str
    message: Message | None = None
    """The same with its id; None if it is only for those who watch."""


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run is closed."""

    how: str
    """Continues a sentence that begins with "it": `was interrupted`."""
    outcome: Outcome


RunEvent = (
    RunBegan
    | SetUp
    | BytesDone
    | RowsDone
    | TrialStarted
    | IntervalEnded
    | EngineReported
    | TrialEnded
    | Looked
    | BestSeen
    | Noted
    | RunEnded
)


@dataclass(frozen=True, slots=True)
class MarkedMoment:
    """A moment that a user marked on the live page."""

    wall_us: int
    """Microseconds since 1970."""
    text: str


class Requests(Protocol):
    """What those who watch a run ask of it."""

    def stop_wanted(self) -> Message | None:
        """Return why no further trial should begin; None if nobody asked for that."""

    def marks(self) -> list[MarkedMoment]:
        """Return the moments that were marked since the last call."""


class NoRequests:
    """The requests of a run that nobody can control."""

    def stop_wanted(self) -> Message | None:
        return None

    def marks(self) -> list[MarkedMoment]:
        return []
