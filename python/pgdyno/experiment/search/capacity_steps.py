"""The capacity at a latency target: the highest rate of an open loop that meets it, by bracketing.

A pure function like the peak's. A rate meets the target if all of its repeats do, and misses it if none does; rates
in between are undecided. `analyse.capacity_interval` computes the 95 % confidence interval from all trials.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

Verdicts = Mapping[float, Sequence[bool]]
"""Whether each trial met the target, in their order, by rate."""

_DIGITS = 4
"""Significant digits of a rate."""


class Step(StrEnum):
    """The verdict of all trials at one rate together."""

    OPEN = "open"
    MET = "met"
    MIXED = "mixed"
    MISSED = "missed"


@dataclass(frozen=True, slots=True)
class RateSpan:
    """The rates between which the search looks for the capacity, in transactions per second."""

    lowest: float
    highest: float
    repeats: int
    precision: float
    """The width of the final interval, as a share of its lower end; it is wider if trials of a rate disagree."""


@dataclass(frozen=True, slots=True)
class Capacity:
    met: float | None
    """The highest rate at which all repeats, also of all lower rates, met the target; None if the lowest did not."""
    missed: float | None
    """The lowest rate above at which all repeats missed it; None if the plan's highest rate did not."""


def next_rate(span: RateSpan, verdicts: Verdicts) -> float | Capacity:
    """Return the rate of the next trial, or the capacity."""
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
    """Return the verdict at a rate after all `repeats`: a search needs them most where they disagree."""
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
    """Search the lowest rate that missed the target, above the rates at which trials disagree."""
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
    """Return the geometric mean of two rates; None if they are close enough."""
    middle = _rounded(math.sqrt(low * high))
    return middle if high > low * (1 + span.precision) and low < middle < high else None


def _rounded(rate: float) -> float:
    return float(f"{rate:.{_DIGITS}g}")
