"""Checks of groups of clients and of steps: names, loads, and what cannot stand beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from pgdyno.effect import Effect, effect_of_scripts, weighted_name
from pgdyno.errors import InvalidValueError, Problem
from pgdyno.plan.checks.scripts import check_scripts
from pgdyno.plan.checks.sweep import check_variables
from pgdyno.plan.own_data.psql_reader import Reader, SqlFileError
from pgdyno.plan.plan_document import Document, KeyPath, near
from pgdyno.plan.scenario.groups import SWEPT, GroupSpec, StepSpec, group_workload
from pgdyno.plan.sweeps.spec import Sweep
from pgdyno.plan.targets import OwnTarget, TargetSpec
from pgdyno.plan.workload_schema import Workload, effect_of_script
from pgdyno.units import duration_words

OF_GROUPS = {
    "phase": "phases change the load of all clients: use steps",
    "search": "a search varies all clients",
    "generators": "each group has its own generator on this host",
}
"""Sections that a plan cannot have if groups are its trials, with the reason."""
OF_SWEEP = ("clients", "workers", "rate")


def check_groups(
    groups: Sequence[GroupSpec],
    workload: Workload | None,
    targets: Mapping[str, TargetSpec],
    lengths_s: Sequence[float],
    document: Document,
    folder: Path,
) -> Iterator[Problem]:
    """Yield problems of `groups`, whose loads last `lengths_s`, and of keys of other sections that belong to them."""
    are_trials = any(group.has_trial for group in groups)
    if are_trials or document.data.get("step"):
        yield from _other_sections(document)
    for key in OF_SWEEP:
        if are_trials and document.at(("sweep", key)) is not None:
            hint = f"write sweep.group.NAME.{key}" if key != "workers" else "remove it"
            yield document.problem(("sweep", key), "belongs to a group of clients", hint)
    yield from _swept(groups, document)
    for place, group in enumerate(groups):
        if any(group.name == before.name for before in groups[:place]):
            hint = "give each group its own name"
            yield document.problem(("group", place, "name"), f"{group.name} is the name of two groups", hint)
        yield from _load(place, group, workload, document, folder)
        yield from check_variables(("group", place, "variables"), group.variables, document)
        if lengths_s and group.begin >= min(lengths_s):
            message = f"is not before the end of a load of {duration_words(min(lengths_s))}"
            yield document.problem(("group", place, "begin"), message, "let it begin earlier")
        if group.on == "standby":
            yield from _standby(place, group, targets, document, folder)
        for name, target in targets.items() if group.on == "pooler" else ():
            if getattr(target, "pooler", None) is None and getattr(target, "load_dsn", None) is None:
                hint = f"write pooler or load_dsn in [target.{name}]"
                yield document.problem(("group", place, "on"), f"target {name} has no pooler", hint)


def _other_sections(document: Document) -> Iterator[Problem]:
    hint = "remove it; a group with background = true may run beside the load of [workload]"
    for section, why in OF_GROUPS.items():
        if document.data.get(section):
            yield document.problem((section,), f"cannot be combined with groups or steps: {why}", hint)
    if document.at(("trial", "order")) == "duet" or document.at(("trial", "ledger")):
        key = "ledger" if document.at(("trial", "ledger")) else "order"
        yield document.problem(("trial", key), "cannot be combined with groups or steps", "remove it")


def has_group_rate(group: GroupSpec, sweep: Sweep | None, steps: Sequence[StepSpec]) -> bool:
    """Return whether the load of `group` is an open loop, at least at a point or in a step."""
    swept = sweep is not None and f"{group.name}.rate" in sweep.group
    in_steps = (each.rate for step in steps for each in step.groups if each.name == group.name)
    return group.rate is not None or swept or any(rate is not None for rate in in_steps)


def _swept(groups: Sequence[GroupSpec], document: Document) -> Iterator[Problem]:
    table, names = document.at(("sweep", "group")), [group.name for group in groups]
    for key in map(str, table if isinstance(table, dict) else ()):
        name, _, of_group = key.partition(".")
        if name not in names:
            hint = f"did you mean {meant}?" if (meant := near(name, names)) else f"groups: {', '.join(names)}"
            yield document.problem(("sweep", "group", key), f"there is no group {name}", hint)
        elif of_group not in SWEPT and not of_group.startswith("variables."):
            keys = f"{', '.join(SWEPT)} and variables.NAME"
            yield document.problem(("sweep", "group", key), f"{of_group or name} cannot be swept", f"keys: {keys}")


def _load(
    place: int, group: GroupSpec, workload: Workload | None, document: Document, folder: Path
) -> Iterator[Problem]:
    if workload is None or group.idle is not None:
        return
    try:
        load = group_workload(workload, group)
    except ValidationError as error:
        for each in error.errors():
            path: KeyPath = ("group", place, "workload", *(part for part in each["loc"] if isinstance(part, str)))
            yield document.problem(path, each["msg"].lower(), None)
        return
    if group.scripts is not None:
        yield from check_scripts(("group", place), load.written_scripts, workload.dataset_name, document, folder)


def _standby(
    place: int, group: GroupSpec, targets: Mapping[str, TargetSpec], document: Document, folder: Path
) -> Iterator[Problem]:
    for at, text in enumerate(group.scripts or ()):
        name, _ = weighted_name(text)
        # the standby itself refuses what a script of unknown effect may write
        if effect_of_scripts([name], lambda each: effect_of_script(each, folder)) is Effect.WRITES:
            message = f"{name} writes, and a standby is read-only"
            yield document.problem(("group", place, "scripts", at), message, "name scripts that only read")
    for name, target in targets.items():
        if not isinstance(target, OwnTarget) or target.replicas is None:
            message = f"target {name} has no standby of its own"
            yield document.problem(("group", place, "on"), message, f"write [target.{name}.replicas] with count = 1")


def check_steps(
    steps: Sequence[StepSpec],
    groups: Sequence[GroupSpec],
    variables: Mapping[str, str],
    document: Document,
    folder: Path,
) -> Iterator[Problem]:
    """Yield problems of `steps`, whose files are relative to `folder` and have these `variables`."""
    names = [group.name for group in groups]
    for place, step in enumerate(steps):
        if any(step.name == before.name for before in steps[:place]):
            yield document.problem(("step", place, "name"), f"{step.name} is the name of two steps", "rename one")
        seen: set[str] = set()
        for at, each in enumerate(step.groups):
            path = ("step", place, "groups", at)
            if each.name not in names:
                hint = f"did you mean {meant}?" if (meant := near(each.name, names)) else f"groups: {', '.join(names)}"
                yield document.problem(path, f"there is no group {each.name}", hint if names else "add [[group]]")
            elif each.name in seen:
                yield document.problem(path, f"uses the group {each.name} twice", "add another group for that load")
            else:
                yield from _length(step, each.clients, groups[names.index(each.name)], variables, document, path)
            seen.add(each.name)
        known = [group for group in groups if group.name in seen]
        if known and not any(group.has_trial for group in known):
            yield document.problem(("step", place, "groups"), "all run in the background", "add a group with a trial")
        if step.sql is not None:
            yield from _sql(place, step.sql, variables, document, folder)
    if steps and not any(step.groups for step in steps):
        yield document.problem(("step",), "no step has a load", 'give one groups = ["NAME"] and a duration')


def _sql(place: int, file: str, variables: Mapping[str, str], document: Document, folder: Path) -> Iterator[Problem]:
    try:
        for statement in Reader(folder, dict(variables)).read(file):
            for _ in statement.data:
                pass
    except SqlFileError as error:
        yield document.problem(("step", place, "sql"), str(error), error.hint)


def _length(
    step: StepSpec,
    clients: int | None,
    group: GroupSpec,
    variables: Mapping[str, str],
    document: Document,
    path: KeyPath,
) -> Iterator[Problem]:
    clients = clients or group.connections
    if step.until is None or not clients or not group.has_trial:
        return
    if isinstance(step.until.transactions, str):
        try:
            step.until.each_client(clients, {**variables, **group.variables})
        except InvalidValueError as error:
            yield document.problem((*path[:2], "until", "transactions"), error.message, error.hint)
        except ValueError as error:
            yield document.problem((*path[:2], "until", "transactions"), str(error), None)
    elif step.until.transactions % clients:
        message = f"{step.until.transactions:,} transactions do not divide by the {clients} clients of {group.name}"
        yield document.problem(path, message, "use a multiple")
