"""Reports targets that were measured one after the other."""

from collections.abc import Iterator
from itertools import combinations

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Subject
from pgdyno.messages import Message


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if subject.manifest.finds_cheapest:
        # each target is held against the promise, and none against another
        return
    started = {
        target: sorted(sample.trial.started_at for sample in samples if sample.trial.started_at is not None)
        for target, samples in subject.by_target.items()
    }
    if subject.imported and not all(started.values()):
        raise MissingError(Message("no-trial-order", "the order of the trials is unknown"))
    apart = [
        (a, b) for a, b in combinations(started, 2) if started[a][-1] < started[b][0] or started[b][-1] < started[a][0]
    ]
    # with one trial each, no other order is possible
    apart = [(a, b) for a, b in apart if len(started[a]) > 1 or len(started[b]) > 1]
    if apart:
        names = "; ".join(f"{a} and {b}" for a, b in apart[:3])
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "order-bias",
                "all trials of one target ran before all of the other ({targets}): drift counts as a difference",
                targets=names,
            ),
            (),
            [
                Evidence(at="trials", figures={"target": target, "first": f"{times[0]}", "last": f"{times[-1]}"})
                for target, times in started.items()
            ],
            'set trial.order = "interleaved"',
        )


RULE = Rule(
    "order-bias",
    "whether all trials of one target precede all of another",
    Severity.CAUTION,
    "docs/design/method.md, Order",
    _check,
    place=290,
)
