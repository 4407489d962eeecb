"""Reports targets that were measured on one server each, and compared."""

from collections import Counter
from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message

MOST_NAMED = 4
"""Targets that the message names."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    targets = list(subject.by_target)
    if len(targets) < 2:
        return
    if subject.imported and any(_server(sample) is None for sample in subject.samples):
        raise MissingError(Message("no-instances", "the number of servers of each target is unknown"))
    instances = {}
    for target, samples in subject.by_target.items():
        # a source may identify the server by its dataset
        servers = Counter(data for data, _ in {(subject.data_of(sample), _server(sample)) for sample in samples})
        instances[target] = max(servers.values())
    single = [target for target, count in instances.items() if count == 1]
    if not single:
        return
    rented = (
        subject.imported
        or bool(subject.run.manifest.rented)
        or any((path := each.trial.network_path) is not None and path.instance is not None for each in subject.samples)
    )
    yield RuleFinding(
        # hosts of one type differ by percents, clusters on one host by less
        Severity.CAUTION if rented else Severity.NOTE,
        Message(
            "one-instance",
            "{targets}: one server each; peculiarities of that server count as differences of the target",
            targets=", ".join([*single[:MOST_NAMED], *["…"] * (len(single) > MOST_NAMED)]),
        ),
        (),
        [Evidence(at="trials", figures={"target": target, "instances": float(instances[target])}) for target in single],
        "measure three servers or more of each target (instances = 3)",
    )


def _server(sample: Sample) -> int | str | None:
    imported = sample.trial.imported
    return sample.trial.instance if imported is None else imported.words.get("server")


RULE = Rule(
    "one-instance",
    "servers of each target in a run that compares targets: caution if they are rented or of a source that identifies "
    "them, else a note",
    Severity.CAUTION,
    "docs/design/method.md, Instances",
    _check,
    place=275,
)
