"""Warnings to accompany figures. A warning is a value, not an exception."""

from __future__ import annotations

from pgdyno.messages import Message

# lower case, one clause or two, without the name of the point it belongs to
ONE_TRIAL = Message("one-trial", "only one trial: no interval")
FEW_TRIALS = Message("few-trials", "only two trials: the interval extends 12.7 standard errors to each side")
NO_TRIALS = Message("no-trials", "no trial finished: no figures")
NO_LATENCY = Message("no-latency", "no transaction succeeded in a trial: it has no latency")
HISTOGRAM_MISSING = Message("histogram-missing", "no histogram was recorded: no percentiles")
KNEE_WITHOUT_INTERVALS = Message(
    "knee-without-intervals", "knee not determined: that needs more than one trial per point"
)
KNEE_NOT_DETERMINED = Message(
    "knee-not-determined",
    "knee not determined: trials scatter too much to show which points are within 5 % of the peak",
)
PEAK_AT_EDGE = "peak-at-edge"
"""Id of the warning that the peak was not reached."""


def peak_at_edge(clients: int) -> Message:
    """Warn that the peak is at `clients`, the most that were measured."""
    return Message(
        "peak-at-edge",
        "peak not reached: the highest throughput is at the most clients measured ({clients:,})",
        clients=clients,
    )


def failed_trials(count: int, planned: int) -> Message:
    """Warn that `count` of a point's `planned` trials failed."""
    if planned == 1:
        return Message("failed-trials", "the only trial failed and does not count", count=count, all=planned)
    return Message(
        "failed-trials",
        "{count} of {all} trials failed and does not count",
        "{count} of {all} trials failed and do not count",
        count=count,
        all=planned,
    )


def interrupted_trials(count: int, planned: int) -> Message:
    """Warn that `count` of a point's `planned` trials were interrupted."""
    if planned == 1:
        return Message(
            "interrupted-trials", "the only trial was interrupted and does not count", count=count, all=planned
        )
    return Message(
        "interrupted-trials",
        "{count} of {all} trials was interrupted and does not count",
        "{count} of {all} trials were interrupted and do not count",
        count=count,
        all=planned,
    )


def errors(failed: int, skipped: int, clients_aborted: int) -> Message:
    """Warn of failed and skipped transactions, and of clients that aborted."""
    gave_up = "client aborted" if clients_aborted == 1 else "clients aborted"
    parts = ((failed, "failed"), (skipped, "skipped"), (clients_aborted, gave_up))
    return Message(
        "errors",
        "errors: {counts}",
        counts=", ".join(f"{count:,} {word}" for count, word in parts if count),
        failed=failed,
        skipped=skipped,
        clients_aborted=clients_aborted,
    )
