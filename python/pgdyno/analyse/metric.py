"""The figure by which two arms are compared: one value per trial, and which direction is better."""

from __future__ import annotations

from enum import StrEnum

from pgdyno.analyse.source import RunSource
from pgdyno.records import Outcome, TrialRecord


class Metric(StrEnum):
    """A figure of a trial by which arms are compared."""

    TPS = "tps"
    """Succeeded transactions per second: more is better."""
    P99 = "p99"
    """99th percentile of latency: less is better."""
    MEAN = "mean"
    """Mean latency: less is better."""

    @property
    def sign(self) -> int:
        """Return +1 if more is better, -1 if less is."""
        return 1 if self is Metric.TPS else -1

    @property
    def words(self) -> str:
        """Return its name in a sentence."""
        return {Metric.TPS: "throughput", Metric.P99: "p99 latency", Metric.MEAN: "mean latency"}[self]


def usual_metric(run: RunSource) -> Metric:
    """Return the metric by which `run` is compared by default: throughput, or p99 latency in an open loop.

    In an open loop, the plan sets the throughput; two servers that keep up differ in latency alone.
    """
    phases = run.manifest.plan.get("phase") or ()
    is_open = all(trial.point.rate is not None for trial in run.trials)
    is_open |= bool(phases) and all(phase.get("rate") is not None for phase in phases)
    return Metric.P99 if run.trials and is_open else Metric.TPS


def value_of(trial: TrialRecord, metric: Metric) -> float | None:
    """Return `metric` of `trial`, in transactions per second or nanoseconds.

    None for a trial that did not finish, that lacks the figure, or whose figure is 0, which has no logarithm.
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
