"""Whether targets can do what a plan asks of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pgdyno.effect import Effect
from pgdyno.errors import Problem
from pgdyno.plan.checks.sections import Sections
from pgdyno.plan.known_settings import KNOWN, network_refusal, refusal, session_refusal, wrong_unit
from pgdyno.plan.model import Plan, Workload
from pgdyno.plan.plan_document import Document, KeyPath, near
from pgdyno.plan.sweeps.spec import SESSION
from pgdyno.plan.targets import PGBOUNCER, NetworkTarget, OwnTarget, TargetSpec, find_pgbouncer, pgbouncer_version
from pgdyno.plan.workload import effect_of_plan
from pgdyno.records import Point


def check_targets(plan: Sections) -> Iterator[Problem]:
    """Yield everything of targets that is impossible, as far as the plan alone shows it."""
    for name, target in plan.targets.items():
        yield from _settings(name, target, plan)
        yield from target.check(name, plan.targets, plan.document)


def check_instances(plan: Sections) -> Iterator[Problem]:
    """Yield targets whose instances the repeats do not all reach."""
    trial, search = plan.trial, plan.search
    if trial is None or (search is not None and search.find == "settings"):
        return
    for name, target in plan.targets.items():
        count = target.instance_count
        if count == 1:
            continue
        if search is not None:
            message = f"is not possible at target {name}, which has {count} instances: a search measures one server"
            yield plan.problem(("search",), message, "search with one instance, then compare with several")
        elif trial.most_repeats < count:
            message = f"{trial.repeats} are fewer than the {count} instances of target {name}"
            hint = f"use {2 * count} or more, two for each instance"
            yield plan.problem(("trial", "repeats"), f"{message}: repeats take turns at them", hint)


def _settings(name: str, target: TargetSpec, plan: Sections) -> Iterator[Problem]:
    path = ("target", name)
    for setting in target.settings:
        reason, remedy = refusal(setting), "remove it"
        if isinstance(target, NetworkTarget):
            reason, remedy = reason or network_refusal(setting), target.setting_remedy
            if reason is None and target.allow_existing:
                reason, remedy = not_of_database(name, target), per_session(f"target.{name}", setting)
        if reason is not None:
            yield plan.problem((*path, "settings", setting), f"cannot be set: {reason}", remedy)
    yield from check_spelling((*path, "settings"), target.settings, {}, plan)
    yield from check_spelling((*path, SESSION), target.session_settings, {}, plan)
    yield from check_session((*path, SESSION), target.session_settings, target.settings, plan)
    for group, settings in (("settings", target.settings), (SESSION, target.session_settings)):
        for setting, value in settings.items():
            yield from check_values((*path, group, setting), [value], plan, of_postgresql=target.kind == "embedded")


def check_values(path: KeyPath, values: Sequence[object], plan: Sections, *, of_postgresql: bool) -> Iterator[Problem]:
    """Yield a value of the setting at `path` with a wrong unit, which a server would refuse only after it was
    downloaded and started; and a misspelled name if the servers are PostgreSQL as released.

    A name that resembles none may be new in a minor release.
    """
    name = str(path[-1])
    if of_postgresql and "." not in name and name.lower() not in KNOWN and (meant := near(name, KNOWN)):
        yield plan.problem(path, "is no setting of PostgreSQL", f"did you mean {meant}?")
    wrong = next((each for value in values if (each := wrong_unit(name, str(value))) is not None), None)
    if wrong is not None:
        yield plan.problem(path, *wrong)


def not_of_database(name: str, target: NetworkTarget) -> str:
    """Return why an existing database of `target`, called `name`, gets no settings."""
    return f"the database {target.database} of target {name} may be another's, and pgdyno does not change its settings"


def per_session(place: str, setting: str) -> str:
    """Return the remedy for a setting at `place` that a database may not get."""
    return f"write it as {place}.session_settings.{setting}, which applies to each connection of the load"


def check_spelling(path: KeyPath, names: Iterable[str], spelled: dict[str, str], plan: Sections) -> Iterator[Problem]:
    """Yield names of settings at `path` that differ from earlier ones only in case: the server would use the last.

    `spelled` has the earlier names by their lower case; adds `names` to it.
    """
    for name in names:
        known = spelled.setdefault(name.lower(), name)
        if known != name:
            yield plan.problem((*path, name), f"is the same setting as {known}", "write its name in one way")


def check_session(path: KeyPath, names: Iterable[str], of_server: Iterable[str], plan: Sections) -> Iterator[Problem]:
    """Yield `names` at `path` that no session can have, and those that the server has, too."""
    known = {name.lower() for name in of_server}
    for name in names:
        refused = session_refusal(name)
        if refused is not None:
            yield plan.problem((*path, name), f"cannot be set for a session: {refused[0]}", refused[1])
        elif name.lower() in known:
            yield plan.problem((*path, name), "is also under settings", "remove one of them")


class Abilities(NamedTuple):
    """What the server reports when pgdyno connects."""

    connections: int
    """The number of sessions that the role may open."""
    may_checkpoint: bool
    may_reset_statistics: bool
    may_make_databases: bool
    is_standby: bool
    pooler: str = ""
    """The connection pooler through which the clients of the load go: `PgBouncer 1.18.0`."""
    may_prepare: bool = True
    """Whether the pooler keeps the prepared statements of its clients apart."""


def check_abilities(
    plan: Plan, abilities: Mapping[str, Abilities], document: Document, folder: Path
) -> Iterator[Problem]:
    """Return each need of `plan`, whose files are relative to `folder`, that its targets, by name, do not meet."""
    reset = plan.reset
    for name, able in abilities.items():
        if able.pooler:
            yield from _check_pooled(plan, name, able, document)
        space = plan.space()
        kept = [each for each in space.points if (each.connect or plan.workload.connect) == "once"]
        clients = space.beside + max((point.planned_clients for point in kept), default=0)
        if clients > able.connections and not able.pooler:
            message = f"{clients} clients are too many for target {name}, which allows {able.connections} connections"
            yield document.problem(("sweep", "clients"), message, "use fewer, or raise its max_connections")
        checkpoints: list[tuple[KeyPath, str]] = [(("reset", "checkpoint"), "set checkpoint = false")]
        checkpoints = checkpoints if reset.checkpoint else []
        steps = (place for place, step in enumerate(plan.step) if step.do == "checkpoint")
        checkpoints += [(("step", place, "do"), "remove the step") for place in steps]
        role = f"the role at target {name} may not"
        for path, other in checkpoints if not able.may_checkpoint else ():
            hint = f"grant it pg_checkpoint (PostgreSQL 15 or later), or {other}"
            yield document.problem(path, f"{role} run CHECKPOINT", hint)
        if reset.statistics and not able.may_reset_statistics:
            hint = "grant it EXECUTE on pg_stat_reset, or remove it"
            yield document.problem(("reset", "statistics"), f"{role} reset statistics", hint)
        if reset.method == "template" and not able.may_make_databases:
            hint = 'grant it CREATEDB, or set method = "reload"'
            yield document.problem(("reset", "method"), f"{role} create databases", hint)
        if able.is_standby:
            yield from _check_standby(plan, name, document, folder)


def _check_pooled(plan: Plan, name: str, able: Abilities, document: Document) -> Iterator[Problem]:
    """Yield what the clients of the load would leave in sessions that other clients get after them."""
    where = f"through the pooler of target {name}, {able.pooler}"
    if plan.workload.replays:
        message = f"is not possible {where}: captured sessions leave settings there"
        yield document.problem(("workload", "replay"), message, "replay it at the server itself")
    if not able.may_prepare:
        yield from _prepared(where, plan.workload, plan.points(), document)
    if any(plan.session_settings(name, point) for point in plan.points()):
        message = f"are not possible {where}: they would stay in its sessions, or not reach them"
        yield document.problem(("target", name, SESSION), message, "set them for the role or the database")


def check_poolers(plan: Sections) -> Iterator[Problem]:
    """Yield loads that the machine's PgBouncer, in front of a server of pgdyno's own, is too old for."""
    if plan.workload is None or plan.space is None or plan.value_at(("group",)):
        return
    for name, target in plan.targets.items():
        pooler = target.pooler if isinstance(target, OwnTarget) else None
        path = find_pgbouncer() if pooler is not None and pooler.kind == PGBOUNCER else None
        version = pgbouncer_version(path) if path is not None else None
        if pooler is not None and version is not None and not pooler.may_prepare(version):
            where = f"through the pooler of target {name}, {version}"
            yield from _prepared(where, plan.workload, plan.points, plan.document)


def _prepared(where: str, workload: Workload, points: Iterable[Point], document: Document) -> Iterator[Problem]:
    path: KeyPath = ("sweep", "protocol")
    message = f"prepared statements are not possible {where}, which gives them to other clients"
    remedy = 'set protocol = "extended" or "simple"'
    if workload.prepares:
        path, remedy = ("workload",), "use PgBouncer 1.21 or later with max_prepared_statements, or no pooler"
    if workload.prepares or any(point.protocol == "prepared" for point in points):
        yield document.problem(path, message, remedy)


def _check_standby(plan: Plan, name: str, document: Document, folder: Path) -> Iterator[Problem]:
    workload, reset, target = plan.workload, plan.reset, plan.target[name]
    why = f"target {name} is a standby, which accepts no writes"
    if workload.dataset != "none":
        hint = 'measure its own tables with scripts and dataset = "none", or name the primary'
        yield document.problem(("workload", "dataset"), f"cannot be loaded: {why}", hint)
    elif effect_of_plan(plan, folder) is Effect.WRITES:
        yield document.problem(("workload", "scripts"), f"write: {why}", "name the primary, or scripts that only read")
    if reset.analyze:
        yield document.problem(("reset", "analyze"), f"is not possible: {why}", "remove it")
    if reset.prewarm == "pg_prewarm":
        yield document.problem(("reset", "prewarm"), f"is not possible: {why}", 'set prewarm = "read", or remove it')
    if isinstance(target, NetworkTarget) and target.settings:
        hint = per_session(f"target.{name}", next(iter(target.settings)))
        yield document.problem(("target", name, "settings"), f"cannot be set: {why}", hint)


def check_generators(plan: Sections) -> Iterator[Problem]:
    """Yield problems of several generators, and of rented ones."""
    if plan.value_at(("generators",)) and plan.value_at(("generator",)) not in (None, "here"):
        message = "are not possible: rented generators cannot be combined with others"
        yield plan.problem(("generators",), message, 'set generator = "here", or leave generators out')
    if plan.generator is not None:
        yield from plan.generator.check(plan.targets, plan.document)
