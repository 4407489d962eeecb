"""Reports a dataset that fits into memory."""

from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.rules.generator_on_server import HERE
from pgdyno.audit.subject import Subject
from pgdyno.messages import Message
from pgdyno.units import format_size


def _check(subject: Subject) -> Iterator[RuleFinding]:
    host = subject.manifest.host
    here = {target.name for target in subject.manifest.targets if target.kind in HERE}
    samples = [sample for sample in subject.samples if sample.target in here]
    # the host's memory is not that of a server elsewhere
    if host is None or (subject.samples and not samples):
        raise MissingError(
            Message("no-dataset-and-memory-size", "neither the size of the dataset nor that of memory is known")
        )
    sizes = {
        (sample.target, subject.data_of(sample)): (sample.number, sample.trial.prepare.dataset_bytes)
        for sample in samples
        if sample.trial.prepare is not None and sample.trial.prepare.dataset_bytes is not None
    }
    if not sizes:
        raise MissingError(
            Message(
                "dataset-not-measured",
                "the size of the dataset was not recorded: [reset] with restart or prewarm records it",
            )
        )
    fingerprint = subject.manifest.fingerprint
    limit_bytes = fingerprint.host.memory_limit_bytes if fingerprint is not None else None
    memory_bytes = min(host.memory_bytes, limit_bytes or host.memory_bytes)
    inside = {place: found for place, found in sizes.items() if (found[1] or 0) < memory_bytes / 2}
    if inside:
        size = max(size or 0 for _, size in inside.values())
        yield RuleFinding(
            Severity.NOTE,
            Message(
                "cache-resident",
                "the dataset ({dataset}) fits into memory ({memory}): reads need not wait for a disk",
                dataset=format_size(size),
                memory=format_size(memory_bytes),
            ),
            [],
            [
                Evidence(at=f"trial {number}", figures={"target": target, "dataset_bytes": size or 0})
                for (target, _), (number, size) in inside.items()
            ],
            "to measure storage, use a scale several times as large as memory",
        )


RULE = Rule(
    "cache-resident",
    "the size of the dataset against half of the machine's memory",
    Severity.NOTE,
    "https://www.postgresql.org/docs/current/pgbench.html, Good Practices",
    _check,
    place=170,
)
