"""The parts of a trial with groups and steps: its loads in order, and the work between them."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, LiteralString

import psycopg

from pgdyno.errors import TargetError
from pgdyno.experiment.run_context import RunContext
from pgdyno.plan import Plan, PlannedTrial
from pgdyno.plan.own_data.psql_reader import Reader
from pgdyno.plan.scenario.groups import GroupSpec
from pgdyno.plan.scenario.loads import group_of
from pgdyno.plan.scenario.steps import StepSpec
from pgdyno.prepare.own_data import run_sql_file
from pgdyno.records import Point, StepRecord
from pgdyno.targets import Server
from pgdyno.units import duration_words

Connection = psycopg.Connection[tuple[Any, ...]]
WAIT_S = 3600.0
"""The longest wait of a step."""
POLL_S = 0.5


def steps_of(plan: Plan, trials: Sequence[PlannedTrial]) -> Iterator[tuple[list[StepSpec], list[PlannedTrial]]]:
    """Yield the loads of a place, each with the steps before it; at last, steps after the last load."""
    if not plan.step:
        yield [], list(trials)
        return
    before: list[StepSpec] = []
    for step in plan.step:
        loads = [trial for trial in trials if trial.point.step == step.name]
        if loads:
            yield before, loads
            before = []
        elif not step.groups:
            before.append(step)
    if before:
        yield before, []


# ---- loads ----


def load_environment(
    plan: Plan, trial: PlannedTrial, server: Server, environment: Mapping[str, str]
) -> Mapping[str, str]:
    """Return `environment` for the server of the trial's group."""
    group = group_of(plan, trial.point)
    return environment if group is None else environment_of_group(group, server, environment)


def environment_of_group(group: GroupSpec, server: Server, environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return `environment` for the server of `group`: the primary, its pooler, or all standbys by turns.

    Raises TargetError.
    """
    if group.on == "primary" and server.path is not None:
        names = {name: environment[name] for name in ("PGAPPNAME",) if name in environment}
        return {**server.clients_environment(directly=True), **names}
    if group.on != "standby":
        return environment
    standbys = server.replica_environments()
    if not standbys:
        raise TargetError(f"the server has no standby for the group {group.name}", hint="look at the target's log")
    of_place = [name for name in ("PGHOST", "PGPORT") if name in standbys[0]]
    places: dict[str, str] = {name: ",".join(each[name] for each in standbys) for name in of_place}
    return {**environment, **standbys[0], **places, "PGLOADBALANCEHOSTS": "random", "PGTARGETSESSIONATTRS": "any"}


# ---- the work between loads ----


def run_step(context: RunContext, server: Server, point: Point, step: StepSpec) -> StepRecord:
    """Do the work of `step` in a trial at `point`. Raises PgdynoError, psycopg.Error."""
    work, does = _work_of(context, point, step)
    with server.connect() as connection:
        connection.autocommit = True
        began, start = time.monotonic(), _wal_position(connection)
        work(connection)
        seconds, end = time.monotonic() - began, _wal_position(connection)
    written = None if start is None or end is None else end - start
    return StepRecord(name=step.name, does=does, seconds=round(seconds, 6), wal_bytes=written)


def _work_of(context: RunContext, point: Point, step: StepSpec) -> tuple[Callable[[Connection], object], str]:
    if step.sql is not None:
        workload, file = context.plan.workload, step.sql
        variables = workload.known_variables | point.variables
        reader = Reader(context.loaded.folder, variables)
        return lambda session: run_sql_file(session, reader, file, f"step {step.name} failed"), "sql"
    if step.do == "vacuum":
        return lambda connection: connection.execute("VACUUM (ANALYZE)"), "vacuum"
    if step.do == "checkpoint":
        return lambda connection: connection.execute("CHECKPOINT"), "checkpoint"
    assert step.wait is not None
    return lambda connection: _wait(connection, step), "wait"


_WAITING: dict[str, LiteralString] = {
    "vacuum": "SELECT count(*) FROM pg_stat_progress_vacuum",
    "replication": "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn < %s::pg_lsn",
    "archive": (
        "SELECT count(*) FROM pg_stat_archiver"
        " WHERE last_archived_wal IS NULL OR last_archived_wal < pg_walfile_name(%s::pg_lsn)"
    ),
}
"""What a step waits for is done when its query counts nothing."""
_POSITIONS: dict[str, LiteralString] = {
    "replication": "SELECT pg_current_wal_lsn()",
    # the last segment is archived only when it is full, or left
    "archive": "SELECT pg_switch_wal()",
}
"""The end of the WAL that a query of `_WAITING` compares with."""
_SAID = {"vacuum": "a vacuum to end", "replication": "the standbys", "archive": "the archive of the WAL"}


def _wait(connection: Connection, step: StepSpec) -> None:
    assert step.wait is not None
    if step.wait == "archive" and connection.execute("SHOW archive_mode").fetchone() == ("off",):
        hint = 'set archive_mode = "on" and archive_command in the settings of the target'
        raise TargetError(f"step {step.name} waits for an archive, and the server has archive_mode = off", hint=hint)
    position = _POSITIONS.get(step.wait)
    row = None if position is None else connection.execute(position).fetchone()
    query, values = _WAITING[step.wait], row or ()
    until = time.monotonic() + WAIT_S
    while (left := connection.execute(query, values).fetchone()) is not None and left[0]:
        if time.monotonic() > until:
            raise TargetError(
                f"step {step.name} waited {duration_words(WAIT_S)} for {_SAID[step.wait]}",
                hint="look at what it waits for, or remove the step",
            )
        time.sleep(POLL_S)


def _wal_position(connection: Connection) -> int | None:
    query = "SELECT CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_insert_lsn() - '0/0'::pg_lsn END::bigint"
    row = connection.execute(query).fetchone()
    return None if row is None else row[0]
