"""Reports targets of one comparison that ran on different machines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Subject
from pgdyno.messages import Message


def _check(subject: Subject) -> Iterator[RuleFinding]:
    groups = _reported_machines(subject) if subject.imported else [_Machines(_attempts(subject), ())]
    if not any(group.hosts for group in groups):
        raise MissingError(Message("no-hardware", "the machines of the targets are unknown"))
    found = [
        *_of_one_class(subject),
        *map(_machine_finding, (each for each in groups if len(set(each.hosts.values())) > 1)),
    ]
    unknown = [target for group in groups if len(group.hosts) + len(group.unknown) > 1 for target in group.unknown]
    if unknown and not found:
        raise MissingError(
            Message("no-hardware-of-all", "no machine is named for {targets}", targets=", ".join(unknown))
        )
    yield from found


def _machine_finding(group: _Machines) -> RuleFinding:
    names = ", ".join(dict.fromkeys(group.hosts.values()))
    return RuleFinding(
        Severity.CAUTION,
        Message("hardware-differs", "the figures are from different machines: {machines}", machines=names),
        group.trials,
        [Evidence(at=at, figures={"machine": host}) for at, host in group.hosts.items()],
        "compare only figures from the same machine, unless the machine is what is compared",
    )


_Seen = dict[str, dict[str, dict[str, list[int]]]]
"""Numbers of trials by class, by the processor that was seen, and by the observer."""


def _of_one_class(subject: Subject) -> Iterator[RuleFinding]:
    """Report rented hosts of one class with different processors, because a class does not guarantee a processor."""
    servers: _Seen = {}
    generators: _Seen = {}
    for target, samples in subject.by_target.items():
        for sample in samples:
            path = sample.trial.network_path
            if path is not None and path.instance is not None and path.cpu_model is not None:
                _add(servers, path.instance, path.cpu_model, target, sample.number)
            for host in sample.hosts:
                if host.instance is not None:
                    _add(generators, host.instance, host.cpu_model, host.called, sample.number)
    yield from _find_unlike(
        "servers", servers, "compare trials on the same processor, or rent again until it is the same"
    )
    yield from _find_unlike(
        "generators",
        generators,
        "they differ in capacity: rent again until the processor is the same, or rent more of them",
    )


def _add(seen: _Seen, instance: str, model: str, by: str, trial: int) -> None:
    seen.setdefault(instance, {}).setdefault(model, {}).setdefault(by, []).append(trial)


def _find_unlike(what: str, seen: _Seen, advice: str) -> Iterator[RuleFinding]:
    for instance, models in seen.items():
        if len(models) > 1:
            named = "; ".join(
                f"{model} in trials {', '.join(map(str, sorted({*chain(*by.values())})))} ({', '.join(by)})"
                for model, by in models.items()
            )
            yield RuleFinding(
                Severity.CAUTION,
                Message(
                    "hardware-differs-class",
                    "{what} of the class {instance} have different processors: {processors}",
                    what=what,
                    instance=instance,
                    processors=named,
                ),
                sorted({number for by in models.values() for number in chain(*by.values())}),
                [
                    Evidence(at=f"trial {min(chain(*by.values()))}", figures={"processor": model, what: ", ".join(by)})
                    for model, by in models.items()
                ],
                advice,
            )


@dataclass(frozen=True, slots=True)
class _Machines:
    hosts: dict[str, str]
    """Machine by the place that names it."""
    trials: Sequence[int]
    unknown: Sequence[str] = ()
    """Targets for which none is named."""


def _reported_machines(subject: Subject) -> list[_Machines]:
    found = []
    for targets in _compared_targets(subject):
        hosts, trials, unknown = {}, [], []
        for target in targets:
            samples = subject.by_target[target]
            words = samples[0].trial.imported.words if samples[0].trial.imported is not None else {}
            if "host" in words:
                hosts[f"{samples[0].figure_location()} ({target})"] = words["host"]
                trials += [sample.number for sample in samples]
            else:
                unknown.append(target)
        found.append(_Machines(hosts, trials, unknown))
    return found


def _compared_targets(subject: Subject) -> list[list[str]]:
    by_line: dict[str, list[str]] = defaultdict(list)
    for sample in subject.samples:
        by_line[sample.figure_location()].append(sample.target)
    tables: list[list[str]] = []
    for targets in by_line.values():
        if len(set(targets)) > 1:
            same = [table for table in tables if not set(table).isdisjoint(targets)]
            tables = [table for table in tables if table not in same]
            tables.append(list(dict.fromkeys(chain(*same, targets))))
    return [*tables, [target for target in subject.by_target if not any(target in table for table in tables)]]


def _attempts(subject: Subject) -> dict[str, str]:
    hosts = [subject.manifest.host, *(attempt.host for attempt in subject.manifest.attempts)]
    return {
        f"attempt {number}": f"{host.cpu_model}, {host.cores} cores, {host.memory_bytes / 1e9:.0f} GB"
        for number, host in enumerate(hosts)
        if host is not None
    }


RULE = Rule(
    "hardware-differs",
    "machines that a document names for targets on the same lines of a table, and for those on lines of their own; "
    "for pgdyno's own runs, the machine of each attempt, and the processors of rented servers and generators of one "
    "class",
    Severity.CAUTION,
    "docs/design/method.md, Gates",
    _check,
    place=130,
    topic="hardware",
)
