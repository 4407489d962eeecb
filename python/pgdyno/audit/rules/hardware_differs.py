"""Targets of one comparison on other machines."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

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


_Seen = dict[str, dict[str, dict[str, list[int]]]]
"""Numbers of trials by class, by the processor that was seen, and by who saw it."""


def _of_one_class(subject: Subject) -> Iterator[Said]:
    """Rented hosts of one class whose processors differ: the name of a class is no promise."""
    servers: _Seen = {}
    generators: _Seen = {}
    for target, samples in subject.by_target.items():
        for sample in samples:
            way = sample.trial.way
            if way is not None and way.instance is not None and way.cpu_model is not None:
                _add(servers, way.instance, way.cpu_model, target, sample.number)
            for host in sample.hosts:
                if host.instance is not None:
                    _add(generators, host.instance, host.cpu_model, host.called, sample.number)
    yield from _unlike("servers", servers, "compare trials of the same processor, or rent until it is the same")
    yield from _unlike("generators", generators, "what each can do differs: rent until it is the same, or more of them")


def _add(seen: _Seen, instance: str, model: str, by: str, trial: int) -> None:
    seen.setdefault(instance, {}).setdefault(model, {}).setdefault(by, []).append(trial)


def _unlike(what: str, seen: _Seen, advice: str) -> Iterator[Said]:
    for instance, models in seen.items():
        if len(models) > 1:
            named = "; ".join(
                f"{model} in trials {', '.join(map(str, sorted({*chain(*by.values())})))} ({', '.join(by)})"
                for model, by in models.items()
            )
            yield Said(
                Severity.CAUTION,
                f"{what} of the class {instance} have not all the same processor: {named}",
                sorted({number for by in models.values() for number in chain(*by.values())}),
                [
                    Evidence(at=f"trial {min(chain(*by.values()))}", figures={"processor": model, what: ", ".join(by)})
                    for model, by in models.items()
                ],
                advice,
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
    "that rented servers and generators of one class see",
    Severity.CAUTION,
    "docs/design/method.md, Gates",
    _check,
)
