"""What a reader has to know before believing a figure. A warning is a value, not an exception."""

from __future__ import annotations

from pgdyno.messages import Message

# lowercase, one clause or two, without the name of the point it belongs to
ONE_TRIAL = Message("one-trial", "one trial only: no interval")
FEW_TRIALS = Message("few-trials", "two trials only: the interval reaches 12.7 standard errors to each side")
NO_TRIALS = Message("no-trials", "no trial finished: no figures")
NO_LATENCY = Message("no-latency", "a trial in which no transaction succeeded: it has no latency")
HISTOGRAM_MISSING = Message("histogram-missing", "no histogram was kept: no percentiles")
KNEE_WITHOUT_INTERVALS = Message(
    "knee-without-intervals", "the knee is not determined: that needs more than one trial of a point"
)
KNEE_NOT_DETERMINED = Message(
    "knee-not-determined",
    "the knee is not determined: trials scatter too much to show which points are within 5 % of the peak",
)
PEAK_AT_EDGE = "peak-at-edge"
"""Id of the warning that the peak was not reached."""


def peak_at_edge(clients: int) -> Message:
    """The peak is at `clients`, the most that were measured."""
    return Message(
        "peak-at-edge",
        "peak not reached: the highest throughput is at the most clients measured ({clients:,})",
        clients=clients,
    )


def failed_trials(count: int, planned: int) -> Message:
    """`count` of a point's `planned` trials failed."""
    if planned == 1:
        return Message("failed-trials", "the only trial failed and counts for nothing", count=count, all=planned)
    return Message(
        "failed-trials",
        "{count} of {all} trials failed and counts for nothing",
        "{count} of {all} trials failed and count for nothing",
        count=count,
        all=planned,
    )


def interrupted_trials(count: int, planned: int) -> Message:
    """`count` of a point's `planned` trials were interrupted."""
    if planned == 1:
        return Message(
            "interrupted-trials", "the only trial was interrupted and counts for nothing", count=count, all=planned
        )
    return Message(
        "interrupted-trials",
        "{count} of {all} trials was interrupted and counts for nothing",
        "{count} of {all} trials were interrupted and count for nothing",
        count=count,
        all=planned,
    )


def errors(failed: int, skipped: int, clients_aborted: int) -> Message:
    """Transactions that failed or were skipped, and clients that gave up."""
    gave_up = "client gave up" if clients_aborted == 1 else "clients gave up"
    parts = ((failed, "failed"), (skipped, "skipped"), (clients_aborted, gave_up))
    return Message(
        "errors",
        "errors: {counts}",
        counts=", ".join(f"{count:,} {word}" for count, word in parts if count),
        failed=failed,
        skipped=skipped,
        clients_aborted=clients_aborted,
    )
