"""The capacity at a latency target: the highest rate of an open loop that meets it, by bracketing.

A pure function like the peak's. A rate meets the target when every one of its repeats does, and misses it
when none does; between the two lies what is not decided. Where the capacity lies with 95 % confidence, all trials say
together: `analyse.capacity_interval`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

Verdicts = Mapping[float, Sequence[bool]]
"""By rate, whether each of its trials met the target, in their order."""

_DIGITS = 4
"""Significant ones of a rate."""


class Step(StrEnum):
    """What the trials at one rate come to."""

    OPEN = "open"
    MET = "met"
    MIXED = "mixed"
    MISSED = "missed"


@dataclass(frozen=True, slots=True)
class RateSpan:
    """Where the capacity is looked for."""

    lowest: float
    highest: float
    """Transactions a second."""
    repeats: int
    precision: float
    """The ends of the interval are not told apart nearer than this share, unless trials of a rate disagree."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Where the search ended."""

    met: float | None
    """The highest rate that met the target in all repeats, as did all lower ones; None: the lowest did not."""
    missed: float | None
    """The lowest rate above that missed it in all repeats; None: the highest rate of the plan did not."""


def next_rate(span: RateSpan, verdicts: Verdicts) -> float | Capacity:
    """At which rate the next trial is to be made; or the capacity."""
    steps = {rate: step(trials, span.repeats) for rate, trials in sorted(verdicts.items())}
    for rate, each in steps.items():
        if each is Step.OPEN:
            return rate
    if span.lowest not in steps:
        return span.lowest
    met = _highest_met(steps)
    above = [rate for rate in steps if met is None or rate > met]
    if met is not None:
        if not above:
            return Capacity(met, None) if met >= span.highest else _doubled(met, span)
        middle = _middle(met, above[0], span)
        if middle is not None:
            return middle
    return _upper_end(span, {rate: steps[rate] for rate in above}, met)


def step(trials: Sequence[bool], repeats: int) -> Step:
    """What the trials at a rate come to, when all were made: those that disagree tell the most of the interval."""
    if len(trials) < repeats:
        return Step.OPEN
    if any(trials) and not all(trials):
        return Step.MIXED
    return Step.MET if all(trials) else Step.MISSED


def _highest_met(steps: Mapping[float, Step]) -> float | None:
    met = None
    for rate, each in steps.items():
        if each is not Step.MET:
            break
        met = rate
    return met


def _upper_end(span: RateSpan, above: Mapping[float, Step], met: float | None) -> float | Capacity:
    """The lowest rate that missed the target above those of which trials disagree."""
    undecided = max((rate for rate, each in above.items() if each is not Step.MISSED), default=None)
    if undecided is None:
        return Capacity(met, min(above))
    missed = min((rate for rate in above if rate > undecided), default=None)
    if missed is None:
        return Capacity(met, None) if undecided >= span.highest else _doubled(undecided, span)
    middle = _middle(undecided, missed, span)
    return Capacity(met, missed) if middle is None else middle


def _doubled(rate: float, span: RateSpan) -> float:
    return min(_rounded(rate * 2), span.highest)


def _middle(low: float, high: float, span: RateSpan) -> float | None:
    """A rate between the two; None when they are near enough."""
    middle = _rounded(math.sqrt(low * high))
    return middle if high > low * (1 + span.precision) and low < middle < high else None


def _rounded(rate: float) -> float:
    return float(f"{rate:.{_DIGITS}g}")
