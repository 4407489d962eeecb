"""What two arms are compared by: one figure a trial, and which way is better."""

from __future__ import annotations

from enum import StrEnum

from pgdyno.analyse.source import RunSource
from pgdyno.records import Outcome, TrialRecord


class Metric(StrEnum):
    """A figure of a trial."""

    TPS = "tps"
    """Succeeded transactions a second: more is better."""
    P99 = "p99"
    """99th percentile of latency: less is better."""
    MEAN = "mean"
    """Mean latency: less is better."""

    @property
    def sign(self) -> int:
        """+1 where more is better, -1 where less is."""
        return 1 if self is Metric.TPS else -1

    @property
    def words(self) -> str:
        """As a sentence calls it."""
        return {Metric.TPS: "throughput", Metric.P99: "p99 latency", Metric.MEAN: "mean latency"}[self]


def usual_metric(run: RunSource) -> Metric:
    """What `run` is compared by unless a metric is named: throughput, and p99 latency in open loop.

    In open loop throughput is what the plan asks for; two servers that keep up differ in latency alone.
    """
    phases = run.manifest.plan.get("phase") or ()
    is_open = all(trial.point.rate is not None for trial in run.trials)
    is_open |= bool(phases) and all(phase.get("rate") is not None for phase in phases)
    return Metric.P99 if run.trials and is_open else Metric.TPS


def value_of(trial: TrialRecord, metric: Metric) -> float | None:
    """`metric` of `trial`, transactions a second or nanoseconds.

    None for a trial that is no result, that lacks the figure, or whose figure is 0, which has no logarithm.
    """
    summary = trial.summary
    if trial.outcome is not Outcome.FINISHED or summary is None:
        return None
    if metric is Metric.TPS:
        return summary.tps if summary.tps > 0 else None
    latency = summary.latency_ns
    if latency is None:
        return None
    figure = latency.p99 if metric is Metric.P99 else latency.mean
    return float(figure) if figure else None
