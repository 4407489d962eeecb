"""Settings of targets that are compared."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, Said, Severity
from pgdyno.audit.subject import Subject
from pgdyno.fingerprint.compare import HEAVY_SETTINGS
from pgdyno.importers.facts import SETTINGS

ITS_OWN = frozenset(
    ["port", "listen_addresses", "unix_socket_directories", "cluster_name", "data_directory", "config_file"]
)
"""Every server has others, and none is slower for it."""


def _check(subject: Subject) -> Iterator[Said]:
    if subject.imported:
        yield from _told(subject)
        return
    changed = {
        target.name: target.facts.settings_changed for target in subject.manifest.targets if target.facts is not None
    }
    if not changed:
        raise MissingError("no target has started")
    names = sorted({name for settings in changed.values() for name in settings} - ITS_OWN)
    for name in names:
        values = {target: settings.get(name, "default") for target, settings in changed.items()}
        if len(set(values.values())) > 1:
            heavy = name in HEAVY_SETTINGS
            yield Said(
                Severity.CAUTION if heavy else Severity.NOTE,
                f"{name} differs: {', '.join(f'{value} at {target}' for target, value in values.items())}",
                (),
                [Evidence(at="manifest", figures={"setting": name, **values})],
                "set it alike, unless it is what is compared",
            )


def _told(subject: Subject) -> Iterator[Said]:
    """Rows of a table of settings whose cells differ."""
    told = {name: subject.facts(name) for name in SETTINGS if subject.facts(name)}
    if not told:
        raise MissingError("no settings are told")
    for name, lines in told.items():
        differing = [(line, values) for line in lines if len(set(values := _cells(line.text))) > 1]
        if differing:
            yield Said(
                Severity.CAUTION if name in HEAVY_SETTINGS else Severity.NOTE,
                f"{name} differs between columns: {', '.join(differing[0][1])}"
                + (f"; likewise in {len(differing) - 1} more tables" if len(differing) > 1 else ""),
                (),
                [Evidence(at=f"{line.file}:{line.line}", figures={"text": line.text}) for line, _ in differing],
                "compare only targets that are set alike, unless the setting is what is compared",
            )


def _cells(text: str) -> list[str]:
    """Values of a row: what stands behind the name, between tabs or bars."""
    return [cell.strip() for cell in re.split(r"\t|\|", text) if cell.strip()][1:]


RULE = Rule(
    "settings-differ",
    "settings that are not the default, between targets; rows of a document's table of settings. Caution for those "
    "that decide what a commit waits for or what is cached, a note for others",
    Severity.CAUTION,
    "pgdyno.fingerprint.compare",
    _check,
)
