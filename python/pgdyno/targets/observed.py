"""What a provider reports on a server under load: figures in time, and stretches without any."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Figure:
    """One sample; it is about the span before its time."""

    t_us: int
    """Its end, since 1970, by the service's clock."""
    span_us: int
    metric: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time: microseconds since 1970."""

    from_us: int
    to_us: int

    def widened(self, period_s: int) -> Span:
        """To whole periods, as the services count them."""
        period_us = period_s * SECOND_US
        return Span(self.from_us // period_us * period_us, -(-self.to_us // period_us) * period_us)


@dataclass(slots=True)
class Observed:
    """What one source told of one stretch."""

    period_s: int
    figures: list[Figure] = field(default_factory=list)
    gaps: list[Span] = field(default_factory=list)
    complete: bool = False
    """Whether its end has come: what is late is no gap yet."""


def missing(span: Span, period_s: int, ends_us: Iterable[int]) -> list[Span]:
    """Stretches of `span`, which is whole periods, in which no sample ends on its period's grid; neighbours as one."""
    there = set(ends_us)
    period_us = period_s * SECOND_US
    found: list[Span] = []
    for end in range(span.from_us + period_us, span.to_us + 1, period_us):
        if end in there:
            continue
        if found and found[-1].to_us == end - period_us:
            found[-1] = Span(found[-1].from_us, end)
        else:
            found.append(Span(end - period_us, end))
    return found


def is_complete(span: Span, gaps: Sequence[Span]) -> bool:
    """Whether the last period of `span` is there: samples come in their order."""
    return not gaps or gaps[-1].to_us < span.to_us
