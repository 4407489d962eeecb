"""Servers of a test's own, to be stopped, restarted and cut off as it likes."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from pgdyno.target.installation import Installation

CONFIGURATION = """
listen_addresses = '127.0.0.1'
fsync = off
max_connections = 60
shared_buffers = 16MB
"""
UNHURRIED = """
CREATE OR REPLACE FUNCTION unhurried() RETURNS trigger LANGUAGE plpgsql
AS 'BEGIN PERFORM pg_sleep(0.01); RETURN NEW; END';
DROP TRIGGER IF EXISTS unhurried ON pgbench_history;
CREATE TRIGGER unhurried BEFORE INSERT ON pgbench_history FOR EACH ROW EXECUTE PROCEDURE unhurried();
"""
"""pgbench's transactions that write take 10 ms each: clients without a pause leave the processors to other tests,
and at any instant all of them are in a transaction."""


_templates: dict[Path, Path] = {}


def _template(installation: Installation) -> Path:
    """A cluster as initdb left it: copies of it take a tenth of the time."""
    if installation.bin not in _templates:
        folder = Path(tempfile.mkdtemp(prefix="pgdyno-template-", dir="/tmp"))
        _own(folder)
        data = _templates[installation.bin] = folder / "data"
        _run(installation, "initdb", "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
    return _templates[installation.bin]


def remove_templates() -> None:
    """At the end of all tests."""
    while _templates:
        shutil.rmtree(_templates.popitem()[1].parent)


def _own(folder: Path) -> None:
    """Gives a folder to the user who runs servers."""
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)


def _run(installation: Installation, program: str, *args: str) -> None:
    """Runs one of the server's programs, or `cp`, as a user that a server accepts."""
    as_nobody: dict[str, Any] = {}
    if os.geteuid() == 0:
        as_nobody = {"user": "nobody", "group": "nogroup", "extra_groups": []}
    done = subprocess.run(
        [program if program == "cp" else installation.program(program), *args],
        env=installation.environment(),
        cwd="/",
        stdin=subprocess.DEVNULL,
        # a server keeps what it inherits
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL if program == "pg_ctl" else subprocess.PIPE,
        timeout=120,
        check=False,
        **as_nobody,
    )
    assert done.returncode == 0, (program, args, done.stderr)


@dataclass
class OwnServer:
    """A cluster in a folder that belongs to an unprivileged user."""

    installation: Installation
    folder: Path
    port: int

    @classmethod
    def make(cls, installation: Installation, folder: Path) -> OwnServer:
        """A new cluster, not started; every local user is trusted."""
        folder.mkdir(mode=0o755)
        _own(folder)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server = cls(installation, folder, port)
        _run(installation, "cp", "-a", str(_template(installation)), str(server.data))
        with (server.data / "postgresql.conf").open("a") as file:
            file.write(f"{CONFIGURATION}port = {port}\nunix_socket_directories = '{folder}'\n")
        return server

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def run(self, program: str, *args: str) -> None:
        """Runs one of the server's programs as a user that it accepts."""
        _run(self.installation, program, *args)

    def start(self, within: tuple[str, ...] = ()) -> None:
        """`within` is what it is started by, such as a namespace's `nsenter`; only root has that."""
        if not within:
            self.run("pg_ctl", "-D", str(self.data), "-l", str(self.folder / "log"), "-w", "start")
            return
        as_nobody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        pg_ctl = [self.installation.program("pg_ctl"), "-D", self.data, "-l", self.folder / "log", "-w", "start"]
        subprocess.run(
            [*within, *as_nobody, *map(str, pg_ctl)],
            env=self.installation.environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            # the server keeps what it inherits
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
            timeout=120,
        )

    def stop(self, mode: str = "fast") -> None:
        self.run("pg_ctl", "-D", str(self.data), "-m", mode, "-w", "stop")

    def restart(self, mode: str = "immediate") -> None:
        self.run("pg_ctl", "-D", str(self.data), "-l", str(self.folder / "log"), "-m", mode, "-w", "restart")

    def is_running(self) -> bool:
        return (self.data / "postmaster.pid").exists()

    def environment(self) -> dict[str, str]:
        """Variables with which libpq programs and pgdrive find it, by its socket."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        return {
            **clean,
            "PGHOST": str(self.folder),
            "PGPORT": str(self.port),
            "PGUSER": "postgres",
            "PGDATABASE": "postgres",
        }

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """A new connection in autocommit mode."""
        return psycopg.connect(
            host=str(self.folder), port=self.port, user="postgres", dbname="postgres", autocommit=True
        )

    def value(self, query: str) -> Any:  # noqa: ANN401 - a column of any type
        """The first column of the first row."""
        with self.connect() as connection:
            row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]

    def admits(self, user: str, password: str) -> bool:
        """Whether that user gets a session over TCP."""
        try:
            psycopg.connect(host="127.0.0.1", port=self.port, user=user, password=password, dbname="postgres").close()
        except psycopg.OperationalError:
            return False
        return True
