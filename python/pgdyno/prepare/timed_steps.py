"""The timed steps before a trial: loading without WAL, vacuum, resetting statistics.

Under `wal_level = minimal` PostgreSQL writes no WAL for a table that the same transaction has created or emptied, nor
for an index build: it writes the files and syncs them before the commit. pgdyno therefore restarts its own servers with
such settings for a load, and afterwards with the plan's. `fsync` stays as the plan has it: each file is synced once in
either case, and PostgreSQL's recovery repairs what a crash leaves at any moment.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TypeVar

from pgdyno.errors import TargetError
from pgdyno.plan.time_budget.time_and_disk import BYTES_A_SCALE
from pgdyno.prepare.dataset import Dataset
from pgdyno.records import PrepareStep
from pgdyno.targets import Progress, Server
from pgdyno.targets.cluster.reconfigure import reconfigure

T = TypeVar("T")


class Steps:
    """Runs steps in turn: shows, times and records each."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.done: list[PrepareStep] = []

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.done)

    def do(self, name: str, shown: str, work: Callable[[], str | None]) -> None:
        """Run `work`, which may return a detail for the record; the progress shows `shown`."""
        self._progress.step(shown)
        started = time.monotonic()
        detail = work()
        self.note(name, time.monotonic() - started, detail)

    def note(self, name: str, seconds: float, detail: str | None = None) -> None:
        """Record a step that was done elsewhere."""
        self.done.append(PrepareStep(name=name, seconds=round(seconds, 6), detail=detail))


FROM_BYTES = 500_000_000
"""The size of a dataset from which the restarts take less time than they save."""
FROM_VERSION = 140_000
"""The first version for which the engine empties and fills a table in one transaction.

COPY FREEZE of earlier versions does not mark pages as visible.
"""
VARIABLE = "PGDYNO_LOAD_WITH_WAL"
"""Environment variable: any value but 0 makes loads use the plan's own settings."""
SETTINGS = {
    "wal_level": "minimal",
    # PostgreSQL refuses to start with these and wal_level = minimal
    "max_wal_senders": "0",
    "archive_mode": "off",
    "summarize_wal": "off",
    # the load itself vacuums and analyses its tables
    "autovacuum": "off",
    # the kernel writes back early, so that little remains for the sync before the commit
    "backend_flush_after": "2MB",
}


def is_worthwhile(server: Server, dataset: Dataset) -> bool:
    """Tells whether to load `dataset` into `server` without WAL. Raises TargetError.

    Existing standbys would miss the data; a plan's standbys are created after the first load.
    """
    if server.machine is None or server.replica_directories() or os.environ.get(VARIABLE, "0") not in ("", "0"):
        return False
    size = BYTES_A_SCALE * dataset.pgbench_scale
    if size < FROM_BYTES:
        return False
    with server.connect() as connection:
        return connection.info.server_version >= FROM_VERSION


@contextmanager
def minimal_wal(server: Server, steps: Steps) -> Iterator[None]:
    """Restarts `server` with `SETTINGS` for the block, and with the plan's settings after it.

    If the server does not start with them, the block runs under the plan's settings, and the step records why. A
    failing block also restores the plan's settings; a stopped server stays stopped. Raises TargetError, psycopg.Error.
    """
    planned = dict(server.plan_settings)
    steps.do("configure", "restarting the server to load without WAL", lambda: _begin(server, planned))
    try:
        yield
        steps.do("configure", "restarting the server with the plan's settings", lambda: _end(server, planned))
    except Exception:
        # the load's own error matters; the next trial starts a server that did not come up
        with suppress(TargetError):
            server.own_instance("configure the server").write_settings(planned, server.port)
            if server.alive():
                server.restart()
        raise


def _begin(server: Server, planned: Mapping[str, str]) -> str:
    with server.connect() as connection:
        rows = connection.execute("SELECT name FROM pg_settings WHERE name = ANY(%s)", [list(SETTINGS)]).fetchall()
    known = {name for (name,) in rows}
    try:
        done = reconfigure(server, {**planned, **{name: SETTINGS[name] for name in SETTINGS if name in known}})
    except TargetError as error:
        # replication slots or a library of the plan may need more than minimal
        if not server.alive():
            server.restart()
        return f"loading with WAL: {error.message}"
    return "using the plan's settings" if done is None else done.in_words()


def _end(server: Server, planned: Mapping[str, str]) -> str | None:
    # before the restart: unlike the stop of a server, a checkpoint has no time limit
    with server.connect() as connection:
        connection.execute("CHECKPOINT")
    done = reconfigure(server, planned)
    return None if done is None else done.in_words()


ALL_AT_ONCE_VERSION = 170000
"""The first version whose pg_stat_reset_shared() resets all of them."""
_SHARED = (("bgwriter", 0), ("archiver", 0), ("wal", 140000), ("recovery_prefetch", 150000), ("io", 160000))
"""Arguments of pg_stat_reset_shared before that, with the first version (server_version_num) of each."""
_SLRU_VERSION = 130000


def reset_statistics(server: Server) -> str:
    """Call pg_stat_reset in the workload's database, and resets all shared statistics; return their names.

    Raises TargetError, psycopg.Error.
    """
    with server.connect() as connection:
        version = connection.info.server_version
        connection.execute("SELECT pg_stat_reset()")
        if version >= ALL_AT_ONCE_VERSION:
            connection.execute("SELECT pg_stat_reset_shared()")
            return "database, all shared"
        names = [name for name, first in _SHARED if version >= first]
        for name in names:
            connection.execute("SELECT pg_stat_reset_shared(%s)", [name])
        if version >= _SLRU_VERSION:
            connection.execute("SELECT pg_stat_reset_slru(NULL)")
            names.append("slru")
    return f"database, {', '.join(names)}"
