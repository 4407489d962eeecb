"""A running server, as the rest of pgdyno sees it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import psycopg
from psycopg import sql

from pgdyno.errors import TargetError
from pgdyno.plan.targets import DATABASE
from pgdyno.records import ServerFacts
from pgdyno.targets.cluster.log import log_size
from pgdyno.targets.cluster.settings import Configured, configure, set_settings
from pgdyno.targets.cluster.snapshots import ClusterCopy
from pgdyno.targets.connection import Address
from pgdyno.targets.response_limits import Look, Quiet

if TYPE_CHECKING:
    from pgdyno.targets.cluster.standbys import ReplicaSet


DRAWN = ("port", "unix_socket_directories")
"""Settings that pgdyno draws anew for every server: they tell nothing and would make all servers differ."""

_CHANGED = """
    SELECT name, pg_catalog.current_setting(name)
    FROM pg_catalog.pg_settings
    WHERE source OPERATOR(pg_catalog.<>) ALL ('{default,override,client,session}'::pg_catalog.text[])
      AND name OPERATOR(pg_catalog.<>) ALL (%s::pg_catalog.text[])
"""
"""All names are the server's own: the session has the search path of the role, which may hold others.

Sources client and session are those of the asking connection, not of the server."""


def read_facts(connection: psycopg.Connection[tuple[Any, ...]]) -> ServerFacts:
    """Version, changed settings, checksums and size. Settings are as SHOW prints them: "128MB".

    Size is that of all databases that the role may connect to, without WAL. Raises psycopg.Error.
    """
    changed: dict[str, str] = dict(sorted(connection.execute(_CHANGED, [list(DRAWN)]).fetchall()))
    row = connection.execute(
        "SELECT pg_catalog.current_setting('server_version'), pg_catalog.version(),"
        " pg_catalog.current_setting('data_checksums'), (SELECT pg_catalog.sum(pg_catalog.pg_database_size(oid))"
        " FROM pg_catalog.pg_database WHERE pg_catalog.has_database_privilege(oid, 'CONNECT'))"
    ).fetchone()
    assert row is not None  # no FROM: always one row
    version, version_full, checksums, size = row
    return ServerFacts(
        # distributions write their own behind it: "15.5 (Debian 15.5-0+deb12u1)"
        version=version.split()[0],
        version_full=version_full,
        settings_changed=changed,
        data_checksums=checksums == "on",
        cluster_bytes=int(size),
    )


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


@dataclass(frozen=True, slots=True)
class Machine:
    """Files and process of one server. Over the network there is none of it."""

    data_directory: Path
    socket_directory: Path
    log_path: Path
    control: ServerControl = field(repr=False)
    copy: ClusterCopy
    """Where a stopped copy of its data directory lives."""
    replicas: ReplicaSet | None = None
    """Its standbys; None when the plan wants none."""


_T = TypeVar("_T")
MAINTENANCE = "postgres"
"""The database from which others are made, dropped and asked about, unless an address names another."""


@dataclass(slots=True)
class Server:
    """A PostgreSQL that accepts connections until its `open_target` ends.

    What needs its files or its process is there only with a `machine`; over the network it raises TargetError.
    """

    address: Address
    notes: list[str]
    """What a manifest should tell about how it was found."""
    machine: Machine | None
    """None when it is only reached over the network."""
    dbname: str = DATABASE
    maintenance: str = MAINTENANCE
    settings: Mapping[str, str] = field(default_factory=dict)
    """Those that belong to the workload's database, which must get them again when it is made anew."""
    owns_database: bool = True
    """Whether pgdyno made the workload's database; another's settings are not changed."""
    primary_port: int | None = None
    """Where the primary was before a replica took over; None unless one has."""

    # ---- how it is reached ----

    @property
    def host(self) -> str:
        """Folder of the socket, or a name or address; several are separated by commas."""
        return self.address.parameters.get("host", "")

    @property
    def port(self) -> int:
        """The first of its ports."""
        return int(self.address.parameters.get("port", "5432").partition(",")[0] or 5432)

    @property
    def user(self) -> str:
        """The role of every session."""
        return self.address.parameters.get("user", "")

    @property
    def password(self) -> str | None:
        """None when libpq finds it itself, or there is none."""
        return self.address.password

    def environment(self) -> dict[str, str]:
        """Variables with which libpq programs and pgdrive find it."""
        return self.address.environment(self.dbname)

    def connect(self, dbname: str | None = None) -> psycopg.Connection[tuple[Any, ...]]:
        """A new connection in autocommit mode. Raises TargetError."""
        return self.address.connect(dbname or self.dbname)

    def quiet(self) -> Quiet:
        """Of a load, whose clients may rest: looks whether the server answers when nothing is heard for long."""
        return Quiet(lambda: self._look_at_all().if_answered())

    def quiet_at_work(self) -> Quiet:
        """Likewise, of a program that has the server work all the time."""
        return Quiet(self._look_at_all)

    def _look_at_all(self) -> Look:
        return self.address.look(self.dbname, None)

    def read_as_is(self, read: Callable[[psycopg.Connection[tuple[Any, ...]]], _T]) -> _T:
        """What `read` finds in a session with all settings that those of the load have, as far as they let it.

        Where a time limit cuts it off, it is read without. Raises TargetError, psycopg.Error.
        """
        try:
            with self.address.connect(self.dbname, as_is=True) as connection:
                return read(connection)
        except (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable):
            with self.connect() as connection:
                return read(connection)

    def database_made(self) -> None:
        """Gives the workload's database, which was made just now, its settings. Raises TargetError, psycopg.Error."""
        if self.settings:
            with self.connect(self.maintenance) as connection:
                set_settings(connection, self.dbname, self.settings)

    @property
    def plan_settings(self) -> Mapping[str, str]:
        """Settings of the plan that it has now."""
        return self.settings if self.machine is None else self.machine.control.settings

    def configure(self, settings: Mapping[str, str]) -> Configured | None:
        """Makes `settings` those of the plan; see `configure.configure`. Raises TargetError."""
        return configure(self, settings)

    def facts(self) -> ServerFacts:
        """Version, settings and size as they are now. Raises TargetError."""
        return self.read_as_is(read_facts)

    # ---- what only a machine has ----

    def own(self, doing: str) -> Machine:
        """Its machine. Raises TargetError when it has none, so that `doing` ("restart the server") is not possible."""
        if self.machine is None:
            raise TargetError(f"cannot {doing}: the server is only reached over the network")
        return self.machine

    @property
    def data_directory(self) -> Path:
        """Its cluster. Raises TargetError."""
        return self.own("look at the data directory").data_directory

    @property
    def socket_directory(self) -> Path:
        """The folder of its socket. Raises TargetError."""
        return self.own("use the server's socket").socket_directory

    @property
    def log_path(self) -> Path:
        """Its log. Raises TargetError."""
        return self.own("read the server's log").log_path

    @property
    def copy(self) -> ClusterCopy:
        """Where a stopped copy of its data directory lives. Raises TargetError."""
        return self.own("copy the data directory").copy

    def log_size(self) -> int:
        """Bytes in the log so far; 0 without a log."""
        return 0 if self.machine is None else log_size(self.machine.log_path)

    def alive(self) -> bool:
        """False after a crash of its process. Over the network always True: connecting will tell."""
        if self.machine is None:
            return True
        if self.promoted:
            return self.machine.replicas is not None and self.machine.replicas.is_promoted_alive()
        return self.machine.control.is_alive()

    def restart(self) -> None:
        """Stops and starts it again; settings and data stay, `port` may change. Raises TargetError."""
        self._listens_at(self.own("restart the server").control.restart(self.port))

    def stop(self) -> None:
        """Shuts it down with a checkpoint, until `start`. Raises TargetError."""
        self.own("stop the server").control.stop()

    def start(self) -> None:
        """Starts it after `stop`; `port` may change. Raises TargetError."""
        self._listens_at(self.own("start the server").control.start(self.port))

    def _listens_at(self, port: int) -> None:
        self.address.parameters["port"] = str(port)

    # ---- its standbys ----

    @property
    def has_replicas(self) -> bool:
        """Whether the plan wants some."""
        return self.machine is not None and self.machine.replicas is not None

    def make_replicas(self) -> str:
        """Makes its standbys of what it holds now, or has those that are there follow. How, in words.

        Raises TargetError, psycopg.Error.
        """
        machine = self.own("make replicas")
        assert machine.replicas is not None
        made = machine.replicas.make(self, machine.control.settings)
        if made is None:
            return "they were there"
        if machine.replicas.primary_settings():
            # commits wait for them only now: until they stream, they would wait for ever
            machine.control.write_settings(machine.control.settings, self.port)
            with self.connect() as connection:
                connection.execute("SELECT pg_reload_conf()")
                machine.replicas.wait_synchronous(connection)
        return made

    def wait_for_replicas(self) -> str:
        """Returns when they show all that it has committed. How far they were behind. Raises TargetError."""
        machine = self.own("wait for replicas")
        assert machine.replicas is not None
        return machine.replicas.wait(self)

    def replica_environments(self) -> list[dict[str, str]]:
        """Variables with which libpq programs and pgdrive find each standby; none before they were made."""
        if self.machine is None or self.machine.replicas is None:
            return []
        return self.machine.replicas.environments(self.dbname)

    def replica_names(self) -> list[str]:
        """How pg_stat_replication calls each standby, in the order of `replica_environments`."""
        if self.machine is None or self.machine.replicas is None:
            return []
        return self.machine.replicas.names

    def replica_directories(self) -> list[Path]:
        """Their data directories; none over the network, and before they were made."""
        if self.machine is None or self.machine.replicas is None:
            return []
        return self.machine.replicas.data_directories

    def failover_environment(self) -> dict[str, str]:
        """Variables with which clients find whichever takes writes: the primary, or the replica that takes over."""
        addresses = [self.address.parameters, *(each.parameters for each in self.replica_addresses()[:1])]
        together = {name: ",".join(each[name] for each in addresses) for name in ("host", "port")}
        parameters = {**self.address.parameters, **together, "target_session_attrs": "read-write"}
        return Address(parameters, self.password).environment(self.dbname)

    def replica_addresses(self) -> list[Address]:
        """How each standby is reached; none before they were made."""
        if self.machine is None or self.machine.replicas is None:
            return []
        return self.machine.replicas.addresses()

    def followers(self) -> ReplicaSet:
        """Its replicas, of which one can take over. Raises TargetError when it has none."""
        replicas = self.own("promote a replica").replicas
        if replicas is None:
            raise TargetError("cannot promote a replica: the target has none")
        return replicas

    def promote(self) -> None:
        """Makes its first replica the primary, which is `self` from then on; to be called when the old one is gone.

        Raises TargetError.
        """
        followers = self.followers()
        # a replica may take over although an error is raised: `fail_back` has to give it up in any case
        self.primary_port = self.port
        self._listens_at(followers.promote())

    @property
    def promoted(self) -> bool:
        """Whether a replica has taken over."""
        return self.primary_port is not None

    def fail_back(self) -> None:
        """Gives up the replicas, among them the one that took over, and starts the primary of before.

        It holds what it had when it was lost, not what its follower wrote since. Raises TargetError.
        """
        machine = self.own("go back to the primary")
        assert machine.replicas is not None
        assert self.primary_port is not None
        machine.replicas.discard()
        port, self.primary_port = self.primary_port, None
        self._listens_at(machine.control.restart(port))

    def prepare(self, *, set_password: bool) -> None:
        """Makes the database, and sets the password of a cluster that had another. Raises TargetError."""
        socket = str(self.own("set up the cluster").socket_directory)
        # through the socket: the password of a kept cluster is not known
        with self.address.connect(self.maintenance, host=socket) as connection:
            if set_password:
                assert self.password is not None
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


PRIMARY = "server.log"


@dataclass(frozen=True, slots=True)
class LogParts:
    """Each log, with the byte from which on it is wanted."""

    parts: tuple[tuple[str, Path, int], ...]
    """Its name among what is kept, where it is written, its size so far."""

    @classmethod
    def from_now(cls, server: Server) -> LogParts:
        """Of the server and its standbys; of none that is only reached over the network."""
        if server.machine is None:
            return cls(())
        logs = {PRIMARY: server.machine.log_path}
        if server.machine.replicas is not None:
            for place, path in enumerate(server.machine.replicas.log_paths, start=1):
                logs[f"replica-{place}.log"] = path
        return cls(tuple((name, path, log_size(path)) for name, path in logs.items()))

    def save(self, folder: Path) -> None:
        """Copies what has come since into `folder`. Raises OSError."""
        for name, path, start in self.parts:
            with path.open("rb") as log, (folder / name).open("wb") as copy:
                log.seek(start)
                shutil.copyfileobj(log, copy)
