"""Capacity at a latency target: the highest throughput at which the target was met, and its interval.

A trial at rate r meets the target with probability Phi(ln(C / r) / s): C, the capacity, is the rate at which half of
the trials meet it, and s is the scatter of trials. That is probit analysis (Finney 1971), and the search that chooses
the rates is adaptive, so C has the posterior of QUEST (Watson and Pelli 1983) with s integrated out, as Kontsevich and
Tyler 1999 do it ("Bayesian adaptive estimation of psychometric slope and threshold"). The rates tried and the end of
the search do not bias the result, because the likelihood depends on the trials alone.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pgdyno.analyse.intervals import CONFIDENCE, Array, Estimate
from pgdyno.analyse.summary import PointSummary
from pgdyno.records.promise import Promise

SERVED_SHARE = 0.99
"""Share of the due transactions that must succeed: otherwise the rate was not kept, whatever the latency."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The capacity of one curve."""

    limit: Promise
    point: PointSummary
    """The point with the highest throughput of those that met the target."""
    tps: Estimate
    latency_ns: float
    """The latency figure to which the target applies."""
    closed_loop: bool
    """Whether clients waited for answers before their next request: a stalled server then hides its queue."""


def capacity_at(points: Sequence[PointSummary], limit: Promise) -> Capacity | None:
    """Return the highest throughput of `points` whose latency is under `limit`; None if there is none, or none is
    known. A point that did not serve `SERVED_SHARE` of the due transactions does not count: the others have no latency.

    A point's percentile is that of its trials' merged histograms. The result is a measured point, without
    interpolation; a search (`find = "capacity"`) comes closer.
    """
    met = [
        Capacity(limit, point, point.tps, figure, point.point.rate is None)
        for point in points
        if point.tps is not None
        and (point.served is None or point.served >= SERVED_SHARE)
        and (figure := latency_of(point, limit)) is not None
        and limit.allows(figure)
    ]
    return max(met, key=lambda each: each.tps.mean, default=None)


def latency_of(point: PointSummary, limit: Promise) -> float | None:
    """Return the figure of `point` to which `limit` applies; None if unknown."""
    if point.latency is None:
        return None
    figure: float | None = getattr(point.latency, str(limit.field))
    return figure


_SCATTER = (0.005, 0.5)
"""Bounds of s, with a log-uniform prior: from half a percent to half."""
_BEYOND = math.log(2)
"""How far C may lie outside the rates of the plan."""
_COARSE, _FINE, _SCATTERS = 160, 400, 36
_NEGLIGIBLE = 1e-9


@dataclass(frozen=True, slots=True)
class CapacityInterval:
    """In transactions per second."""

    rate: float
    """Median of the posterior."""
    low: float | None
    """Lower end of the 95 % interval; None if it is below the lowest rate of the plan."""
    high: float | None
    """Upper end; None if it is above the highest rate of the plan."""


def capacity_interval(verdicts: Mapping[float, Sequence[bool]], lowest: float, highest: float) -> CapacityInterval:
    """Return C with its central 95 % interval from whether each trial met the target, by rate; at least one trial.

    The prior is log-uniform from half of `lowest` to twice `highest`.
    """
    rates = np.log(np.array(list(verdicts)))
    met = np.array([sum(trials) for trials in verdicts.values()])
    missed = np.array([len(trials) for trials in verdicts.values()]) - met
    coarse = np.linspace(math.log(lowest) - _BEYOND, math.log(highest) + _BEYOND, _COARSE)
    likely = np.flatnonzero(_posterior(coarse, rates, met, missed) > _NEGLIGIBLE)
    ends = coarse[[max(likely[0] - 1, 0), min(likely[-1] + 1, _COARSE - 1)]]
    fine = np.linspace(ends[0], ends[1], _FINE)
    below = np.cumsum(_posterior(fine, rates, met, missed))
    tail = (1 - CONFIDENCE) / 2
    low, rate, high = np.exp(np.interp([tail, 0.5, 1 - tail], below / below[-1], fine))
    return CapacityInterval(
        float(rate), float(low) if low >= lowest else None, float(high) if high <= highest else None
    )


def _posterior(capacities: Array, rates: Array, met: Array, missed: Array) -> Array:
    """Return the probability of each capacity relative to the largest; all arguments except counts are logarithms."""
    # importing scipy is slow
    from scipy import special

    scatter = np.geomspace(*_SCATTER, _SCATTERS)
    z = (capacities[:, None, None] - rates) / scatter[:, None]
    # most rates have verdicts of one kind, and the other kind's logarithm, which is the work here, would count 0 times
    some_met, some_missed = met > 0, missed > 0
    likelihood = special.log_ndtr(z[..., some_met]) @ met[some_met]
    likelihood += special.log_ndtr(-z[..., some_missed]) @ missed[some_missed]
    weights: Array = np.exp(likelihood - likelihood.max()).sum(axis=1)
    weights /= weights.max()
    return weights
