"""Load and server on the same machine."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, Said, Severity
from pgdyno.audit.subject import Subject

HERE = frozenset(["embedded", "local", "build"])
"""Kinds of targets that run where pgdyno runs."""


def _check(subject: Subject) -> Iterator[Said]:
    if subject.imported:
        raise MissingError("nobody tells where the load came from")
    here = [target.name for target in subject.manifest.targets if target.kind in HERE]
    host = subject.manifest.host
    if here:
        cores = host.cores if host is not None else 0
        yield Said(
            Severity.NOTE,
            f"load and server share the {cores} cores of one machine: {', '.join(here)}",
            (),
            [Evidence(at="manifest", figures={"cores": cores, "targets": ", ".join(here)})],
            "for figures that others can repeat, put the load on a host of its own",
        )


RULE = Rule(
    "generator-on-server",
    "targets that run on the machine of the generator",
    Severity.NOTE,
    "docs/design/method.md, Gates",
    _check,
)
