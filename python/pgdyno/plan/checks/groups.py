"""Checks of groups of clients and of steps: names, loads, and what cannot stand beside them."""

from collections.abc import Iterator, Mapping
from functools import partial

from pydantic import ValidationError

from pgdyno.effect import Effect, effect_of_scripts, weighted_name
from pgdyno.errors import InvalidValueError, Problem
from pgdyno.plan.checks.scripts import check_scripts
from pgdyno.plan.checks.sections import Sections
from pgdyno.plan.checks.sweep import check_variables
from pgdyno.plan.checks.trial_conditions import check_promises, has_group_rate
from pgdyno.plan.own_data.psql_reader import Reader, SqlFileError, read_through
from pgdyno.plan.plan_document import KeyPath, suggestion
from pgdyno.plan.scenario.groups import SWEPT, GroupSpec, group_workload
from pgdyno.plan.scenario.steps import StepSpec
from pgdyno.plan.targets import OwnTarget
from pgdyno.plan.workload_schema import effect_of_script
from pgdyno.units import duration_words

OF_GROUPS = {
    "phase": "phases change the load of all clients: use steps",
    "search": "a search varies all clients",
    "generators": "each group has its own generator on this host",
}
"""Sections that a plan cannot have if groups are its trials, with the reason."""
OF_SWEEP = ("clients", "workers", "rate")


def check_scenario(plan: Sections) -> Iterator[Problem]:
    """Yield problems of groups and steps, and of keys of other sections that belong to them."""
    if plan.groups or plan.value_at(("step",)):
        yield from _groups(plan)
        for place, group in enumerate(plan.groups):
            path = ("group", place, "promise")
            yield from check_promises(path, group.promise, plan, has_rate=has_group_rate(group, plan))
        yield from _steps(plan)


def _groups(plan: Sections) -> Iterator[Problem]:
    groups, targets = plan.groups, plan.targets
    ends = [step.duration for step in plan.steps] or [getattr(plan.trial, "duration", None)]
    lengths_s = [each for each in ends if each is not None]
    are_trials = any(group.has_trial for group in groups)
    if are_trials or plan.value_at(("step",)):
        yield from _other_sections(plan)
    for key in OF_SWEEP:
        if are_trials and plan.value_at(("sweep", key)) is not None:
            hint = f"write sweep.group.NAME.{key}" if key != "workers" else "remove it"
            yield plan.problem(("sweep", key), "belongs to a group of clients", hint)
    yield from _swept(plan)
    for place, group in enumerate(groups):
        if any(group.name == before.name for before in groups[:place]):
            hint = "give each group its own name"
            yield plan.problem(("group", place, "name"), f"{group.name} is the name of two groups", hint)
        yield from _load(place, group, plan)
        yield from check_variables(("group", place, "variables"), group.variables, plan)
        if lengths_s and group.begin >= min(lengths_s):
            message = f"is not before the end of a load of {duration_words(min(lengths_s))}"
            yield plan.problem(("group", place, "begin"), message, "let it begin earlier")
        if group.on == "standby":
            yield from _standby(place, group, plan)
        for name, target in targets.items() if group.on == "pooler" else ():
            if getattr(target, "pooler", None) is None and getattr(target, "load_dsn", None) is None:
                hint = f"write pooler or load_dsn in [target.{name}]"
                yield plan.problem(("group", place, "on"), f"target {name} has no pooler", hint)


def _other_sections(plan: Sections) -> Iterator[Problem]:
    hint = "remove it; a group with background = true may run beside the load of [workload]"
    for section, why in OF_GROUPS.items():
        if plan.value_at((section,)):
            yield plan.problem((section,), f"cannot be combined with groups or steps: {why}", hint)
    if plan.value_at(("trial", "order")) == "duet" or plan.value_at(("trial", "ledger")):
        key = "ledger" if plan.value_at(("trial", "ledger")) else "order"
        yield plan.problem(("trial", key), "cannot be combined with groups or steps", "remove it")


