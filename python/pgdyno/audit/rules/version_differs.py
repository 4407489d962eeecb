"""Reports server versions that differ between compared targets."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Subject
from pgdyno.messages import Message


def _check(subject: Subject) -> Iterator[RuleFinding]:
    versions = {target.name: target.facts.version for target in subject.manifest.targets if target.facts is not None}
    for sample in subject.samples:
        if sample.trial.imported is not None and "server_version" in sample.trial.imported.words:
            versions[sample.target] = sample.trial.imported.words["server_version"]
    if not versions:
        raise MissingError(Message("no-version", "no server version is reported"))
    if len(set(versions.values())) > 1:
        listed = ", ".join(f"{version} at {target}" for target, version in versions.items())
        yield RuleFinding(
            Severity.NOTE,
            Message("version-differs", "targets have different versions: {versions}", versions=listed),
            (),
            [Evidence(at="manifest", figures=dict(versions))],
            "none needed if the version is what is compared",
        )


RULE = Rule(
    "version-differs",
    "the server's version, by target",
    Severity.NOTE,
    "pgdyno.fingerprint.differences",
    _check,
    place=150,
)
