"""Servers that belong to one test, which may stop and restart them and cut their connections."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psycopg

from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.cluster.postmaster import log_size, read_log
from tests.ports import reserve_port
from tests.scratch import scratch_folder
from tests.waiting import PATIENCE_S

CONFIGURATION = """
listen_addresses = '127.0.0.1'
fsync = off
max_connections = 60
shared_buffers = 16MB
"""
LOGS_STATEMENTS = """
logging_collector = on
log_destination = 'csvlog'
log_min_duration_statement = 0
log_filename = 'postgresql-%Y-%m-%d_%H%M%S.log'
log_rotation_size = 0
"""
"""What `pgdyno capture` needs."""
UNHURRIED = """
CREATE OR REPLACE FUNCTION unhurried() RETURNS trigger LANGUAGE plpgsql
AS 'BEGIN PERFORM pg_sleep(0.01); RETURN NEW; END';
DROP TRIGGER IF EXISTS unhurried ON pgbench_history;
CREATE TRIGGER unhurried BEFORE INSERT ON pgbench_history FOR EACH ROW EXECUTE PROCEDURE unhurried();
"""
"""Writing transactions of pgbench that take 10 ms each: the clients leave the cores to other tests, and at any time all
of them are in a transaction.
"""


_templates: dict[Path, Path] = {}


def _template(installation: Installation) -> Path:
    """Returns a cluster as initdb creates it; a copy takes a tenth of the time."""
    if installation.bin not in _templates:
        folder = scratch_folder()
        _own(folder)
        data = _templates[installation.bin] = folder / "data"
        _run(installation, "initdb", "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
    return _templates[installation.bin]


def copy_cluster(installation: Installation, data: Path) -> None:
    _run(installation, "cp", "-a", str(_template(installation)), str(data))


def remove_templates() -> None:
    """Removes the clusters that tests copy; call it after all tests."""
    while _templates:
        shutil.rmtree(_templates.popitem()[1].parent)


def _own(folder: Path) -> None:
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)


def _run(installation: Installation, program: str, *args: str, within: Sequence[str] = ()) -> None:
    """Runs a program of the server, or `cp`, as a user that PostgreSQL accepts; `within` is a command prefix."""
    as_nobody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.geteuid() == 0 else []
    path = program if program == "cp" else installation.program(program)
    # a file, as a server would keep a pipe open
    with tempfile.TemporaryFile("w+") as words:
        done = subprocess.run(
            [*within, *as_nobody, path, *args],
            env={**installation.environment(), "PGCTLTIMEOUT": str(int(PATIENCE_S))}, cwd="/", stdin=subprocess.DEVNULL,
            stdout=words, stderr=words, timeout=2 * PATIENCE_S, check=False,
        )  # fmt: skip
        words.seek(0)
        assert done.returncode == 0, f"{program} {' '.join(args)} failed: {words.read()}"


@dataclass
class OwnServer:
    """A cluster in a folder that belongs to an unprivileged user."""

    installation: Installation
    folder: Path
    port: int = field(init=False)

    @classmethod
    def make(cls, installation: Installation, folder: Path) -> Self:
        """Creates a cluster without starting it; it trusts every local user."""
        return cls._copied(installation, folder, _template(installation), CONFIGURATION)

    def copy(self, folder: Path) -> Self:
        """Copies this cluster, which must be down; the copy has its settings and a port of its own."""
        return self._copied(self.installation, folder, self.data, "")

    @classmethod
    def _copied(cls, installation: Installation, folder: Path, cluster: Path, configuration: str) -> Self:
        folder.mkdir(mode=0o755)
        _own(folder)
        server = cls(installation, folder)
        _run(installation, "cp", "-a", str(cluster), str(server.data))
        server.configure(f"{configuration}port = {server.port}\nunix_socket_directories = '{folder}'\n")
        return server

    def __post_init__(self) -> None:
        self.port = reserve_port(self)

    def configure(self, lines: str) -> None:
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(lines)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def start(self, within: Sequence[str] = ()) -> None:
        self._control("start", within=within)

    def stop(self, mode: str = "fast") -> None:
        self._control("stop", "-m", mode)

    def restart(self, mode: str = "immediate") -> None:
        self._control("restart", "-m", mode)

    def _control(self, action: str, *args: str, within: Sequence[str] = ()) -> None:
        log = self.folder / "log"
        logged = log_size(log)
        try:
            _run(self.installation, "pg_ctl", "-D", str(self.data), "-l", str(log), "-w", action, *args, within=within)
        except (AssertionError, subprocess.TimeoutExpired) as failed:
            raise AssertionError(f"{failed}\nthe server's log:\n{read_log(log, logged)}") from None

    def is_running(self) -> bool:
        return (self.data / "postmaster.pid").exists()

    def environment(self) -> dict[str, str]:
        """Returns variables with which libpq and pgdrive connect to its socket."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        return {
            **clean, "PGHOST": str(self.folder), "PGPORT": str(self.port), "PGUSER": "postgres",
            "PGDATABASE": "postgres",
        }  # fmt: skip

    def dsn(self, dbname: str = "postgres", user: str = "postgres", host: str = "") -> str:
        """Returns how to connect to its socket, or to `host`."""
        return f"host={host or self.folder} port={self.port} user={user} dbname={dbname}"

    def connect(
        self, dbname: str = "postgres", user: str = "postgres", application: str = ""
    ) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self.dsn(dbname, user), autocommit=True, application_name=application)

    def execute(self, *statements: str, dbname: str = "postgres") -> None:
        with self.connect(dbname) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def rows(self, query: str, dbname: str = "postgres") -> list[tuple[Any, ...]]:
        with self.connect(dbname) as connection:
            return connection.execute(query.encode()).fetchall()

    def value(self, query: str, dbname: str = "postgres") -> Any:  # noqa: ANN401 - a column of any type
        return self.rows(query, dbname)[0][0]

    def admits(self, user: str, password: str) -> bool:
        try:
            psycopg.connect(host="127.0.0.1", port=self.port, user=user, password=password, dbname="postgres").close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def running_server(installation: Installation, configuration: str, *databases: str) -> Iterator[OwnServer]:
    # pytest's own folders are closed to the user that runs servers
    folder = Path(tempfile.mkdtemp(prefix="pgdyno-test-", dir="/tmp"))
    folder.chmod(0o755)
    server = OwnServer.make(installation, folder / "server")
    server.configure(configuration)
    server.start()
    try:
        server.execute(*(f"CREATE DATABASE {database}" for database in databases))
        yield server
    finally:
        if server.is_running():
            server.stop("immediate")
        shutil.rmtree(folder)
