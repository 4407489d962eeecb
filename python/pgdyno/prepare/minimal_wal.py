"""Loading without WAL, on servers that pgdyno started itself.

Under `wal_level = minimal` PostgreSQL writes no WAL for a table that the same transaction has created or emptied,
nor for an index that is built: it writes the files, and syncs them before the commit. A load does just that, so the
server is restarted with such settings for its time, and with the plan's afterwards. `fsync` stays as the plan has it:
each file is synced once in either case, and a crash at any moment leaves what PostgreSQL's recovery makes whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from pgdyno.errors import TargetError
from pgdyno.plan.costs import BYTES_A_SCALE, pgbench_scale
from pgdyno.prepare.mark import Dataset
from pgdyno.prepare.steps import Steps
from pgdyno.targets import Server

FROM_BYTES = 500_000_000
"""Size of a dataset from which two restarts take less time than they save."""
FROM_VERSION = 140_000
"""The first whose tables are emptied and filled in one transaction, for only its COPY FREEZE marks pages as visible."""
VARIABLE = "PGDYNO_LOAD_WITH_WAL"
"""Of the environment: with any value but 0, loads run under the plan's own settings."""
SETTINGS = {
    "wal_level": "minimal",
    # PostgreSQL does not start with these and wal_level = minimal
    "max_wal_senders": "0",
    "archive_mode": "off",
    "summarize_wal": "off",
    # the load vacuums and analyses its tables itself
    "autovacuum": "off",
    # the kernel writes while rows still come, so that the sync before the commit finds little left to do
    "backend_flush_after": "2MB",
}


def is_worthwhile(server: Server, dataset: Dataset) -> bool:
    """Whether `dataset` should be loaded into `server` without WAL. Raises TargetError.

    Standbys that are there would miss what is not in the WAL; a plan's are made after the first load.
    """
    if server.machine is None or server.replica_directories() or os.environ.get(VARIABLE, "0") not in ("", "0"):
        return False
    size = BYTES_A_SCALE * pgbench_scale(dataset.name, dataset.scale, dataset.tables or 0)
    if size < FROM_BYTES:
        return False
    with server.connect() as connection:
        return connection.info.server_version >= FROM_VERSION


@contextmanager
def minimal_wal(server: Server, steps: Steps) -> Iterator[None]:
    """Restarts `server` with `SETTINGS` for the block, and with the plan's settings after it.

    Where it does not start with them, the block runs under the plan's settings, and the step says why. A block that
    fails leaves the plan's settings, too, and a server that is down is left down. Raises TargetError, psycopg.Error.
    """
    planned = dict(server.plan_settings)
    steps.do("configure", "restarting the server to load without WAL", lambda: _begin(server, planned))
    try:
        yield
        steps.do("configure", "restarting the server with the plan's settings", lambda: _end(server, planned))
    except Exception:
        # the reason why the load failed counts; a server that does not come up is started by the next trial
        with suppress(TargetError):
            _restore(server, planned)
        raise


def _begin(server: Server, planned: Mapping[str, str]) -> str:
    with server.connect() as connection:
        rows = connection.execute("SELECT name FROM pg_settings WHERE name = ANY(%s)", [list(SETTINGS)]).fetchall()
    known = {name for (name,) in rows}
    try:
        done = server.configure({**planned, **{name: SETTINGS[name] for name in SETTINGS if name in known}})
    except TargetError as error:
        # replication slots, or a library of the plan's, may want more than minimal
        if not server.alive():
            server.restart()
        return f"loading with WAL: {error.message}"
    return "the plan's settings will do" if done is None else done.in_words()


def _end(server: Server, planned: Mapping[str, str]) -> str | None:
    # before the restart: a checkpoint may take its time, and a server that stops may not
    with server.connect() as connection:
        connection.execute("CHECKPOINT")
    done = server.configure(planned)
    return None if done is None else done.in_words()


def _restore(server: Server, planned: Mapping[str, str]) -> None:
    """Brings the plan's settings back; into force where the server runs, else for its next start."""
    server.own("configure the server").control.write_settings(planned, server.port)
    if server.alive():
        server.restart()
