"""Reports trials that are too short for what they measure."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Subject
from pgdyno.messages import Message

READS_S, WRITES_S = 10.0, 60.0
"""Caches and the scheduler settle in seconds; WAL, vacuum and checkpoints do not."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    known = [(sample, sample.length_s) for sample in subject.samples if sample.length_s is not None]
    if not known:
        raise MissingError(Message("no-trial-length", "the length of the trials is unknown"))
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
            [sample.number for sample, _ in short],
            [Evidence(at=sample.at(), figures={"length_s": round(length_s, 1)}) for sample, length_s in short],
            "run trials of minutes, as pgbench's manual advises",
        )


RULE = Rule(
    "too-short",
    "the measured part: at least 10 s if the workload only reads, else 60 s",
    Severity.CAUTION,
    "https://www.postgresql.org/docs/current/pgbench.html, Good Practices",
    _check,
    place=260,
    needs_rate=True,
)
