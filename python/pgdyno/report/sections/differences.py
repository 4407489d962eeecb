"""Settings and environment as differences between the compared arms; the complete list follows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pgdyno.fingerprint import Difference
from pgdyno.records import TargetRecord
from pgdyno.records.masking import masked_plan
from pgdyno.report import numbers
from pgdyno.report.tables import Table
from pgdyno.report.texts import gettext, gettext_each, translated


def settings_tables(targets: Sequence[TargetRecord], alike: Collection[str] = ()) -> tuple[Table | None, Table | None]:
    """Return settings that differ between targets, and all that are not the server's default; a column per target.

    `alike` are names of settings with equal values, although only some targets changed them.
    """
    started = [(target.name, target.facts.settings_changed) for target in targets if target.facts is not None]
    names = sorted({name for _, settings in started for name in settings})
    if not names:
        return None, None
    values = {name: [settings.get(name, gettext("default")) for _, settings in started] for name in names}
    differing = [name for name in names if len(set(values[name])) > 1 and name not in alike]
    headings = (gettext("setting"), *(name for name, _ in started))
    rest = Table(
        gettext("Settings that are not the default"),
        headings,
        tuple((name, *values[name]) for name in names),
        len(headings),
    )
    if not differing:
        return None, rest
    rows = tuple((name, *values[name]) for name in differing)
    return Table(gettext("Settings that differ between targets"), headings, rows, len(headings)), rest


def environment_table(differences: Sequence[Difference]) -> Table | None:
    """Return the differences between fingerprints of runs, most severe first."""
    if not differences:
        return None
    rows = tuple(
        (
            each.field,
            gettext(each.severity.value),
            each.a or numbers.NOTHING,
            each.b or numbers.NOTHING,
            translated(each.why),
        )
        for each in differences
    )
    headings = gettext_each("field", "weight", "first", "other", "why it matters")
    return Table(gettext("Differences between the runs"), headings, rows, 5)


def asked_differences(targets: Sequence[TargetRecord]) -> Table | None:
    """Return differences between the targets in the plan."""
    if len(targets) < 2:
        return None
    flat = {target.name: dict(_flat("", masked_plan(target.asked))) for target in targets}
    keys = list(dict.fromkeys(key for values in flat.values() for key in values))
    rows = [(key, *(values.get(key, numbers.NOTHING) for values in flat.values())) for key in keys]
    differing = tuple(row for row in rows if len(set(row[1:])) > 1)
    headings = (gettext("of the plan"), *flat)
    return (
        Table(gettext("Settings of targets in the plan that differ"), headings, differing, len(headings))
        if differing
        else None
    )


def _flat(prefix: str, values: Mapping[str, object]) -> Sequence[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            found += _flat(f"{prefix}{name}.", value)
        elif value not in (None, [], "", {}):
            found.append((f"{prefix}{name}", str(value)))
    return found
