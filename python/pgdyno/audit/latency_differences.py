"""What makes the latencies of two arms incomparable: who measured them, and of how much of the load."""

from collections.abc import Iterator, Sequence

from pgdyno.analyse.pairs import Metric
from pgdyno.audit.finding import Finding
from pgdyno.audit.rules import skipped
from pgdyno.audit.subject import AuditRun, Sample, Subject
from pgdyno.fingerprint.differences import UNKNOWN, Difference, Weight
from pgdyno.messages import Message
from pgdyno.records import Outcome, TrialRecord

MOST_APART = 0.001
"""A tenth of the transactions above the 99th percentile."""
OWN_PROGRAM = "pgdrive"
UNNAMED = frozenset(["csv", "table"])
"""Sources that do not say which program measured the figures that they hold."""


def overload_findings(run: AuditRun, metric: Metric) -> list[Finding]:
    """Return the finding whose trials a comparison of `run` by `metric` leaves out, because too few of their due
    transactions were started; none by another metric than a latency.
    """
    return skipped.OVERLOADED.findings(Subject(run)) if metric.is_latency else []


def latency_differences(base: Sequence[TrialRecord], other: Sequence[TrialRecord]) -> Iterator[Difference]:
    """Compare the programs that measured the trials of two arms, and the shares of their load that never started."""
    programs = [_programs(trials) for trials in (base, other)]
    if programs[0] != programs[1]:
        a, b = (", ".join(sorted(each)) or None for each in programs)
        why = Message("other-program", "each program counts other parts of a transaction in its latency")
        weight = (Weight.CONFOUNDER, why) if all(programs) else (Weight.CAUTION, UNKNOWN)
        yield Difference("latency", a, b, *weight)
    shares = [skipped.unstarted_share(skipped.served_trials(_samples(trials))) for trials in (base, other)]
    if abs(shares[0] - shares[1]) > MOST_APART:
        a, b = (f"{100 * share:.2f} %" for share in shares)
        why = Message("other-unstarted", "transactions that were due and never started, which no latency includes")
        yield Difference("skipped", a, b, Weight.CONFOUNDER, why)


def _programs(trials: Sequence[TrialRecord]) -> set[str]:
    """Return the programs that measured `trials`; empty if one of them is unknown."""
    tools = {OWN_PROGRAM if each.imported is None else each.imported.tool.removesuffix("-log") for each in trials}
    return set() if tools & UNNAMED else tools


def _samples(trials: Sequence[TrialRecord]) -> list[Sample]:
    return [
        Sample(trial, trial.summary)
        for trial in trials
        if trial.outcome is Outcome.FINISHED and trial.summary is not None
    ]
