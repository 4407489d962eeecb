"""Groups of clients and steps of a trial: who runs a workload, and when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from pgdyno.errors import InvalidValueError
from pgdyno.plan.kinds import WORKLOAD_KINDS, workload_schema
from pgdyno.plan.optional_sections import Promises
from pgdyno.plan.own_data.sql_dataset import SqlDataset
from pgdyno.plan.scenario.steps import OneRate, StepSpec
from pgdyno.plan.sweeps.points import Space, SweepProblem, expand
from pgdyno.plan.sweeps.spec import Place, Sweep
from pgdyno.plan.values import Model, Name, Positive, Protocol, Seconds, Setting
from pgdyno.plan.workload_schema import SBTEST, Workload
from pgdyno.records import Point
from pgdyno.registry import workload_kind

Clients = Annotated[int, Field(ge=0)]
SWEPT = ("clients", "rate", "protocol", "idle")
"""Keys of a group that a sweep may override, besides `variables.NAME`."""


class GroupSpec(Model):
    """Clients with a load of their own, which run beside the other groups of a trial."""

    name: Name
    scripts: Annotated[list[str], Field(min_length=1)] | None = None
    """Built-in names or files, followed by `@weight`; None: the load of `[workload]`."""
    workload: dict[str, Any] | None = None
    """Another kind of load, with the keys of `[workload]`, such as `{ lua = "oltp_read_only.lua" }`."""
    clients: Clients = 1
    rate: OneRate | None = None
    """Transactions per second of its clients together, in open loop; None: closed loop."""
    arrivals: Literal["poisson", "regular"] = "poisson"
    """Times between the transactions of a rate: random as those of many users, or equal as of a timer."""
    protocol: Protocol | None = None
    """None: that of the sweep."""
    variables: dict[str, Setting] = {}
    """Variables of its scripts, which override those of the workload."""
    begin: Annotated[Seconds, Field(ge=0)] = 0.0
    """When its load begins, counted from the start of measuring; its clients connect before."""
    end: Annotated[Seconds, Field(gt=0)] | None = None
    """When its load ends, counted likewise; None: with the trial."""
    on: Literal["primary", "standby", "pooler"] | None = None
    """Where its clients connect; None: to the target's pooler, and without one to the primary."""
    idle: Positive | None = None
    """Number of clients that only stay connected, in no transaction, in place of a load."""
    promise: Promises = []
    """What its load must keep, such as "p99 < 20ms", besides the promises of `trial`."""
    background: bool = False
    """Whether it only loads the server during the trial, without a result of its own."""

    @model_validator(mode="after")
    def _one_load(self) -> GroupSpec:
        given = [key for key in ("scripts", "workload", "idle") if getattr(self, key) is not None]
        if len(given) > 1:
            raise InvalidValueError(f"has both {given[0]} and {given[1]}", "a group has one load: split it")
        if self.idle is not None and (self.clients != 1 or self.rate is not None or self.variables):
            raise InvalidValueError("has idle clients, and keys of a load", "keep only idle, or remove it")
        if self.end is not None and self.end <= self.begin:
            raise InvalidValueError("ends before it begins", "let end be later than begin")
        if not self.has_trial and (self.begin or self.end is not None or self.promise):
            raise InvalidValueError("runs throughout a trial and has no result", "remove begin, end and promise")
        return self

    @property
    def has_trial(self) -> bool:
        """Return whether its load is a trial; another load runs in the background of the trials."""
        return not self.background and self.idle is None

    @property
    def connections(self) -> int:
        return self.idle or self.clients


def groups_at(groups: Sequence[GroupSpec], point: Point, step: StepSpec | None = None) -> list[GroupSpec]:
    """Return the groups that run in `step` with the swept values of `point`. Raises ValueError for an invalid one."""
    changed = [override_group(group, point.groups) for group in groups]
    if step is None:
        return changed
    by_name = {group.name: group for group in changed}
    return [
        by_name[each.name].model_copy(update=each.model_dump(exclude={"name"}, exclude_none=True))
        for each in step.groups
    ]


def override_group(group: GroupSpec, swept: Mapping[str, str]) -> GroupSpec:
    """Return `group` with its values among `swept`, such as `reports.clients`. Raises ValueError."""
    own = {key.partition(".")[2]: value for key, value in swept.items() if key.partition(".")[0] == group.name}
    if not own:
        return group
    table: dict[str, Any] = group.model_dump(exclude_defaults=True, exclude={"begin", "end", "promise"})
    for key, value in own.items():
        name, _, variable = key.partition(".")
        if variable:
            table[name] = {**table.get(name, {}), variable: value}
        else:
            table[name] = float(value) if name == "rate" else value if name == "protocol" else int(value)
    return GroupSpec.model_validate(table).model_copy(
        update={"begin": group.begin, "end": group.end, "promise": group.promise}
    )


