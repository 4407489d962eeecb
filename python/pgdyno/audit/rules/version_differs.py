"""Reports server versions that differ between compared targets."""

from collections.abc import Iterable, Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Subject
from pgdyno.messages import Message
from pgdyno.records import Manifest, TrialRecord


def _check(subject: Subject) -> Iterator[RuleFinding]:
    versions = versions_of(subject.manifest, [sample.trial for sample in subject.samples])
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
        return
    unknown = [target for target in subject.by_target if target not in versions]
    if unknown:
        raise MissingError(
            Message("no-version-of-all", "no server version is reported for {targets}", targets=", ".join(unknown))
        )


def versions_of(manifest: Manifest, trials: Iterable[TrialRecord]) -> dict[str, str]:
    """Return the version of each target's server, as the server or the output of an imported trial reported it."""
    versions = {target.name: target.facts.version for target in manifest.targets if target.facts is not None}
    for trial in trials:
        if trial.imported is not None and "server_version" in trial.imported.words:
            versions[trial.target] = trial.imported.words["server_version"]
    return versions


RULE = Rule(
    "version-differs",
    "the server's version, by target",
    Severity.NOTE,
    "pgdyno.fingerprint.differences",
    _check,
    place=150,
    topic="version",
)
