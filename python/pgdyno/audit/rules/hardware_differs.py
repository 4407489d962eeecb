"""Targets of one comparison on other machines."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, Said, Severity
from pgdyno.audit.subject import Subject


def _check(subject: Subject) -> Iterator[Said]:
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
    "machines that the document names for its tables; of our own runs, the machine of each attempt",
    Severity.CAUTION,
    "docs/design/method.md, Gates",
    _check,
)
