"""Whether a target keeps the promise: its trials at the promised load, held against each limit with an interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdyno.analyse.mean_interval import Estimate, mean_interval
from pgdyno.experiment.search.capacity_search import SERVED_SHARE, limited_latencies
from pgdyno.experiment.search.cheapest_order import Verdict
from pgdyno.messages import Message
from pgdyno.plan.optional_sections import LatencyTarget
from pgdyno.records import Outcome, TrialRecord
from pgdyno.report import numbers


@dataclass(frozen=True, slots=True)
class LimitedLatency:
    """A latency over the trials of a target, with its limit; the interval is that of the mean of logarithms."""

    limited: LatencyTarget
    log_ns: Estimate

    @property
    def log_ratio(self) -> Estimate:
        """The logarithm of the latency's ratio to its limit: below 0, the promise is kept."""
        of = self.log_ns
        return Estimate(of.mean - math.log(self.limited.limit_ns), of.half, of.n)


@dataclass(frozen=True, slots=True)
class Measured:
    """What the trials of a target show."""

    verdict: Verdict
    trials: int
    served: Estimate | None = None
    """Shares of the due transactions that succeeded; None if a trial failed."""
    latency: LimitedLatency | None = None
    """The latency that is the closest to its limit, or exceeds it most; None if a trial has none."""
    failure: str = ""

    def why(self) -> Message:
        """Return the figure that decides, in words."""
        if self.served is None:
            return Message("target-unmeasured", "a trial failed: {failure}", failure=self.failure)
        if self.latency is None or _decides(self.served, self.latency.log_ratio):
            return Message(
                "target-served",
                "{low} to {high} % of the transactions due succeeded (95 % interval); at least 99 % must",
                low=numbers.rounded(max(100 * self.served.low, 0.0)),
                high=numbers.rounded(min(100 * self.served.high, 100.0)),
            )
        ratio, log_ns = self.latency.log_ratio, self.latency.log_ns
        figures = {
            "figure": self.latency.limited.name,
            "value": numbers.ms(math.exp(log_ns.mean)),
            "low": numbers.ms(math.exp(log_ns.low)),
            "high": numbers.ms(math.exp(log_ns.high)),
        }
        if ratio.high < 0:
            return Message(
                "target-below-limit",
                "{figure} {value} ms (95 % interval {low} to {high} ms), at least {margin} % below the limit",
                **figures,
                margin=numbers.rounded(-100 * math.expm1(ratio.high), 2),
            )
        if ratio.low > 0:
            return Message(
                "target-above-limit",
                "{figure} {value} ms (95 % interval {low} to {high} ms), at least {margin} % above the limit",
                **figures,
                margin=numbers.rounded(100 * math.expm1(ratio.low), 2),
            )
        return Message(
            "target-at-limit",
            "{figure} {value} ms (95 % interval {low} to {high} ms), which includes the limit",
            **figures,
        )


def measured(
    trials: Sequence[TrialRecord], latency: str | Mapping[str, str], scripts: Sequence[str], repeats: int
) -> Measured | None:
    """Return what the `trials` of a target show after all `repeats`; None if it needs more of them.

    The target keeps the promise if 95 % intervals show that the share of served transactions and each latency do: that
    of the share is Student's, that of a latency Student's of its logarithm. It fails if one of them shows that. A trial
    that failed says nothing about the server's speed.
    """
    broken = next((each for each in trials if each.outcome is not Outcome.FINISHED or each.summary is None), None)
    if broken is not None:
        failure = broken.failure.message if broken.failure is not None else broken.outcome.value
        return Measured(Verdict.UNMEASURED, len(trials), failure=failure)
    if len(trials) < repeats:
        return None
    summaries = [each.summary for each in trials if each.summary is not None]
    served = mean_interval([(each.succeeded or 0) / each.due if each.due else 1.0 for each in summaries])
    by_limit = zip(*(limited_latencies(each, latency, scripts) for each in summaries), strict=True)
    found = [LimitedLatency(each[0][0], _log_mean([ns for _, ns in each])) for each in by_limit]
    if served.high < SERVED_SHARE or any(each.log_ratio.low > 0 for each in found):
        verdict = Verdict.FAILED
    elif served.low >= SERVED_SHARE and all(each.log_ratio.high < 0 for each in found):
        verdict = Verdict.KEPT
    else:
        verdict = Verdict.UNDECIDED
    has_all = all(math.isfinite(each.log_ns.mean) for each in found)
    fails = verdict is Verdict.FAILED
    worst = max(found, key=lambda each: each.log_ratio.low if fails else each.log_ratio.high) if has_all else None
    return Measured(verdict, len(trials), served, worst)


def _decides(served: Estimate, log_ratio: Estimate) -> bool:
    """Return whether the share of served transactions decides, and not the latency's `log_ratio` to its limit."""
    return served.high < SERVED_SHARE or (served.low < SERVED_SHARE and log_ratio.high < 0)


def _log_mean(latencies_ns: Sequence[float]) -> Estimate:
    # without a succeeded transaction there is no latency, and nothing is known about the mean
    if math.inf in latencies_ns:
        return Estimate(math.inf, math.inf, len(latencies_ns))
    return mean_interval([math.log(max(each, 1.0)) for each in latencies_ns])
