"""Base backups for standbys, and the replication lag of standbys.

pg_basebackup copies the running cluster if the installation has it; published builds do not. Otherwise pgdyno follows
"Making a Base Backup Using the Low Level API" of PostgreSQL's documentation: pg_backup_start, a copy of the files, and
pg_backup_stop, whose label goes into the copy. A replication slot retains the WAL that the copy needs, which then comes
by streaming.
"""

from __future__ import annotations

import os
import shutil
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from pgdyno.errors import TargetError
from pgdyno.records import ReplicaLag
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.cluster.subprocesses import run_program
from pgdyno.targets.connection import MAINTENANCE, Address
from pgdyno.targets.home import storing
from pgdyno.targets.server_user import Account

PROGRAM = "pg_basebackup"
BY_HAND = "the backup functions"
_EMPTIED = {
    "pg_wal",
    "pg_replslot",
    "pg_dynshmem",
    "pg_notify",
    "pg_serial",
    "pg_snapshots",
    "pg_stat_tmp",
    "pg_subtrans",
}
"""Folders whose content the standby recreates or receives by streaming."""
_LEFT_OUT = ("postmaster.pid", "postmaster.opts", "backup_label", "tablespace_map", "pg_internal.init", "pgsql_tmp")
_RENAMED_MAJOR = 15
"""The first version with pg_backup_start; earlier ones call it pg_start_backup."""


def copy_cluster(
    primary: Address, source: Path, installation: Installation, account: Account, to: Path, slot: str, passfile: Path
) -> str:
    """Copy the cluster of `primary`, whose data directory is `source`, to the new folder `to`; return the method in
    words.

    `passfile` is a password file for `account`. Raises TargetError.
    """
    with storing(to, "cannot create the folder"):
        to.mkdir(0o700)
        account.take(to)
    if Path(installation.program(PROGRAM)).is_file():
        _by_program(primary, installation, account, to, slot, passfile)
        return PROGRAM
    _by_functions(primary, source, installation, account, to)
    return BY_HAND


def _by_program(
    primary: Address, installation: Installation, account: Account, to: Path, slot: str, passfile: Path
) -> None:
    where = ["-h", primary.host, "-p", str(primary.port), "-U", primary.parameters["user"], "-w"]
    how = ["-D", str(to), "-X", "stream", "-S", slot, "-c", "fast", "-N"]
    environment = {**installation.environment(), "PGPASSFILE": str(passfile)}
    status, output = run_program([installation.program(PROGRAM), *where, *how], account, environment)
    if status != 0:
        said = output.strip().splitlines()
        raise TargetError(f"cannot copy the cluster: {said[-1] if said else f'{PROGRAM} ended with {status}'}")


def _by_functions(primary: Address, source: Path, installation: Installation, account: Account, to: Path) -> None:
    renamed = installation.major >= _RENAMED_MAJOR
    start, stop = (
        ("SELECT pg_backup_start({}, true)", "SELECT labelfile FROM pg_backup_stop(false)")
        if renamed
        else ("SELECT pg_start_backup({}, true, false)", "SELECT labelfile FROM pg_stop_backup(false, false)")
    )
    # one session for start and end: the backup belongs to it
    with primary.connect(MAINTENANCE) as connection:
        connection.execute(sql.SQL(start).format(sql.Literal("pgdyno")))
        _copy_files(source, to)
        row = connection.execute(sql.SQL(stop)).fetchone()
    assert row is not None
    with storing(to, "cannot write"):
        (to / "backup_label").write_text(row[0], encoding="utf-8")
        _give(to, account)


def _copy_files(source: Path, to: Path) -> None:
    """Copy folders and regular files; skips files that disappear meanwhile, because WAL records their removal."""
    for folder, files in _walk(source):
        target = to / folder.relative_to(source)
        with storing(target, "cannot copy a cluster to"):
            target.mkdir(0o700, exist_ok=True)
            for name in files:
                _copy_file(folder / name, target / name)


