"""PgBouncer from Debian in front of a server, and what its clients leave in its sessions."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tests.ports import reserve_port
from tests.postgres.own_servers import OwnServer
from tests.waiting import PATIENCE_S, wait_until

POOL_SIZE = 4
# without a reset, everything that a client leaves is seen, also in session pooling
CONFIGURATION = """\
[databases]
{database} = host=127.0.0.1 port={server.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users
admin_users = admin
pool_mode = {mode}
default_pool_size = {size}
server_reset_query =
server_lifetime = 86400
server_idle_timeout = 86400
logfile = {folder}/log
"""
_STATE = (
    "SELECT name, setting FROM pg_settings",
    "SELECT name, statement FROM pg_prepared_statements",
    "SELECT relname FROM pg_class WHERE relnamespace = pg_my_temp_schema()",
    "SELECT objid::text FROM pg_locks WHERE locktype = 'advisory'",
    "SELECT name FROM pg_cursors WHERE is_holdable",
    "SELECT pg_listening_channels()",
)


@dataclass
class PgBouncer:
    """A pooler of `POOL_SIZE` sessions for each database."""

    server: OwnServer
    mode: str
    folder: Path
    database: str = "postgres"
    port: int = field(init=False)

    def __post_init__(self) -> None:
        self.port = reserve_port(self)

    @property
    def dsn(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"

    def start(self) -> subprocess.Popen[bytes]:
        file = self.folder / "pgbouncer.ini"
        file.write_text(CONFIGURATION.format(**vars(self), size=POOL_SIZE))
        (self.folder / "users").write_text('"postgres" ""\n"admin" ""\n')
        as_nobody: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            for path in (self.folder, *self.folder.iterdir()):
                os.chown(path, nobody.pw_uid, nobody.pw_gid)
            as_nobody = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        process = subprocess.Popen(
            ["pgbouncer", "--quiet", file], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **as_nobody
        )
        wait_until(lambda: process.poll() is not None or self._answers())
        assert process.poll() is None, (self.folder / "log").read_text()
        return process

    def _answers(self) -> bool:
        with suppress(psycopg.OperationalError):
            self.ask("SHOW VERSION")
            return True
        return False

    def ask(self, command: str) -> list[dict[str, Any]]:
        with self.console() as console, console.cursor(row_factory=dict_row) as cursor:
            cursor.execute(command.encode())
            return cursor.fetchall() if cursor.description else []

    def console(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(host="127.0.0.1", port=self.port, user="admin", dbname="pgbouncer", autocommit=True)

    def waiting(self) -> int:
        return sum(int(row["cl_waiting"]) for row in self.ask("SHOW POOLS"))

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.ask("PAUSE")
        try:
            yield
        finally:
            self.ask("RESUME")

    def sessions(self) -> dict[int, dict[str, list[tuple[Any, ...]]]]:
        """Returns the state of every session of the pool, by the number of its process."""
        # clients that have just left may still have one
        wait_until(lambda: self._clients() == 0)
        with ExitStack() as stack:
            clients = [stack.enter_context(psycopg.connect(self.dsn, prepare_threshold=None)) for _ in range(POOL_SIZE)]
            # each is in a transaction until all have been asked
            found = {client.execute("SELECT pg_backend_pid()").fetchone(): client for client in clients}
            return {row[0]: _state(client) for row, client in found.items() if row is not None}

    def _clients(self) -> int:
        pools = [row for row in self.ask("SHOW POOLS") if row["database"] != "pgbouncer"]
        return sum(int(row["cl_active"]) + int(row["cl_waiting"]) for row in pools)


def _state(client: psycopg.Connection[tuple[Any, ...]]) -> dict[str, list[tuple[Any, ...]]]:
    return {query: sorted(client.execute(query.encode()).fetchall()) for query in _STATE}


@contextmanager
def pgbouncer(server: OwnServer, mode: str, folder: Path, database: str = "postgres") -> Iterator[PgBouncer]:
    folder.mkdir(mode=0o755)
    pooler = PgBouncer(server, mode, folder, database)
    process = pooler.start()
    try:
        yield pooler
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
        shutil.rmtree(folder)
