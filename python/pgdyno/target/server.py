"""A running server, as the rest of pgdyno sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgdyno.errors import TargetError
from pgdyno.records import ServerFacts
from pgdyno.target.cluster_copy import ClusterCopy
from pgdyno.target.configure import Configured, configure
from pgdyno.target.facts import read_facts
from pgdyno.target.log import log_size

DATABASE = "pgdyno"
"""Where workloads live."""

CONNECT_TIMEOUT_S = 30


class ServerControl(Protocol):
    """Who can ask for the process, stop it and start it."""

    def is_alive(self) -> bool:
        """True while the process runs."""

    def restart(self, port: int) -> int:
        """Restarts it; the port that it has then."""

    def stop(self) -> None:
        """Shuts it down; the data directory is then whole by itself."""

    def start(self, port: int) -> int:
        """Starts it after `stop`; the port that it has then."""

    @property
    def settings(self) -> Mapping[str, str]:
        """Settings of the plan that stand in its configuration."""

    def write_settings(self, settings: Mapping[str, str], port: int) -> None:
        """Puts others in their place; they count from the next reload or start."""


@dataclass(slots=True)
class Server:
    """A PostgreSQL that accepts connections until its `open_target` ends."""

    host: str
    """Folder of the socket, or 127.0.0.1."""
    port: int
    user: str
    password: str = field(repr=False)
    data_directory: Path
    socket_directory: Path
    log_path: Path
    notes: list[str]
    """What a manifest should tell about how it was found."""
    control: ServerControl = field(repr=False)
    copy: ClusterCopy
    """Where a stopped copy of its data directory lives."""
    dbname: str = DATABASE

    def conninfo(self) -> str:
        """libpq connection string, without the password: that goes by `environment`."""
        return make_conninfo(host=self.host, port=self.port, user=self.user, dbname=self.dbname)

    def environment(self) -> dict[str, str]:
        """Variables with which libpq programs and pgdrive find it."""
        return {
            "PGHOST": self.host,
            "PGPORT": str(self.port),
            "PGUSER": self.user,
            "PGDATABASE": self.dbname,
            "PGPASSWORD": self.password,
        }

    def connect(self, dbname: str | None = None) -> psycopg.Connection[tuple[Any, ...]]:
        """A new connection in autocommit mode. Raises TargetError."""
        return self._connect(make_conninfo(self.conninfo(), dbname=dbname or self.dbname))

    def _connect(self, conninfo: str) -> psycopg.Connection[tuple[Any, ...]]:
        try:
            return psycopg.connect(
                conninfo,
                password=self.password,
                connect_timeout=CONNECT_TIMEOUT_S,
                application_name="pgdyno",
                autocommit=True,
            )
        except psycopg.OperationalError as error:
            raise TargetError(f"cannot connect to {conninfo}: {str(error).strip()}") from error

    def facts(self) -> ServerFacts:
        """Version, settings and size as they are now. Raises TargetError."""
        with self.connect() as connection:
            return read_facts(connection)

    def log_size(self) -> int:
        """Bytes in the log so far: two of them cut out a trial's part."""
        return log_size(self.log_path)

    def alive(self) -> bool:
        """True while the server's process runs; False after a crash."""
        return self.control.is_alive()

    def restart(self) -> None:
        """Stops and starts it again; settings and data stay, `port` may change. Raises TargetError."""
        self.port = self.control.restart(self.port)

    def stop(self) -> None:
        """Shuts it down with a checkpoint, until `start`. Raises TargetError."""
        self.control.stop()

    def start(self) -> None:
        """Starts it after `stop`; `port` may change. Raises TargetError."""
        self.port = self.control.start(self.port)

    def configure(self, settings: Mapping[str, str]) -> Configured | None:
        """Makes `settings` those of the plan; see `configure.configure`. Raises TargetError."""
        return configure(self, settings)

    def promote(self) -> None:
        """Makes a replica the primary. Raises TargetError."""
        raise TargetError("cannot promote a replica: the target has none")

    def prepare(self, *, set_password: bool) -> None:
        """Makes the database, and sets the password of a cluster that had another. Raises TargetError."""
        # through the socket: the password of a kept cluster is not known
        with self._connect(
            make_conninfo(self.conninfo(), host=str(self.socket_directory), dbname="postgres")
        ) as connection:
            if set_password:
                # as a verifier: the password itself never gets into a statement
                verifier = connection.pgconn.encrypt_password(
                    self.password.encode(), self.user.encode(), b"scram-sha-256"
                ).decode()
                connection.execute(
                    sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(self.user), sql.Literal(verifier))
                )
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [self.dbname]).fetchone()
            if known is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self.dbname)))
