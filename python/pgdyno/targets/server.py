"""A running server, as the rest of pgdyno sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import sql

from pgdyno.errors import TargetError
from pgdyno.plan.network_target import DATABASE
from pgdyno.records import ServerFacts
from pgdyno.targets.address import Address
from pgdyno.targets.cluster_copy import ClusterCopy
from pgdyno.targets.configure import Configured, configure
from pgdyno.targets.database_settings import set_settings
from pgdyno.targets.facts import read_facts
from pgdyno.targets.log import log_size
from pgdyno.targets.machine import Machine
from pgdyno.targets.silence import Look, Quiet

if TYPE_CHECKING:
    from pgdyno.targets.replicas import ReplicaSet

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
