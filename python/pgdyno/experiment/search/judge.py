"""The verdict on a trial that a search uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.plan.scripts import parse_script
from pgdyno.plan.search_words import parse_target
from pgdyno.records import Latency, Outcome, TrialRecord

SERVED_SHARE = 0.99
"""Share of the due transactions that must succeed: otherwise the rate was not kept, whatever the latency."""


def throughput(record: TrialRecord) -> float | None:
    """Return transactions per second; None if the trial failed."""
    return record.summary.tps if record.outcome is Outcome.FINISHED and record.summary is not None else None


def meets(record: TrialRecord, latency: str | Mapping[str, str], scripts: Sequence[str]) -> bool:
    """Return whether a trial kept its rate and met the target `latency`, for all scripts together or by script.

    `scripts` are the plan's, in its order. A failed trial does not meet the target.
    """
    summary = record.summary
    if record.outcome is not Outcome.FINISHED or summary is None:
        return False
    # only imported trials have no counts
    due = (summary.scheduled or 0) - (summary.in_flight or 0) + summary.unstarted
    if (summary.succeeded or 0) < SERVED_SHARE * due:
        return False
    if isinstance(latency, str):
        return _is_under(summary.latency_ns, latency)
    numbers = {parse_script(text).name: number for number, text in enumerate(scripts)}
    of_script = {script.id: script.latency_ns for script in summary.scripts}
    return all(_is_under(of_script.get(numbers[name]), target) for name, target in latency.items())


def _is_under(measured: Latency | None, text: str) -> bool:
    target = parse_target(text)
    return measured is not None and bool(getattr(measured, target.field) < target.limit_ns)