def _swept(plan: Sections) -> Iterator[Problem]:
    table, names = plan.value_at(("sweep", "group")), [group.name for group in plan.groups]
    for key in map(str, table if isinstance(table, dict) else ()):
        name, _, of_group = key.partition(".")
        if name not in names:
            hint = suggestion(name, names, f"groups: {', '.join(names)}")
            yield plan.problem(("sweep", "group", key), f"there is no group {name}", hint)
        elif of_group not in SWEPT and not of_group.startswith("variables."):
            keys = f"{', '.join(SWEPT)} and variables.NAME"
            yield plan.problem(("sweep", "group", key), f"{of_group or name} cannot be swept", f"keys: {keys}")


def _load(place: int, group: GroupSpec, plan: Sections) -> Iterator[Problem]:
    if plan.workload is None or group.idle is not None:
        return
    try:
        load = group_workload(plan.workload, group)
    except ValidationError as error:
        for each in error.errors():
            path: KeyPath = ("group", place, "workload", *(part for part in each["loc"] if isinstance(part, str)))
            yield plan.problem(path, each["msg"].lower(), None)
        return
    if group.scripts is not None:
        yield from check_scripts(("group", place), load.written_scripts, plan.workload.dataset_name, plan)


def _standby(place: int, group: GroupSpec, plan: Sections) -> Iterator[Problem]:
    for at, text in enumerate(group.scripts or ()):
        name, _ = weighted_name(text)
        # the standby itself refuses what a script of unknown effect may write
        if effect_of_scripts([name], partial(effect_of_script, folder=plan.folder)) is Effect.WRITES:
            message = f"{name} writes, and a standby is read-only"
            yield plan.problem(("group", place, "scripts", at), message, "name scripts that only read")
    for name, target in plan.targets.items():
        if not isinstance(target, OwnTarget) or target.replicas is None:
            message = f"target {name} has no standby of its own"
            yield plan.problem(("group", place, "on"), message, f"write [target.{name}.replicas] with count = 1")


def _steps(plan: Sections) -> Iterator[Problem]:
    steps, groups, names = plan.steps, plan.groups, [group.name for group in plan.groups]
    variables = dict(plan.workload.known_variables) if plan.workload is not None else {}
    variables |= plan.points[0].variables if plan.points else {}
    for place, step in enumerate(steps):
        if any(step.name == before.name for before in steps[:place]):
            yield plan.problem(("step", place, "name"), f"{step.name} is the name of two steps", "rename one")
        seen: set[str] = set()
        for at, each in enumerate(step.groups):
            path = ("step", place, "groups", at)
            if each.name not in names:
                hint = suggestion(each.name, names, f"groups: {', '.join(names)}" if names else "add [[group]]")
                yield plan.problem(path, f"there is no group {each.name}", hint)
            elif each.name in seen:
                yield plan.problem(path, f"uses the group {each.name} twice", "add another group for that load")
            else:
                yield from _length(step, each.clients, groups[names.index(each.name)], variables, path, plan)
            seen.add(each.name)
        known = [group for group in groups if group.name in seen]
        if known and not any(group.has_trial for group in known):
            yield plan.problem(("step", place, "groups"), "all run in the background", "add a group with a trial")
        if step.sql is not None:
            try:
                read_through(Reader(plan.folder, dict(variables)).read(step.sql))
            except SqlFileError as error:
                yield plan.problem(("step", place, "sql"), str(error), error.hint)
    if steps and not any(step.groups for step in steps):
        yield plan.problem(("step",), "no step has a load", 'give one groups = ["NAME"] and a duration')


def _length(
    step: StepSpec, clients: int | None, group: GroupSpec, variables: Mapping[str, str], path: KeyPath, plan: Sections
) -> Iterator[Problem]:
    clients = clients or group.connections
    if step.until is None or not clients or not group.has_trial:
        return
    if isinstance(step.until.transactions, str):
        try:
            step.until.each_client(clients, {**variables, **group.variables})
        except ValueError as error:
            hint = error.hint if isinstance(error, InvalidValueError) else None
            yield plan.problem((*path[:2], "until", "transactions"), getattr(error, "message", str(error)), hint)
    elif step.until.transactions % clients:
        message = f"{step.until.transactions:,} transactions do not divide by the {clients} clients of {group.name}"
        yield plan.problem(path, message, "use a multiple")
