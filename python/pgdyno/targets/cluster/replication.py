"""Base backups for standbys.

pgdyno follows "Making a Base Backup Using the Low Level API" of PostgreSQL's documentation: pg_backup_start, a copy of
the files, and pg_backup_stop, whose label goes into the copy. Published builds lack pg_basebackup. A replication slot
retains the WAL that the copy needs, which then comes by streaming.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from psycopg import sql

from pgdyno.errors import TargetError
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.connection import MAINTENANCE, Address
from pgdyno.targets.home import target_errors
from pgdyno.targets.server_user import Account

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


def copy_cluster(primary: Address, source: Path, installation: Installation, account: Account, to: Path) -> None:
    """Copy the cluster of `primary`, whose data directory is `source`, to the new folder `to`. Raises TargetError."""
    with target_errors(to, "cannot create the folder"):
        to.mkdir(0o700)
        account.take(to)
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
    with target_errors(to, "cannot write"):
        (to / "backup_label").write_text(row[0], encoding="utf-8")
        for at, _, files in os.walk(to, topdown=False):
            for name in files:
                account.take(Path(at, name))
            account.take(Path(at))


def _copy_files(source: Path, to: Path) -> None:
    """Copy folders and regular files; skips files that disappear meanwhile, because WAL records their removal."""
    for folder, files in _walk(source):
        target = to / folder.relative_to(source)
        with target_errors(target, "cannot copy a cluster to"):
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