def _walk(source: Path) -> Iterator[tuple[Path, list[str]]]:
    for at, folders, files in os.walk(source):
        folder = Path(at)
        links = [name for name in folders if (folder / name).is_symlink()]
        if folder.name == "pg_tblspc" and links:
            raise TargetError(
                f"cannot copy the cluster {source}: it has a tablespace, {folder / links[0]}",
                hint="replicas cannot have it on the same host; drop it",
            )
        if folder == source:
            # a link to a separate WAL folder becomes a folder of the copy
            yield from ((folder / name, []) for name in folders if name in _EMPTIED)
            folders[:] = [name for name in folders if name not in _EMPTIED]
        yield folder, [name for name in files if not name.startswith(_LEFT_OUT)]
        folders[:] = [name for name in folders if not name.startswith("pgsql_tmp")]


def _copy_file(source: Path, to: Path) -> None:
    try:
        # follows no link: the folder belongs to the server's user, and pgdyno may be root
        handle = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    with os.fdopen(handle, "rb") as opened:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return
        with to.open("xb") as copy:
            shutil.copyfileobj(opened, copy, 1 << 20)
    to.chmod(0o600)


def _give(folder: Path, account: Account) -> None:
    for at, _, files in os.walk(folder, topdown=False):
        for name in files:
            account.take(Path(at, name))
        account.take(Path(at))


EVERY_S = 1.0
_END_S = 5.0
"""How long a query that is running may take at the end."""
_QUERY: LiteralString = """
    SELECT application_name, sync_state,
           pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint,
           extract(epoch FROM write_lag)::float8,
           extract(epoch FROM flush_lag)::float8,
           extract(epoch FROM replay_lag)::float8
    FROM pg_stat_replication WHERE application_name = ANY(%s)
"""
_Row = tuple[str, str | None, int | None, float | None, float | None, float | None]


class LagWatch:
    """Queries the replication lag on the primary once a second during the block.

    It tolerates a primary that stops, restarts or is replaced by a standby, and queries it again when it is back.
    """

    def __init__(self, primary: Address, standbys: Sequence[str]) -> None:
        """`standbys` are their names in pg_stat_replication."""
        self._primary = primary
        self._names = list(standbys)
        self._rows: list[_Row] = []
        self._last: Mapping[str, _Row] = {}
        self._over = threading.Event()
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._thread = threading.Thread(target=self._watch, name="replication-lag", daemon=True)

    def __enter__(self) -> LagWatch:
        """Start if there are standbys."""
        if self._names:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(_END_S)

    def lags(self) -> list[ReplicaLag]:
        """Return the lag by standby, in their order. Call it after the block."""
        return [_lag(name, [row for row in self._rows if row[0] == name], self._last.get(name)) for name in self._names]

    def _watch(self) -> None:
        try:
            while not self._over.wait(EVERY_S):
                self._ask()
        finally:
            self._forget()

    def _ask(self) -> None:
        self._last = {}
        try:
            if self._connection is None:
                self._connection = self._primary.connect(MAINTENANCE)
            rows: Sequence[Any] = self._connection.execute(_QUERY, [self._names]).fetchall()
        except (psycopg.Error, TargetError):
            # the primary is down, or a standby has replaced it: there is no lag to record
            self._forget()
            return
        self._rows += rows
        self._last = {row[0]: row for row in rows}

    def _forget(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()


def _lag(name: str, rows: Sequence[_Row], last: _Row | None) -> ReplicaLag:
    def highest(values: Iterable[float | None]) -> float | None:
        return max((value for value in values if value is not None), default=None)

    return ReplicaLag(
        name=name,
        sync_state=rows[-1][1] if rows else None,
        samples=len(rows),
        bytes_last=None if last is None else last[2],
        bytes_max=max((row[2] for row in rows if row[2] is not None), default=None),
        write_lag_max_s=highest(row[3] for row in rows),
        flush_lag_max_s=highest(row[4] for row in rows),
        replay_lag_max_s=highest(row[5] for row in rows),
        replay_lag_last_s=None if last is None else last[5],
    )