def scenario_space(groups: Sequence[GroupSpec], sweep: Sweep, scale: int, variables: Mapping[str, str]) -> Space:
    """Return the resolved sweep; if groups are its trials, each point has the clients of all groups."""
    if not groups:
        return expand(sweep, scale, variables)
    are_trials = any(group.has_trial for group in groups)
    if are_trials:
        # the clients follow from the groups; explicit points are measured instead of the product
        points = [point.model_copy(update={"clients": 1}) for point in sweep.points]
        sweep = sweep.model_copy(update={"clients": None if points else [1], "points": points})
    found = expand(sweep, scale, variables)
    space = replace(found, points=[], places=[], problems=list(found.problems))
    for point, places in zip(found.points, found.places, strict=True):
        try:
            here = groups_at(groups, point)
        except ValueError as error:
            place, why = next(_refused_values(groups, point, places), ((), str(error)))
            space.add_problem(SweepProblem(place, why))
            continue
        clients = sum(group.connections for group in here if are_trials or group.on != "standby")
        if not are_trials:
            space.beside, clients = max(space.beside, clients), point.planned_clients
        if clients == 0:
            space.add_problem(SweepProblem((), "leaves no group with clients at a point", "exclude that point"))
            continue
        space.points.append(point.model_copy(update={"clients": clients}))
        space.places.append(places)
    return space


def _refused_values(
    groups: Sequence[GroupSpec], point: Point, places: Mapping[str, Place]
) -> Iterator[tuple[Place, str]]:
    for key, value in point.groups.items():
        owner = next((group for group in groups if group.name == key.partition(".")[0]), None)
        try:
            if owner is not None:
                override_group(owner, {key: value})
        except ValidationError as error:
            yield places[f"group.{key}"], error.errors()[0]["msg"].lower()
        except ValueError:
            yield places[f"group.{key}"], f"{value!r} is no number"


def group_workload(base: Workload, group: GroupSpec) -> Workload:
    """Return the load of `group` on the dataset of `base`. Raises ValidationError."""
    table: dict[str, Any] = dict(group.workload or ({"scripts": group.scripts} if group.scripts else {}))
    if not table:
        return base
    schema = workload_schema(table)
    if schema is WORKLOAD_KINDS["pgbench"]:
        shares = base.dataset in ("pgbench", SBTEST) or isinstance(base.dataset, SqlDataset)
        table = {"dataset": base.dataset if shares else "none", "variables": base.variables, **table}
    for key in ("scale", "tables", "table_size"):
        table.setdefault(key, getattr(base, key))
    return schema.model_validate(table)


STANDBYS: dict[str, Any] = {"name": "standbys", "on": "standby", "background": True}
"""What `[replica_load]`, by which plans loaded standbys before there were groups, is read as."""


def fill_groups(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan's `table` in which groups without a load of their own have the scripts of `[workload]`, and that
    has the scripts of all groups if these are its trials. `[replica_load]` is the last group.
    """
    if isinstance(table.get("group", []), list) and (of_standbys := table.get("replica_load")) is not None:
        last = {"protocol": "simple", **of_standbys, **STANDBYS} if isinstance(of_standbys, dict) else of_standbys
        rest = {key: each for key, each in table.items() if key != "replica_load"}
        table = rest | {"group": [*table.get("group", []), last]}
    groups, workload = table.get("group"), table.get("workload") or {}
    if not isinstance(groups, list) or not groups or not isinstance(workload, dict):
        return dict(table)
    own = workload.get("scripts")
    loads = [each for each in groups if isinstance(each, dict)]
    if own is not None:
        lacking = [each for each in loads if not {"scripts", "workload", "idle"} & {key for key in each if each[key]}]
        groups = [each | {"scripts": own} if each in lacking else each for each in groups]
        loads = [each for each in groups if isinstance(each, dict)]
    if not has_trials(groups):
        return {**table, "group": groups}
    if own is None and workload_kind(workload) != "pgbench":
        return {**table, "workload": workload}
    scripts = [*_as_list(own), *(script for each in loads for script in _as_list(each.get("scripts")))]
    other: dict[str, Any] = next((each["workload"] for each in loads if isinstance(each.get("workload"), dict)), {})
    added = {"scripts": list(dict.fromkeys(scripts))} if scripts else other
    return {**table, "group": groups, "workload": {**workload, **added}}


def has_trials(groups: object) -> bool:
    """Return whether one of `groups`, as in a plan's table, has a load that is a trial."""
    tables = [each for each in _as_list(groups) if isinstance(each, dict)]
    return any(not each.get("background") and not each.get("idle") for each in tables)


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
