"""Reports transactions that were due and never started."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from pgdyno.audit.finding import MissingError, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message

SHARE = 0.01


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if subject.imported and not any(sample.is_open for sample in subject.samples):
        raise MissingError(Message("no-rate", "no trial reports a rate"))
    # phases have rates of their own, and nothing is due in a closed loop
    late = [sample for sample in subject.samples if unstarted_share([sample]) > SHARE]
    if late:
        yield _finding(Severity.CAUTION, late, late, "treat these trials as above capacity")


def _find_overloaded(subject: Subject) -> Iterator[RuleFinding]:
    """Find the points of a target at which trials together started too few of the due transactions.

    Those that never started would have had the longest latencies: the less of a load is served, the better its
    percentiles look. All trials of such a point are named, because the rest of them would be the best ones.
    """
    kept = {sample.number for sample in served_trials(subject.samples)}
    named = [sample for sample in subject.samples if sample.number not in kept]
    if named:
        late = [sample for sample in named if unstarted_share([sample]) > 0]
        yield _finding(Severity.INVALID, late, named, "compare at a rate that both serve, or by --metric tps")


def _finding(severity: Severity, late: Sequence[Sample], named: Sequence[Sample], advice: str) -> RuleFinding:
    return RuleFinding(
        severity,
        Message(
            "skipped",
            "{share:.1%} of the transactions that were due were not started in {trials} trial: the rate was not "
            "reached, and latencies cover only the rest",
            "up to {share:.1%} of the transactions that were due were not started in {trials} trials: the rate "
            "was not reached, and latencies cover only the rest",
            share=max(unstarted_share([sample]) for sample in late),
            trials=len(late),
        ),
        sorted(sample.number for sample in named),
        evidence_of(
            {each: {"skipped": each.summary.skipped, "unstarted": each.summary.unstarted} for each in late}, "skipped"
        )[1],
        advice,
    )


def served_trials(samples: Sequence[Sample]) -> list[Sample]:
    """Return the trials at the points of each target at which nearly all of the due transactions were started."""
    points: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        points[sample.target, sample.trial.point.model_dump_json()].append(sample)
    return [sample for each in points.values() if unstarted_share(each) <= SHARE for sample in each]


def unstarted_share(samples: Sequence[Sample]) -> float:
    """Return the share of the due transactions that were not started in `samples` together."""
    each = [sample.summary for sample in samples]
    due = sum((summary.scheduled or 0) + summary.unstarted for summary in each)
    return sum(summary.skipped + summary.unstarted for summary in each) / due if due else 0.0


RULE = Rule(
    "skipped",
    "open loop: over 1 % of the transactions that were due were not started",
    Severity.CAUTION,
    "docs/design/method.md, Gates",
    _check,
    place=340,
)
OVERLOADED = Rule(
    RULE.id, "the same by point, before a comparison by latency", Severity.INVALID, RULE.source, _find_overloaded
)
"""No rule of the audit: a rate that is too high is a result, and only a comparison of latencies is invalid."""
