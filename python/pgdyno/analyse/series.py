"""Which points belong to one curve: those that differ only in clients, and in what is computed from these."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgdyno.records import Point, TrialRecord

GROUP, STEP = "group", "step"
Texts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Series:
    """A target, and every parameter of the sweep except clients."""

    target: str
    workers: int | None = None
    protocol: str = "simple"
    scale: int | None = None
    rate: float | None = None
    settings: Texts = ()
    variables: Texts = ()
    group: str | None = None
    step: str | None = None
    groups: Texts = ()
    connect: str | None = None

    @classmethod
    def from_point(cls, target: str, point: Point, following: frozenset[str] = frozenset()) -> Series:
        """Return the series of `point` of `target`; `following` are parameters that do not split it."""
        return cls(
            target,
            None if "workers" in following else point.workers,
            point.protocol,
            None if "scale" in following else point.scale,
            None if "rate" in following else point.rate,
            _texts("settings", point.settings, following),
            _texts("variables", point.variables, following),
            point.group,
            point.step,
            _texts("groups", point.groups, following),
            point.connect,
        )

    def parameter(self, name: str) -> int | float | str | None:
        """Return the value of `target`, `workers`, `settings.work_mem` and the like; None if it is not set."""
        group, dot, key = name.partition(".")
        value: int | float | str | None = dict(getattr(self, group)).get(key) if dot else getattr(self, name)
        return value

    def parameters(self) -> dict[str, str]:
        """Return the parameters other than the target, as text, without those that the plan does not set."""
        values = {name: self.parameter(name) for name in _names([self]) if name != "target"}
        return {name: text(value) for name, value in values.items() if value is not None}


def _texts(group: str, values: Mapping[str, str], following: frozenset[str]) -> Texts:
    return tuple(sorted((name, value) for name, value in values.items() if f"{group}.{name}" not in following))


def text(value: float | str) -> str:
    """Return a parameter's value as people write it: rates without trailing zeros."""
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def dependent_parameters(plan: Mapping[str, Any], points: Iterable[Point]) -> frozenset[str]:
    """Return the parameters that `plan`, as in a manifest, computes from others: they do not split a curve.

    `workers = "clients / 2"` changes with the clients; one series per number of workers would have no curve. Only
    returned if `points` stay distinct without them.
    """
    sweep = plan.get("sweep") or {}
    items = {name: sweep.get(name) for name in ("workers", "scale", "rate")}
    # a point keeps settings of sessions among its settings
    for group, kept in _KEPT.items():
        items |= {f"{kept}.{name}": values for name, values in (sweep.get(group) or {}).items()}
    names = [name for name, values in items.items() if isinstance(values, list) and _is_computed(values)]
    different = {point.model_dump_json(): point for point in points}.values()
    changing = frozenset(name for name in names if len({point.parameter(name) for point in different}) > 1)
    left = {(point.clients, Series.from_point("", point, changing)) for point in different}
    return changing if len(left) == len(different) else frozenset()


_KEPT = {"settings": "settings", "session_settings": "settings", "variables": "variables", "group": "groups"}
"""The fields of points by the tables of a sweep."""
_A_PARAMETER = re.compile(r"\b(clients|workers|scale|rate)\b|\b(settings|session_settings|variables)\.")


def _is_computed(values: Sequence[object]) -> bool:
    return len(values) == 1 and isinstance(values[0], str) and _A_PARAMETER.search(values[0]) is not None


def series_in_order(
    targets: Sequence[str],
    trials: Iterable[TrialRecord],
    plan: Mapping[str, Any],
    following: frozenset[str] = frozenset(),
) -> list[Series]:
    """Return every series of `trials` once: `targets` in the given order, and values in the order of `plan`, as in a
    manifest, because the order of trials may be random. What the plan does not list stays in the order of trials.
    """
    seen = list(dict.fromkeys(Series.from_point(trial.target, trial.point, following) for trial in trials))
    values = {name: listed_values(plan, name) for name in _names(seen)} | {"target": list(targets)}
    places = {name: {text(value): at for at, value in enumerate(listed)} for name, listed in values.items()}

    def place(series: Series) -> list[int]:
        of = {name: series.parameter(name) for name in places}
        return [places[name].get("" if value is None else text(value), len(places[name])) for name, value in of.items()]

    return sorted(seen, key=place)


def listed_values(plan: Mapping[str, Any], name: str) -> list[Any]:
    """Return the values that `plan` sweeps the parameter over; none if it computes them."""
    sweep = plan.get("sweep") or {}
    if name in (GROUP, STEP):
        return [each["name"] for each in plan.get(name) or ()]
    group, dot, key = name.partition(".")
    groups = [table for table, kept in _KEPT.items() if kept == group]
    found = [(sweep.get(each) or {}).get(key) for each in groups] if dot else [sweep.get(name)]
    listed = next((values for values in found if isinstance(values, list)), None)
    if listed is not None or not dot:
        return listed or []
    tables = [point.get(each) or {} for point in sweep.get("points") or () for each in groups]
    return list(dict.fromkeys(table[key] for table in tables if key in table))


def varying_parameters(all_series: Sequence[Series]) -> list[str]:
    """Return the names of the parameters that differ between `all_series`, possibly with `target`, in reading order."""
    names = [name for name in _names(all_series) if len({series.parameter(name) for series in all_series}) > 1]
    owners = [name for name in (STEP, GROUP) if name in names]
    return [name for name in names if name in owners or not owners or _varies_within(owners, name, all_series)]


def _varies_within(owners: Sequence[str], name: str, all_series: Iterable[Series]) -> bool:
    """Return whether a group or a step has several values of the parameter: one value each only describes these."""
    first: dict[tuple[object, ...], object] = {}
    values = [(tuple(map(series.parameter, owners)), series.parameter(name)) for series in all_series]
    return any(first.setdefault(owner, value) != value for owner, value in values)


def _names(all_series: Iterable[Series]) -> list[str]:
    names = dict.fromkeys(("target", STEP, GROUP, "protocol", "scale", "workers", "rate", "connect"))
    for group in ("settings", "variables", "groups"):
        for series in all_series:
            names |= dict.fromkeys(f"{group}.{name}" for name, _ in getattr(series, group))
    return list(names)


def heading(name: str) -> str:
    """Return a short name of the parameter `name`: `work_mem` for `settings.work_mem`."""
    return name.partition(".")[2] or name


def label(series: Series, names: Sequence[str]) -> str:
    """Return what distinguishes `series` from others: `pg18, prepared, scale 10`; its target without `names`."""
    parts = [series.target] if "target" in names or not names else []
    parts += [parameter_label(name, series.parameter(name)) for name in names if name != "target"]
    return ", ".join(parts)


def parameter_label(name: str, value: float | str | None) -> str:
    """Return a parameter with its value: `prepared`, `scale 10`, `2 workers`, `rate 1,000`, `work_mem 4MB`.

    A setting that a trial does not set is `unchanged`: the target may have set it.
    """
    if name == "rate":
        return "closed loop" if value is None else f"rate {value:,.10g}"
    if value is None:
        return f"{heading(name)} {'unchanged' if name.startswith('settings.') else 'by default'}"
    if name in ("protocol", GROUP, STEP):
        return str(value)
    if name == "workers":
        return f"{value} worker{'' if value == 1 else 's'}"
    return f"{heading(name)} {value}"
