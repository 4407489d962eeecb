"""Transactions that were due and never begun."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, Said, Severity
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message

SHARE = 0.01


def _check(subject: Subject) -> Iterator[Said]:
    paced = [sample for sample in subject.samples if sample.is_open]
    if not paced:
        if subject.imported:
            raise MissingError("no trial tells of a rate")
        return
    late = [(sample, share) for sample in paced if (share := _share(sample)) > SHARE]
    if late:
        yield Said(
            Severity.CAUTION,
            Message(
                "skipped",
                "up to {share:.1%} of what was due was not begun in {trials} trials: "
                "the rate was not kept, and latencies are of the rest",
                share=max(share for _, share in late),
                trials=len(late),
            ),
            [sample.number for sample, _ in late],
            [
                Evidence(
                    at=sample.at("skipped"),
                    figures={"skipped": sample.summary.skipped, "unstarted": sample.summary.unstarted},
                )
                for sample, _ in late
            ],
            "take these trials as over the capacity",
        )


def _share(sample: Sample) -> float:
    summary = sample.summary
    lost = summary.skipped + summary.unstarted
    due = (summary.scheduled or 0) + summary.unstarted
    return lost / due if due else 0.0


RULE = Rule(
    "skipped",
    "open loop: transactions that were due and not begun, over 1 %",
    Severity.CAUTION,
    "docs/design/method.md, Gates",
    _check,
)
