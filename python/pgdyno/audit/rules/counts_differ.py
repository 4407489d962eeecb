"""Reports counts of instructions that differ between equal trials."""

from collections.abc import Iterator

from pgdyno.audit.arms import arms_of, point_of
from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message

SPREAD = 0.002
"""Largest over smallest count of an arm, less 1. Of equal trials on a busy machine it is 0.0002."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if not subject.manifest.counts_instructions:
        raise MissingError(Message("no-instructions", "the trials count no instructions"))
    names = arms_of(subject.run.trials)
    groups: dict[tuple[str, str], list[Sample]] = {}
    for sample in subject.samples:
        if sample.rate > 0:
            groups.setdefault((names[sample.number], point_of(sample.trial)), []).append(sample)
    for (arm, _), samples in groups.items():
        counts = [sample.rate for sample in samples]
        spread = max(counts) / min(counts) - 1
        if spread > SPREAD:
            figures: dict[str, float | str] = {f"trial {sample.number}": sample.rate for sample in samples}
            yield RuleFinding(
                Severity.CAUTION,
                Message(
                    "counts-differ",
                    "equal trials of {arm} differ by {spread:.2%} in instructions, so not only the code differs",
                    arm=arm,
                    spread=spread,
                ),
                [sample.number for sample in samples],
                [Evidence(at="trials", figures=figures)],
                "compare more transactions (--transactions); let a script choose the same rows, in the same state, in "
                "each trial",
            )


RULE = Rule(
    "counts-differ",
    "instructions of a transaction, in the trials of an arm",
    Severity.CAUTION,
    "the same instructions in the same state of the same data have the same count: ../design/counting.md",
    _check,
)
