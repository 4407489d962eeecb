"""Reports targets that were measured on one server each, and compared."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Subject
from pgdyno.messages import Message


def _check(subject: Subject) -> Iterator[RuleFinding]:
    targets = list(subject.by_target)
    if len(targets) < 2:
        return
    if subject.imported:
        raise MissingError(Message("no-instances", "the number of servers of each target is unknown"))
    instances = {
        target: len({sample.trial.instance for sample in samples}) for target, samples in subject.by_target.items()
    }
    single = [target for target, count in instances.items() if count == 1]
    if not single:
        return
    rented = bool(subject.run.manifest.rented) or any(
        sample.trial.way is not None and sample.trial.way.instance is not None for sample in subject.samples
    )
    yield RuleFinding(
        # hosts of one type differ by percents, clusters on one host by less
        Severity.CAUTION if rented else Severity.NOTE,
        Message(
            "one-instance",
            "{targets}: one server each; peculiarities of that server count as differences of the target",
            targets=", ".join(single),
        ),
        (),
        [Evidence(at="trials", figures={"target": target, "instances": float(instances[target])}) for target in single],
        "set instances = 3 or more of each target",
    )


RULE = Rule(
    "one-instance",
    "servers of each target in a run that compares targets: caution if they are rented, else a note",
    Severity.CAUTION,
    "docs/design/method.md, Instances",
    _check,
    place=275,
)
