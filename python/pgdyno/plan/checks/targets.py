"""Whether targets can do what a plan asks of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pgdyno.effect import Effect
from pgdyno.errors import Problem
from pgdyno.plan.checks.wrong_settings import check_settings
from pgdyno.plan.known_settings import network_refusal, refusal, session_refusal
from pgdyno.plan.model import Plan, TrialSpec, Workload
from pgdyno.plan.plan_document import Document, KeyPath
from pgdyno.plan.sweeps.points import Space
from pgdyno.plan.sweeps.spec import SESSION
from pgdyno.plan.targets import PGBOUNCER, NetworkTarget, OwnTarget, TargetSpec, find_pgbouncer, pgbouncer_version
from pgdyno.plan.workload import effect_of_plan
from pgdyno.plan.workload_schema import MOST_ROWS, SBTEST
from pgdyno.records import Point


def check_targets(targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
    """Yield everything of `targets` that is impossible, as far as the plan alone shows it."""
    for name, target in targets.items():
        yield from _settings(name, target, document)
        yield from target.check(name, targets, document)


def check_instances(
    targets: Mapping[str, TargetSpec], trial: TrialSpec, document: Document, *, searches: bool
) -> Iterator[Problem]:
    """Yield targets whose instances the repeats of `trial` do not all reach."""
    for name, target in targets.items():
        count = target.instance_count
        if count == 1:
            continue
        if searches:
            message = f"is not possible at target {name}, which has {count} instances: a search measures one server"
            yield document.problem(("search",), message, "search with one instance, then compare with several")
        elif trial.most_repeats < count:
            message = (
                f"{trial.repeats} are fewer than the {count} instances of target {name}: repeats take turns at them"
            )
            yield document.problem(("trial", "repeats"), message, f"use {2 * count} or more, two for each instance")


def _settings(name: str, target: TargetSpec, document: Document) -> Iterator[Problem]:
    for setting in target.settings:
        reason, remedy = refusal(setting), "remove it"
        if isinstance(target, NetworkTarget):
            reason, remedy = reason or network_refusal(setting), target.setting_remedy
            if reason is None and target.allow_existing:
                reason, remedy = (
                    not_of_database(name, target),
                    _PER_SESSION.format(place=f"target.{name}", name=setting),
                )
        if reason is not None:
            yield document.problem(("target", name, "settings", setting), f"cannot be set: {reason}", remedy)
    yield from check_spelling(("target", name, "settings"), target.settings, {}, document)
    yield from check_spelling(("target", name, SESSION), target.session_settings, {}, document)
    yield from check_session(("target", name, SESSION), target.session_settings, target.settings, document)
    for group, settings in (("settings", target.settings), (SESSION, target.session_settings)):
        of_postgresql = target.kind == "embedded"
        yield from check_settings(("target", name, group), settings, document, of_postgresql=of_postgresql)


_PER_SESSION = "write it as {place}.session_settings.{name}, which applies to each connection of the load"


def not_of_database(name: str, target: NetworkTarget) -> str:
    """Return why an existing database of `target`, called `name`, gets no settings."""
    return f"the database {target.database} of target {name} may be another's, and pgdyno does not change its settings"


def swept_remedy(setting: str) -> str:
    """Return the remedy for the setting of a sweep that a database of a target may not get."""
    return _PER_SESSION.format(place="sweep", name=setting)


def check_spelling(
    path: KeyPath, names: Iterable[str], spelled: dict[str, str], document: Document
) -> Iterator[Problem]:
    """Yield names of settings at `path` that differ from earlier ones only in case: the server would use the last.

    `spelled` has the earlier names by their lower case; adds `names` to it.
    """
    for name in names:
        known = spelled.setdefault(name.lower(), name)
        if known != name:
            yield document.problem((*path, name), f"is the same setting as {known}", "write its name in one way")


def check_session(
    path: KeyPath, per_session: Iterable[str], of_server: Iterable[str], document: Document
) -> Iterator[Problem]:
    """Yield names at `path` that no session can have, and those that the server has, too."""
    known = {name.lower() for name in of_server}
    for name in per_session:
        refused = session_refusal(name)
        if refused is not None:
            yield document.problem((*path, name), f"cannot be set for a session: {refused[0]}", refused[1])
        elif name.lower() in known:
            yield document.problem((*path, name), "is also under settings", "remove one of them")


@dataclass(frozen=True, slots=True)
class Abilities:
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
        if reset.checkpoint and not able.may_checkpoint:
            message = f"the role at target {name} may not run CHECKPOINT"
            hint = "grant it pg_checkpoint (PostgreSQL 15 or later), or set checkpoint = false"
            yield document.problem(("reset", "checkpoint"), message, hint)
        for place, step in enumerate(plan.step):
            if step.do == "checkpoint" and not able.may_checkpoint:
                message = f"the role at target {name} may not run CHECKPOINT"
                hint = "grant it pg_checkpoint (PostgreSQL 15 or later), or remove the step"
                yield document.problem(("step", place, "do"), message, hint)
        if reset.statistics and not able.may_reset_statistics:
            message = f"the role at target {name} may not reset statistics"
            yield document.problem(("reset", "statistics"), message, "grant it EXECUTE on pg_stat_reset, or remove it")
        if reset.method == "template" and not able.may_make_databases:
            message = f"the role at target {name} may not create databases"
            yield document.problem(("reset", "method"), message, 'grant it CREATEDB, or set method = "reload"')
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


def check_poolers(
    targets: Mapping[str, TargetSpec], workload: Workload | None, space: Space | None, document: Document
) -> Iterator[Problem]:
    """Yield loads that the machine's PgBouncer, in front of a server of pgdyno's own, is too old for."""
    if workload is None or space is None or document.data.get("group"):
        return
    for name, target in targets.items():
        pooler = target.pooler if isinstance(target, OwnTarget) else None
        path = find_pgbouncer() if pooler is not None and pooler.kind == PGBOUNCER else None
        version = pgbouncer_version(path) if path is not None else None
        if pooler is not None and version is not None and not pooler.may_prepare(version):
            yield from _prepared(f"through the pooler of target {name}, {version}", workload, space.points, document)


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
        hint = _PER_SESSION.format(place=f"target.{name}", name=next(iter(target.settings)))
        yield document.problem(("target", name, "settings"), f"cannot be set: {why}", hint)


KEY, RENTED = "generators", "generator"


def check_generators(document: Document) -> Iterator[Problem]:
    """Yield problems of a plan with several generators."""
    if document.data.get(KEY) and document.data.get(RENTED) not in (None, "here"):
        message, hint = (
            "rented generators cannot be combined with others",
            f'set generator = "here", or leave {KEY} out',
        )
        yield document.problem((KEY,), f"are not possible: {message}", hint)


def check_size(workload: Workload, space: Space | None, document: Document) -> Iterator[Problem]:
    """Yield keys of another dataset, and impossible sizes."""
    given = document.at(("workload",))
    given = given if isinstance(given, dict) else {}
    if workload.dataset == SBTEST:
        if "scale" in given:
            message = "does not apply to sbtest, whose size is tables and table_size"
            yield document.problem(("workload", "scale"), message, "set table_size, the rows of each table")
        if space is not None and any((point.scale or 0) > MOST_ROWS for point in space.points):
            message = f"scale sets the rows of each sbtest table, at most {MOST_ROWS:,}"
            yield document.problem(("sweep", "scale"), message)
        return
    for name in ("tables", "table_size"):
        if name in given:
            message = f'is valid only with dataset = "sbtest", and dataset is {workload.dataset}'
            yield document.problem(("workload", name), message, 'remove it, or set dataset = "sbtest"')
