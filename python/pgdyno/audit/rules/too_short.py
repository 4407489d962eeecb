"""Reports trials that are too short for what they measure."""

import statistics
from collections.abc import Iterator, Sequence

from pgdyno.audit.finding import MissingError, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message

CUT = 0.9
"""Share of the usual length below which a trial was cut short."""
READS_S, WRITES_S = 10.0, 60.0
"""Caches and the scheduler settle in seconds; WAL, vacuum and checkpoints do not."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    known = [(sample, sample.length_s) for sample in subject.samples if sample.length_s is not None]
    if not known:
        raise MissingError(Message("no-trial-length", "the length of the trials is unknown"))
    yield from _cut_short(known)
    least_s = READS_S if subject.only_reads else WRITES_S
    # the last fraction of a second is normal
    short = [(sample, length_s) for sample, length_s in known if length_s < least_s - 0.5]
    if short:
        shortest = min(length_s for _, length_s in short)
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "too-short",
                "{trials} of {all} trials measure less than {least_s:.0f} s, down to {shortest_s:.1f} s",
                trials=len(short),
                all=len(known),
                least_s=least_s,
                shortest_s=shortest,
            ),
            *evidence_of({sample: {"length_s": round(length_s, 1)} for sample, length_s in short}),
            "run trials of minutes, as pgbench's manual advises",
        )


def _cut_short(known: Sequence[tuple[Sample, float]]) -> Iterator[RuleFinding]:
    by_length = [(sample, length_s) for sample, length_s in known if sample.trial.transactions is None]
    usual_s = statistics.median(length_s for _, length_s in by_length) if by_length else 0.0
    cut = [(sample, length_s) for sample, length_s in by_length if length_s < CUT * usual_s]
    # many of another length were meant to be
    if cut and len(cut) <= len(by_length) // 4:
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "too-short-one",
                "{trials} of {all} trials measure {shortest_s:.1f} s or a little more, the others {usual_s:.1f} s",
                trials=len(cut),
                all=len(by_length),
                shortest_s=min(length_s for _, length_s in cut),
                usual_s=usual_s,
            ),
            *evidence_of({sample: {"length_s": round(length_s, 1)} for sample, length_s in cut}),
            "find out what ended them early, and repeat them",
        )


RULE = Rule(
    "too-short",
    "the measured part: at least 10 s if the workload only reads, else 60 s; and no trial below 90 % of the others",
    Severity.CAUTION,
    "https://www.postgresql.org/docs/current/pgbench.html, Good Practices",
    _check,
    place=260,
    needs_rate=True,
)
