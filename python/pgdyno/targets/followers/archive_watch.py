"""A server's archive during a trial: where finished WAL files go, and how many wait for it.

Between trials the server discards finished files (`plan.targets.DISCARD`), so that no trial waits for those of a load.
"""

from __future__ import annotations

import shlex
import shutil
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from pgdyno.errors import TargetError
from pgdyno.mounts import expand_home
from pgdyno.plan.targets import Archive
from pgdyno.records import ArchiveBacklog
from pgdyno.targets.home import target_errors
from pgdyno.targets.server import Server
from pgdyno.targets.server_user import Account
from pgdyno.units import parse_bytes

EVERY_S = 1.0
_EMPTY_S, _POLL_S, _END_S = 120.0, 0.05, 5.0
_QUERY = """
    SELECT (SELECT count(*) FROM pg_ls_dir('pg_wal/archive_status') AS name WHERE name LIKE '%.ready'),
           archived_count, failed_count, pg_size_bytes(current_setting('wal_segment_size'))
    FROM pg_stat_archiver
"""


class ArchiveWatch:
    """Archives the WAL of `server` as `spec` says during the block, and counts the files that wait each second.

    A folder of the plan gets a folder for the files, which is removed after the block.
    """

    def __init__(self, spec: Archive, server: Server, account: Account) -> None:
        self._spec = spec
        self._server = server
        self._account = account
        self._folder: Path | None = None
        self._samples: list[tuple[int, int, int, int]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="archive", daemon=True)

    def __enter__(self) -> ArchiveWatch:
        """Wait until nothing waits for the archive, and begin. Raises TargetError."""
        if self._spec.folder is not None:
            parent = expand_home(self._spec.folder)
            blocked = self._account.blocked_at(parent / "file")
            if blocked is not None:
                raise TargetError(
                    f"the server cannot archive in {parent}: its user {self._account.name} cannot enter {blocked}",
                    hint="name another folder, or change its permissions",
                )
            with target_errors(parent, "cannot archive in"):
                self._folder = Path(tempfile.mkdtemp(prefix="pgdyno-archive-", dir=parent))
                self._account.take(self._folder)
        command = archive_command(self._spec, self._folder)
        try:
            with self._server.connect() as connection:
                end = time.monotonic() + _EMPTY_S
                while self._ask(connection)[0] > 0:
                    if time.monotonic() > end:
                        raise TargetError(f"WAL files still wait for the archive after {_EMPTY_S:.0f} s")
                    time.sleep(_POLL_S)
                self._samples = [self._ask(connection)]
                connection.execute(sql.SQL("ALTER SYSTEM SET archive_command = {}").format(sql.Literal(command)))
                connection.execute("SELECT pg_reload_conf()")
        except psycopg.Error as error:
            raise TargetError(f"cannot archive the server's WAL: {str(error).strip()}") from error
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(_END_S)
        with suppress(TargetError, psycopg.Error), self._server.connect() as connection:
            connection.execute("ALTER SYSTEM RESET archive_command")
            connection.execute("SELECT pg_reload_conf()")
        if self._folder is not None:
            # the archiver may be copying a last file
            shutil.rmtree(self._folder, ignore_errors=True)

    def backlog(self) -> ArchiveBacklog:
        """Return what waited. Call it after the block."""
        first, last = self._samples[0], self._samples[-1]
        return ArchiveBacklog(
            samples=len(self._samples) - 1,
            segment_bytes=first[3],
            archived=last[1] - first[1],
            failed=last[2] - first[2],
            waiting_last=last[0],
            waiting_max=max(each[0] for each in self._samples),
        )

    def _watch(self) -> None:
        while not self._over.wait(EVERY_S):
            # a server that is down archives nothing
            with suppress(TargetError, psycopg.Error), self._server.connect() as connection:
                while True:
                    self._samples.append(self._ask(connection))
                    if self._over.wait(EVERY_S):
                        self._samples.append(self._ask(connection))
                        return

    @staticmethod
    def _ask(connection: psycopg.Connection[Any]) -> tuple[int, int, int, int]:
        row: tuple[int, int, int, int] | None = connection.execute(_QUERY).fetchone()
        assert row is not None
        return row


def archive_command(spec: Archive, folder: Path | None) -> str:
    """Return the server's archive_command, in which %p is the file and %f its name.

    A file takes at least its size divided by the rate.
    """
    if spec.command is not None:
        return spec.command
    to = "cat %p > /dev/null"
    if folder is not None:
        quoted = shlex.quote(str(folder)).replace("%", "%%")
        to = f"test ! -f {quoted}/%f && cp %p {quoted}/%f"
    if spec.rate is None:
        return to
    return f"{to} && sleep \"$(stat -c %%s %p | awk '{{ print $1 / {parse_bytes(spec.rate)} }}')\""
