"""Converts values of settings to numbers, so that 1GB equals 1024MB, and a default equals its explicit value."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from pgdyno.audit.subject import AuditRun
from pgdyno.records import TrialRecord
from pgdyno.store.trial_tables import SettingRow
from pgdyno.units import Value, setting_value

ReportedSettings = Mapping[str, Mapping[str, str]]
"""Settings that are not the default, as SHOW prints them, by target and name."""


def is_off(line: str) -> bool:
    """Return whether a document's line with a setting has it off, in any column of a table."""
    without_comment = line.partition("#")[0]
    values = re.sub(r"^\W*\w+\s*[=:|]?", "", without_comment)
    cells = [words for cell in re.split(r"[\t|]|\s{2,}", values) if (words := cell.strip("'\" ;").lower().split())]
    return any(words[at].strip("'\";") in ("off", "false") for words in cells for at in (0, -1))


def with_session_settings(trials: Iterable[TrialRecord], target: str, changed: Mapping[str, str]) -> dict[str, str]:
    """Return `changed`, the settings of a server that are not the default, with those of the load's sessions that it
    lacks; settings of the sweep belong to points.
    """
    known = {name.lower() for name in changed}
    further = {
        name: value
        for trial in trials
        if trial.target == target
        for name, value in trial.session_settings.items()
        if name.lower() not in known and name not in trial.point.settings
    }
    return {**changed, **further}


def rows_of_targets(run: AuditRun, names: Sequence[str] = ()) -> Iterator[tuple[str, SettingRow]]:
    """Yield the recorded settings of each trial with its target, without those of the sweep; only `names` if given."""
    targets = {trial.number: trial.target for trial in run.trials}
    swept = {trial.number: trial.point.settings for trial in run.trials}
    for row in run.settings(names=names):
        if row.setting is not None and row.trial in targets and row.name not in swept[row.trial]:
            yield targets[row.trial], row


def values_at(run: AuditRun, names: Collection[str]) -> dict[str, dict[str, Value]]:
    """Return the settings `names` at the first trial of each target that recorded them, by target and name."""
    found: dict[str, dict[str, Value]] = {}
    for target, row in rows_of_targets(run, sorted(names)) if names else ():
        found.setdefault(target, {}).setdefault(row.name, setting_value(str(row.setting), row.unit))
    return found


def alike(printed: Sequence[str | None], kept: Sequence[Value | None]) -> bool:
    """Return whether a setting is the same everywhere: `printed` as by SHOW, None for the default; `kept` as stored."""
    values = {setting_value(text) if text is not None else value for text, value in zip(printed, kept, strict=True)}
    return None not in values and len(values) == 1


def alike_settings(run: AuditRun, printed: ReportedSettings, names: Iterable[str]) -> set[str]:
    names = list(names)
    kept = values_at(run, names)
    return {
        name
        for name in names
        if alike(
            [printed[target].get(name) for target in printed], [kept.get(target, {}).get(name) for target in printed]
        )
    }
