"""Reports transactions that were due and never started."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message

SHARE = 0.01


def _check(subject: Subject) -> Iterator[RuleFinding]:
    paced = [sample for sample in subject.samples if sample.is_open]
    if not paced:
        if subject.imported:
            raise MissingError(Message("no-rate", "no trial reports a rate"))
        return
    late = [(sample, share) for sample in paced if (share := _share(sample)) > SHARE]
    if late:
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "skipped",
                "{share:.1%} of the transactions that were due were not started in {trials} trial: the rate was not "
                "reached, and latencies cover only the rest",
                "up to {share:.1%} of the transactions that were due were not started in {trials} trials: the rate "
                "was not reached, and latencies cover only the rest",
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
            "treat these trials as above capacity",
        )


def _share(sample: Sample) -> float:
    summary = sample.summary
    lost = summary.skipped + summary.unstarted
    due = (summary.scheduled or 0) + summary.unstarted
    return lost / due if due else 0.0


RULE = Rule(
    "skipped",
    "open loop: over 1 % of the transactions that were due were not started",
    Severity.CAUTION,
    "docs/design/method.md, Gates",
    _check,
    place=340,
)
