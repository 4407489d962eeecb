"""Targets of one comparison on other machines."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, Said, Severity
from pgdyno.audit.subject import Subject


def _check(subject: Subject) -> Iterator[Said]:
    yield from _of_one_class(subject)
    hosts = _told(subject) if subject.imported else _attempts(subject)
    if not hosts:
        raise MissingError("nobody tells what the targets ran on")
    if len(set(hosts.values())) > 1:
        names = ", ".join(dict.fromkeys(hosts.values()))
        yield Said(
            Severity.CAUTION,
            f"not all figures are of the same machine: {names}",
            (),
            [Evidence(at=at, figures={"machine": host}) for at, host in hosts.items()],
            "compare only what ran on the same, unless the machine is what is compared",
        )


def _of_one_class(subject: Subject) -> Iterator[Said]:
    """Rented servers of one class whose processors differ: the name of a class is no promise."""
    found: dict[str, dict[str, list[int]]] = {}
    for samples in subject.by_target.values():
        for sample in samples:
            way = sample.trial.way
            if way is not None and way.instance is not None and way.cpu_model is not None:
                found.setdefault(way.instance, {}).setdefault(way.cpu_model, []).append(sample.number)
    for instance, models in found.items():
        if len(models) > 1:
            named = ", ".join(f"{model} in trials {', '.join(map(str, numbers))}" for model, numbers in models.items())
            yield Said(
                Severity.CAUTION,
                f"servers of the class {instance} have not all the same processor: {named}",
                [number for numbers in models.values() for number in numbers],
                [Evidence(at=f"trial {numbers[0]}", figures={"processor": model}) for model, numbers in models.items()],
                "compare trials of the same processor, or rent until it is the same",
            )


def _told(subject: Subject) -> dict[str, str]:
    found = {}
    for target, samples in subject.by_target.items():
        words = samples[0].trial.imported.words if samples[0].trial.imported is not None else {}
        if "host" in words:
            found[f"{samples[0].at()} ({target})"] = words["host"]
    return found


def _attempts(subject: Subject) -> dict[str, str]:
    hosts = [subject.manifest.host, *(attempt.host for attempt in subject.manifest.attempts)]
    return {
        f"attempt {number}": f"{host.cpu_model}, {host.cores} cores, {host.memory_bytes >> 30} GiB"
        for number, host in enumerate(hosts)
        if host is not None
    }


RULE = Rule(
    "hardware-differs",
    "machines that the document names for its tables; of our own runs, the machine of each attempt, and the processors "
    "that rented servers of one class see",
    Severity.CAUTION,
    "docs/design/method.md, Gates",
    _check,
)
