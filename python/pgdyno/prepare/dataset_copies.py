"""Copies of a dataset to restore from: template databases, and snapshots of the whole cluster.

`CREATE DATABASE … TEMPLATE pgdyno_template` copies a database; there is one template for each dataset of a sweep. The
first is called `pgdyno_template`, others `pgdyno_template_2` and so on, and their dataset stamps say what they hold.
Templates are kept while there is disk space for the next dataset; over the network, where free space is unknown, only
one is kept.
"""

import itertools
import re
import shutil
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import sql

from pgdyno.errors import TargetError
from pgdyno.plan.model import Reset
from pgdyno.plan.optional_sections import SnapshotMethod
from pgdyno.plan.time_budget.time_and_disk import BYTES_A_SCALE
from pgdyno.prepare.dataset import Dataset, read_comment, read_stamp, write_comment
from pgdyno.prepare.timed_steps import Steps
from pgdyno.targets import Server
from pgdyno.targets.cluster.snapshots.cluster_copy import check_room
from pgdyno.targets.home import target_errors
from pgdyno.units import format_bytes

SPARE_BYTES = 4 << 30
"""Disk space to keep free beyond templates, for WAL and rows of trials."""


def template_of(server: Server) -> str:
    """Return the name of the first template, which accepts no connections and so stays unchanged."""
    return f"{server.dbname}_template"


def find_template(server: Server, dataset: Dataset) -> str | None:
    """Return the name of a complete template of `dataset`, or None; the stamp is written last."""
    return next((name for name, holds in _templates(server).items() if holds == dataset), None)


def make_room(server: Server, dataset: Dataset, keep_free_bytes: int) -> str | None:
    """Drop templates of other datasets unless `dataset` and its template fit on the disk; return a description.

    Keeps `keep_free_bytes` unused. Raises TargetError, psycopg.Error.
    """
    others = [name for name, holds in _templates(server).items() if holds is not None]
    if server.machine is None or not others:
        # over the network, the existing template is replaced
        return None
    folder = server.machine.data_directory
    expected = round(BYTES_A_SCALE * dataset.pgbench_scale)
    with target_errors(folder, "cannot look at"):
        free = shutil.disk_usage(folder).free
    if free - 2 * expected >= SPARE_BYTES + keep_free_bytes:
        return None
    with server.connect(server.maintenance) as connection:
        for name in others:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(name)))
    return f"dropped {', '.join(others)}: {format_bytes(free)} were free"


def make_template(server: Server, reset: Reset) -> str:
    """Create a template of the current workload database and keep those of other datasets; return its size in words.

    Raises TargetError, with sizes if space is short; psycopg.Error.
    """
    comment = read_comment(server)
    template = _name_for(server)
    _check_template(server, template)
    with server.connect(server.maintenance) as connection:
        row = connection.execute("SELECT pg_database_size(%s)", [server.dbname]).fetchone()
        assert row is not None
        size = int(row[0])
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(template)))
        if server.machine is not None:
            check_room(server.machine.data_directory, size, f"create the database {template}")
        end_sessions(server)
        _copy_database(connection, server.dbname, template, reset, allow_connections=False)
    write_comment(server, comment, template)
    return format_bytes(size)


def copy_template(server: Server, template: str, reset: Reset) -> str:
    """Replace the workload's database by a copy of `template`; return a description.

    Raises TargetError, psycopg.Error.
    """
    comment = read_comment(server, template)
    end_sessions(server)
    with server.connect(server.maintenance) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(server.dbname)))
        _copy_database(connection, template, server.dbname, reset, allow_connections=True)
    server.database_made()
    write_comment(server, comment)
    return ", ".join(each for each in (reset.strategy, reset.file_copy_method) if each) or "the server's own strategy"


def _templates(server: Server) -> Mapping[str, Dataset | None]:
    """Return databases with names of templates and their datasets; None for incomplete or foreign ones."""
    first = template_of(server)
    ours = re.compile(rf"{re.escape(first)}(_[0-9]+)?")
    with server.connect(server.maintenance) as connection:
        rows = connection.execute(
            "SELECT datname, shobj_description(oid, 'pg_database') FROM pg_database WHERE strpos(datname, %s) = 1"
            " ORDER BY length(datname), datname",
            [first],
        ).fetchall()
    stamps = {name: read_stamp(comment) for name, comment in rows if ours.fullmatch(name)}
    return {name: stamp.dataset if stamp is not None else None for name, stamp in stamps.items()}


def _name_for(server: Server) -> str:
    first = template_of(server)
    if server.machine is None:
        return first
    taken = _templates(server)
    names = itertools.chain([first], (f"{first}_{number}" for number in itertools.count(2)))
    return next(name for name in names if taken.get(name) is None)


def _check_template(server: Server, template: str) -> None:
    """Raise TargetError if a database called `template` exists that pgdyno may not have created."""
    if server.machine is not None:
        return
    with server.connect(server.maintenance) as connection:
        row = connection.execute(
            "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s", [template]
        ).fetchone()
    if row is not None and read_stamp(row[0]) is None:
        raise TargetError(
            f"cannot create the database {template}: one without a dataset stamp exists",
            hint="drop it if it is not needed, or use another database for the target",
        )


def _copy_database(
    connection: psycopg.Connection[tuple[Any, ...]], source: str, to: str, reset: Reset, *, allow_connections: bool
) -> None:
    if reset.file_copy_method is not None:
        connection.execute("SELECT set_config('file_copy_method', %s, false)", [reset.file_copy_method])
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} ALLOW_CONNECTIONS {}").format(
        sql.Identifier(to), sql.Identifier(source), sql.Literal(allow_connections)
    )
    if reset.strategy is not None:
        statement += sql.SQL(" STRATEGY {}").format(sql.Identifier(reset.strategy))
    connection.execute(statement)


def end_sessions(server: Server) -> None:
    """End all sessions in the workload's database. Raises TargetError, psycopg.Error."""
    with server.connect(server.maintenance) as connection:
        connection.execute(
            # only a superuser may end autovacuum workers, which have no user; DROP and CREATE DATABASE end them
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = %s AND pid <> pg_backend_pid() AND usesysid IS NOT NULL",
            [server.dbname],
        )


def holds_snapshot(server: Server, dataset: Dataset, wanted: SnapshotMethod | None) -> bool:
    """Tells whether a complete copy of the cluster with `dataset` exists, made by the `wanted` method, if any."""
    record = server.copy.read()
    if record is None or wanted not in (None, record.method):
        return False
    stamp = read_stamp(record.mark)
    return stamp is not None and stamp.dataset == dataset


def make_snapshot(server: Server, wanted: SnapshotMethod | None, steps: Steps) -> None:
    """Stop the server, copy its data directory, and start it. Raises TargetError, with sizes if space is short."""
    stamp = read_comment(server) or ""
    steps.do("stop", "stopping the server", server.stop)
    try:
        steps.do("copy", "copying the cluster", lambda: server.copy.create(stamp, wanted))
    finally:
        steps.do("start", "starting the server", server.start)


def restore_snapshot(server: Server, steps: Steps) -> None:
    """Stop the server, replace its data directory by the copy, and start it. Raises TargetError."""
    steps.do("stop", "stopping the server", server.stop)
    steps.do("restore", "restoring the cluster", server.copy.restore)
    steps.do("start", "starting the server", lambda: _start_again(server))


def _start_again(server: Server) -> None:
    server.start()
    # the copy may have the password of an earlier run
    server.prepare(set_password=True)
