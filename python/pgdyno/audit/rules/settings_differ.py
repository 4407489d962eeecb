"""Reports settings that differ between compared targets."""

import re
from collections.abc import Iterator, Mapping

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.setting_values import alike_settings, values_at, with_session_settings
from pgdyno.audit.subject import Subject
from pgdyno.fingerprint.differences import HEAVY_SETTINGS
from pgdyno.messages import Message
from pgdyno.units import Value

ITS_OWN = frozenset(
    [
        "port", "listen_addresses", "unix_socket_directories", "cluster_name", "data_directory", "config_file",
        "hba_file", "ident_file", "external_pid_file",
    ]
)  # fmt: skip
"""Settings whose values differ on every server, without any effect on speed."""
EVERYWHERE = "fsync"
"""A setting of every version: if it was recorded, all were."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if subject.imported:
        yield from _find_reported(subject)
        return
    changed = {
        target.name: with_session_settings(subject.run.trials, target.name, target.facts.settings_changed)
        for target in subject.manifest.targets
        if target.facts is not None
    }
    if not changed:
        raise MissingError(Message("no-target", "no target has started"))
    names = sorted({name for settings in changed.values() for name in settings} - ITS_OWN)
    differing = [name for name in names if len({settings.get(name) for settings in changed.values()}) > 1]
    alike = alike_settings(subject.run, changed, differing)
    kept = values_at(subject.run, {*differing, EVERYWHERE})
    for name in differing:
        values = {
            target: settings.get(name, _unchanged_words(name, kept.get(target, {})))
            for target, settings in changed.items()
        }
        if name not in alike:
            heavy = name in HEAVY_SETTINGS
            yield RuleFinding(
                Severity.CAUTION if heavy else Severity.NOTE,
                Message(
                    "settings-differ",
                    "{setting} differs: {values}",
                    setting=name,
                    values=", ".join(f"{value} at {target}" for target, value in values.items()),
                ),
                (),
                [Evidence(at="manifest", figures={"setting": name, **values})],
                "set it to the same value, unless it is what is compared",
            )


def _unchanged_words(name: str, kept: Mapping[str, Value]) -> str:
    return "absent" if EVERYWHERE in kept and name not in kept else "default"


def _find_reported(subject: Subject) -> Iterator[RuleFinding]:
    # a run of pgdyno's own needs no parsers of documents
    from pgdyno.importers.documents.prose import SETTINGS

    reported = {name: subject.facts(name) for name in SETTINGS if subject.facts(name)}
    if not reported:
        raise MissingError(Message("no-settings", "no settings are reported"))
    for name, lines in reported.items():
        differing = [(line, values) for line in lines if len(set(values := _cells(line.text))) > 1]
        if differing:
            yield RuleFinding(
                Severity.CAUTION if name in HEAVY_SETTINGS else Severity.NOTE,
                Message(
                    "settings-differ-columns",
                    "{setting} differs between columns: {values}",
                    "{setting} differs between columns: {values}; {count} tables have such rows",
                    setting=name,
                    values=", ".join(differing[0][1]),
                    count=len(differing),
                    more=len(differing) - 1,
                ),
                (),
                [Evidence(at=f"{line.file}:{line.line}", figures={"text": line.text}) for line, _ in differing],
                "compare only targets with the same settings, unless the setting is what is compared",
            )


def _cells(text: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"\t|\|", text) if cell.strip()][1:]


RULE = Rule(
    "settings-differ",
    "settings that are not the default, between targets; rows of a document's table of settings. Caution for those "
    "that determine what a commit waits for or what is cached, a note for others",
    Severity.CAUTION,
    "pgdyno.fingerprint.differences",
    _check,
    place=140,
    topic="setting",
)
