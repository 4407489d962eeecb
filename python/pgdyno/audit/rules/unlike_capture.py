"""Reports loads that differ from the capture that they repeat or model."""

from collections import Counter
from collections.abc import Iterator

from pgdyno.analyse.likeness import disagreement_causes
from pgdyno.audit.finding import Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message

MOST_DIFFERENCE = 0.01
"""Maximum difference of a share: one percentage point."""
LATE_MS = 10.0
BUSY = 0.5
"""Share of the late statements that waited for the answer before them: from there on, the server made them late."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    compared = [sample for sample in subject.samples if sample.trial.likeness is not None]
    yield from _shares([sample for sample in compared if _difference(sample) > MOST_DIFFERENCE])
    yield from _late_statements([sample for sample in subject.samples if _is_late(sample)])
    yield from _untrue([sample for sample in compared if _agreement(sample) < _least_agreement(sample)])
    yield from _disagreements([sample for sample in subject.samples if _disagreement_count(sample)])


def _shares(samples: list[Sample]) -> Iterator[RuleFinding]:
    if samples:
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "unlike-capture-shares",
                "the share of a class of statements differs from the capture by {points:.1f} points in {trials} trial",
                "the share of a class of statements differs from the capture by up to {points:.1f} points in {trials} "
                "trials",
                points=100 * max(map(_difference, samples)),
                trials=len(samples),
            ),
            *evidence_of({sample: {"largest_share_difference": round(_difference(sample), 4)} for sample in samples}),
            "look at the table of statements: a script or a part of the capture is missing",
        )


def _late_statements(samples: list[Sample]) -> Iterator[RuleFinding]:
    if samples:
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "unlike-capture-late",
                "more than 1 % of the statements began more than 10 ms late in {trials} trial although the server "
                "had answered: the generator did not keep to the captured times",
                "more than 1 % of the statements began more than 10 ms late in {trials} trials although the server "
                "had answered: the generator did not keep to the captured times",
                trials=len(samples),
            ),
            *evidence_of({sample: {"late_p99_ms": round(_late_p99_ms(sample), 3)} for sample in samples}),
            "give the generator more cores, or another host, or replay at a lower pace",
        )


def _untrue(samples: list[Sample]) -> Iterator[RuleFinding]:
    if samples:
        worst = min(samples, key=_agreement)
        yield RuleFinding(
            Severity.INVALID,
            Message(
                "unlike-capture-untrue",
                "only {share:.1%} of the statements had the captured result in {trials} trial, and workload.true_to is "
                "{least:.0%}: it did other work than the capture",
                "only {share:.1%} of the statements had the captured result in {trials} trials, and workload.true_to "
                "is {least:.0%}: they did other work than the capture",
                share=_agreement(worst),
                least=_least_agreement(worst),
                trials=len(samples),
            ),
            *evidence_of({sample: {"agreement": round(_agreement(sample), 4), **_kinds(sample)} for sample in samples}),
            "look at the statements that disagree most, and restore the database before each trial",
        )


_ADVICE = {
    "replay-lacks-rows": "load the rows of the captured COPY before each trial, or capture a time without COPY: "
    "restoring the database again does not bring them",
    "replay-other-keys": "restore the database before each trial; if it was restored, the order of its sessions "
    "decides, which a replay does not repeat: compare the statements that agree",
    "replay-other-state": "restore the database as it was when the capture began, before each trial",
}
"""By the cause's id."""


def _disagreements(samples: list[Sample]) -> Iterator[RuleFinding]:
    by_cause: dict[str, list[tuple[Sample, Message]]] = {}
    for sample in samples:
        for cause in disagreement_causes(sample.trial.likeness, sample.summary):
            by_cause.setdefault(cause.id, []).append((sample, cause))
    for cause_id, some in by_cause.items():
        worst, cause = max(some, key=lambda each: _disagreement_count(each[0]))
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "unlike-capture-results",
                "{statements} statements of a replay returned other results than in the capture, in {trials} trial: "
                "{cause}",
                "up to {statements} statements of a replay returned other results than in the capture, in {trials} "
                "trials: {cause}",
                statements=_disagreement_count(worst),
                trials=len(some),
                cause=cause,
            ),
            *evidence_of({sample: {**_kinds(sample), **_states(sample)} for sample, _ in some}),
            _ADVICE[cause_id],
        )


def _states(sample: Sample) -> dict[str, float]:
    counts: Counter[str] = Counter()
    for error in sample.summary.errors:
        counts[f"errors_{error.sqlstate or 'unknown'}"] += error.count
    return dict(counts)


def _difference(sample: Sample) -> float:
    return sample.trial.likeness.largest_difference if sample.trial.likeness is not None else 0.0


def _late_p99_ms(sample: Sample) -> float:
    replay = sample.summary.replay
    p99 = replay.lateness_ns.p99 if replay is not None and replay.lateness_ns is not None else None
    return (p99 or 0) / 1e6


def _is_late(sample: Sample) -> bool:
    """Return whether over 1 % of the starts were late, and most of them not because the server was busy."""
    replay = sample.summary.replay
    if replay is None or _late_p99_ms(sample) <= LATE_MS:
        return False
    late = (1 - (replay.within_1ms or 0.0)) * replay.done
    return replay.delayed_by_answer < BUSY * late


def _agreement(sample: Sample) -> float:
    agreement = sample.summary.replay.agreement if sample.summary.replay is not None else None
    return 1.0 if agreement is None else agreement


def _least_agreement(sample: Sample) -> float:
    return (sample.trial.likeness.true_to or 0.0) if sample.trial.likeness is not None else 0.0


def _disagreement_count(sample: Sample) -> int:
    return sample.summary.replay.disagreed if sample.summary.replay is not None else 0


def _kinds(sample: Sample) -> dict[str, float]:
    replay = sample.summary.replay
    return {kind: count for kind, count in replay.disagreements.items() if count} if replay is not None else {}


RULE = Rule(
    "unlike-capture",
    "a replay, or a load that models a capture: a class of statements whose share differs by over one point; a replay "
    "of which over 1 % of the statements began over 10 ms late, unless most late ones waited for an answer of the "
    "server; statements with another result than captured, which makes trials invalid in which fewer than "
    "`workload.true_to` agree",
    Severity.INVALID,
    "docs/design/own-load.md",
    _check,
    place=45,
)
