"""A running server, as the other packages see it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from pgdyno.errors import TargetError
from pgdyno.messages import Message
from pgdyno.plan.targets import DATABASE
from pgdyno.processors import pin
from pgdyno.records import ServerFacts
from pgdyno.targets.cluster.instance import Instance
from pgdyno.targets.cluster.postmaster import CORRECT_SETTINGS, log_size
from pgdyno.targets.cluster.processes import servers_in
from pgdyno.targets.cluster.settings import set_settings
from pgdyno.targets.cluster.snapshots.cluster_copy import ClusterCopy
from pgdyno.targets.cluster.standbys import ReplicaSet
from pgdyno.targets.connection import MAINTENANCE, USE_FILE, Address
from pgdyno.targets.poolers.load_path import LoadPath
from pgdyno.targets.poolers.own_pooler import OwnPooler
from pgdyno.targets.response_limits import Look, Quiet

DRAWN = ("port", "unix_socket_directories")
"""Settings that pgdyno chooses anew for every server: they would make all servers differ."""

_CHANGED = """
    SELECT name, pg_catalog.current_setting(name)
    FROM pg_catalog.pg_settings
    WHERE source OPERATOR(pg_catalog.<>) ALL ('{default,override,client,session}'::pg_catalog.text[])
      AND name OPERATOR(pg_catalog.<>) ALL (%s::pg_catalog.text[])
       OR pg_catalog.lower(name) OPERATOR(pg_catalog.=) ANY (%s::pg_catalog.text[])
"""
"""Changed settings; all names are qualified, because the role's search path may contain others.

The sources client and session belong to the querying connection, not to the server, unless the plan set them.
"""


def read_facts(connection: psycopg.Connection[tuple[Any, ...]], session_settings: Iterable[str] = ()) -> ServerFacts:
    """Read version, changed settings, checksums and size. Settings are as SHOW prints them: "128MB".

    `session_settings` are names that the plan sets for each connection. The size covers all databases that the role may
    connect to, without WAL. Raises psycopg.Error.
    """
    of_plan = [name.lower() for name in session_settings]
    changed: dict[str, str] = dict(sorted(connection.execute(_CHANGED, [list(DRAWN), of_plan]).fetchall()))
    row = connection.execute(
        "SELECT pg_catalog.current_setting('server_version'), pg_catalog.version(),"
        " pg_catalog.current_setting('data_checksums'), (SELECT pg_catalog.sum(pg_catalog.pg_database_size(oid))"
        " FROM pg_catalog.pg_database WHERE pg_catalog.has_database_privilege(oid, 'CONNECT')),"
        " pg_catalog.pg_is_in_recovery(), (SELECT pg_catalog.to_jsonb(d) FROM pg_catalog.pg_database d"
        " WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database())"
    ).fetchone()
    assert row is not None  # no FROM: always one row
    version, version_full, checksums, size, is_standby, database = row
    return ServerFacts(
        # distributions append their own version: "15.5 (Debian 15.5-0+deb12u1)"
        version=version.split()[0],
        version_full=version_full,
        settings_changed=changed,
        data_checksums=checksums == "on",
        cluster_bytes=int(size),
        is_standby=is_standby,
        collation=_collation(database),
    )


def read_identity(connection: psycopg.Connection[tuple[Any, ...]]) -> dict[str, str]:
    """Return what tells a server and the load's sessions on it from others. Raises psycopg.Error."""
    row = connection.execute(
        "SELECT pg_catalog.current_database(), current_user, pg_catalog.pg_is_in_recovery(),"
        " (SELECT ssl FROM pg_catalog.pg_stat_ssl WHERE pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid())"
    ).fetchone()
    assert row is not None  # no FROM: always one row
    database, role, is_standby, has_tls = row
    found = {"database": database, "role": role, "state": "standby" if is_standby else "primary"}
    found["tls"] = "on" if has_tls else "off"
    with suppress(psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedFunction):
        system = connection.execute("SELECT system_identifier FROM pg_catalog.pg_control_system()").fetchone()
        found["system"] = str(system[0]) if system is not None else ""
    return found


def _collation(database: Mapping[str, Any]) -> str:
    """Return the collation of a row of pg_database, whose columns differ by version: `en_US.UTF-8 (libc 2.36)`."""
    provider = {"i": "icu", "b": "builtin"}.get(database.get("datlocprovider", "c"), "libc")
    locale = database.get("datlocale") or database.get("daticulocale") or database["datcollate"]
    version = database.get("datcollversion")
    return f"{locale} ({provider}{f' {version}' if version else ''})"


CORRECT_SESSION_SETTINGS = "correct session_settings"


def is_correction(hint: str | None) -> bool:
    """Return whether a remedy changes the plan's settings, which a run that is resumed keeps."""
    return hint is not None and hint.startswith((CORRECT_SESSION_SETTINGS, CORRECT_SETTINGS))


_OF_SESSION = """
    SELECT pg_catalog.lower(name), source FROM pg_catalog.pg_settings
    WHERE pg_catalog.lower(name) OPERATOR(pg_catalog.=) ANY (%s::pg_catalog.text[])
"""


_QUOTED = re.compile(r"([\s\\])")


def session_options(settings: Mapping[str, str]) -> list[str]:
    """Return arguments of libpq's `options`, in which a backslash quotes spaces and backslashes."""
    quoted = {name: _QUOTED.sub(r"\\\1", value) for name, value in settings.items()}
    return [f"-c {name}={value}" for name, value in quoted.items()]


def _server_words(error: TargetError) -> str:
    """Return what the server said, of libpq's message."""
    return str(error.__cause__ or error.message).rpartition("FATAL:")[2].strip()


_T = TypeVar("_T")


@dataclass(slots=True)
class Server:
    """A PostgreSQL that accepts connections until its `open_target` ends.

    Whatever needs its files or its process requires a `machine`; over the network it raises TargetError.
    """

    address: Address
    notes: list[Message]
    """Notes for the manifest about how it was found."""
    machine: Instance | None
    """Its files and its process on this machine; None for a server over the network."""
    dbname: str = DATABASE
    maintenance: str = MAINTENANCE
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the workload's database, which a recreated database must get again."""
    session_settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of each connection of the load; pgdyno's own sessions do not have them."""
    owns_database: bool = True
    """Whether pgdyno created the workload's database; the settings of other databases are not changed."""
    path: LoadPath | None = None
    """The pooler through which the clients of the load connect; None: they connect to the server."""
    primary_port: int | None = None
    """The port of the former primary after a replica was promoted, else None."""
    built: str | None = None
    """What pgdyno built of it: sources, patches and extensions."""

    # ---- connections ----

    @property
    def host(self) -> str:
        return self.address.host

    @property
    def port(self) -> int:
        return self.address.port

    @property
    def user(self) -> str:
        """The role of every session."""
        return self.address.parameters.get("user", "")

    @property
    def password(self) -> str | None:
        """None if libpq finds the password itself, or none is needed."""
        return self.address.password

    def environment(self) -> dict[str, str]:
        """The variables with which libpq programs and pgdrive connect."""
        return self.address.environment(self.dbname)

    def commands_environment(self) -> dict[str, str]:
        """The variables to add to this process's for a command of the user's."""
        found = self.environment()
        # an empty variable of libpq counts as none
        ignored = {"PGPASSWORD": ""} if self.password == USE_FILE else {}
        # it would have precedence over an option -h
        only_host = {"PGHOST": found.get("PGHOST") or found.get("PGHOSTADDR", ""), "PGHOSTADDR": ""}
        return found | ignored | only_host

    def clients_environment(self, *, follows_primary: bool = False, directly: bool = False) -> dict[str, str]:
        """The variables with which the load connects, with its session settings; `directly`: through no pooler.

        With `follows_primary`, clients find the replica that takes over, too.
        """
        if self.path is not None and not directly:
            return self.path.environment()
        environment = self.failover_environment() if follows_primary else self.environment()
        return environment | ({"PGOPTIONS": options} if (options := self._session_options()) else {})

    def _session_options(self, settings: Mapping[str, str] | None = None) -> str:
        of_address = self.address.parameters.get("options", "")
        return " ".join([*([of_address] if of_address else []), *session_options(settings or self.session_settings)])

    def connect(self, dbname: str | None = None) -> psycopg.Connection[tuple[Any, ...]]:
        """Open a connection in autocommit mode. Raises TargetError."""
        return self.address.connect(dbname or self.dbname)

    def quiet(self, *, is_busy: bool = False) -> Quiet:
        """Watch a load, whose clients may be idle, or with `is_busy` a program that never lets the server wait."""

        def look() -> Look:
            found = self.address.look(self.dbname, None)
            return Look.WORKS if found is Look.IDLE and not is_busy else found

        return Quiet(look)

    def read_as_is(self, read: Callable[[psycopg.Connection[tuple[Any, ...]]], _T]) -> _T:
        """Return the result of `read` in a session with the settings that the load's sessions have.

        If a statement or lock timeout cancels it, it runs again without these settings. Raises TargetError,
        psycopg.Error.
        """
        try:
            more = {"options": self._session_options()} if self.session_settings else {}
            with self.address.connect(self.dbname, as_is=True, **more) as connection:
                return read(connection)
        except (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable):
            with self.connect() as connection:
                return read(connection)

    def database_made(self) -> None:
        """Apply the settings to the newly created workload database. Raises TargetError, psycopg.Error."""
        if self.settings:
            with self.connect(self.maintenance) as connection:
                set_settings(connection, self.dbname, self.settings)

    @property
    def plan_settings(self) -> Mapping[str, str]:
        return self.settings if self.machine is None else self.machine.settings

    def facts(self) -> ServerFacts:
        """Read version, settings and size as they are now. Raises TargetError."""
        facts = self.read_as_is(lambda connection: read_facts(connection, self.session_settings))
        pooler = None if self.path is None else self.path.words
        return facts.model_copy(update={"pooler": pooler, "built": self.built})

    def identity(self) -> dict[str, str]:
        """Read what tells the server from others. Raises TargetError."""
        return self.read_as_is(read_identity)

    def check_session(self, settings: Mapping[str, str]) -> None:
        """Open a session with `settings`. Raises TargetError if the server refuses them, or a pooler drops them."""
        self.connect().close()
        try:
            with self.address.connect(self.dbname, as_is=True, options=self._session_options(settings)) as connection:
                rows = connection.execute(_OF_SESSION, [[name.lower() for name in settings]]).fetchall()
        except TargetError as error:
            raise TargetError(self._refusals_text(settings, error), hint=CORRECT_SESSION_SETTINGS) from error
        sources = dict(rows)
        dropped = [name for name in settings if sources.get(name.lower(), "client") != "client"]
        if dropped:
            raise TargetError(
                f"the session settings {', '.join(dropped)} did not reach the server",
                hint="connect to the server directly: a connection pooler drops the parameter options",
            )

    def _refusals_text(self, settings: Mapping[str, str], error: TargetError) -> str:
        """Return every setting that the server refuses, with its reason: it names only the first of several."""
        reasons = {}
        for name, value in settings.items() if len(settings) > 1 else ():
            try:
                self.address.connect(self.dbname, as_is=True, options=self._session_options({name: value})).close()
            except TargetError as refusal:
                reasons[f"{name} = {value}"] = _server_words(refusal)
        listed = ", ".join(f"{name} = {value}" for name, value in settings.items())
        each = reasons or {listed: _server_words(error)}
        return "; ".join(f"cannot set {setting} for a session: {reason}" for setting, reason in each.items())

    # ---- files and process ----

    def own_instance(self, doing: str) -> Instance:
        """Return its files and process. Raises TargetError without: `doing` ("restart the server") is not possible."""
        if self.machine is None:
            raise TargetError(f"cannot {doing}: pgdyno reaches the server only over the network")
        return self.machine

    @property
    def data_directory(self) -> Path:
        """Return its data directory. Raises TargetError."""
        return self.own_instance("look at the data directory").data_directory

    @property
    def socket_directory(self) -> Path:
        """Return the folder of its socket. Raises TargetError."""
        return self.own_instance("use the server's socket").socket_directory

    @property
    def log_path(self) -> Path:
        """Return the path of its log. Raises TargetError."""
        return self.own_instance("read the server's log").log_path

    @property
    def copy(self) -> ClusterCopy:
        """Return the stopped copy of its data directory. Raises TargetError."""
        return self.own_instance("copy the data directory").copy

    def log_size(self) -> int:
        """Return the current size of the log in bytes; 0 without a log."""
        return 0 if self.machine is None else log_size(self.machine.log_path)

    def alive(self) -> bool:
        """Return False after a crash of its process. Always True over the network, where only connecting can tell."""
        if self.machine is None:
            return True
        if self.promoted:
            return self.replicas is not None and self.replicas.is_promoted_alive()
        return self.machine.is_alive()

    def restart(self) -> None:
        """Restarts it; settings and data stay, `port` may change. Raises TargetError."""
        self._listens_at(self.own_instance("restart the server").restart(self.port))

    def stop(self) -> None:
        """Shuts it down with a checkpoint, until `start`. Raises TargetError."""
        self.own_instance("stop the server").stop()

    def start(self) -> None:
        """Start it after `stop`; `port` may change. Raises TargetError."""
        self._listens_at(self.own_instance("start the server").start(self.port))

    def _listens_at(self, port: int) -> None:
        self.address.parameters["port"] = str(port)

    @property
    def pooler(self) -> OwnPooler | None:
        """The pooler that pgdyno starts beside it; None if the plan has none."""
        return None if self.machine is None else self.machine.pooler

    def start_pooler(self) -> None:
        """Start its pooler anew, with an empty pool, if the plan has one. Raises TargetError."""
        if self.pooler is not None:
            self.pooler.start(self.address, self.dbname)
            self.path = self.pooler.path

    def stop_pooler(self) -> None:
        """Stop its pooler with all sessions; does nothing without one. Raises TargetError."""
        if self.pooler is not None:
            self.pooler.stop()

    def pooler_failure(self) -> str | None:
        """Return why its pooler ended by itself; None if it runs, or if pgdyno did not start one."""
        return None if self.pooler is None else self.pooler.failure()

    @contextmanager
    def restrict_processors(self, processors: Collection[int], every: Collection[int]) -> Iterator[None]:
        """Restricts it and its standbys to `processors` of this machine within the block, then to `every`.

        Raises TargetError without a machine.
        """
        self._pin(processors)
        try:
            yield
        finally:
            self._pin(every)

    def _pin(self, processors: Collection[int]) -> None:
        if self.pooler is not None:
            pin(self.pooler.pids(), processors)
        for folder in (self.data_directory, *self.replica_directories()):
            # a backend that starts meanwhile inherits this from the postmaster, or the second search finds it
            for _ in range(2):
                pin((process.pid for process in servers_in(folder)), processors)

    # ---- standbys ----

    @property
    def replicas(self) -> ReplicaSet | None:
        """Its standbys, which may not exist yet; None if the plan has none."""
        return None if self.machine is None else self.machine.replicas

    @property
    def has_subscriber(self) -> bool:
        """Return whether what follows it is a logical subscriber."""
        return self.replicas is not None and self.replicas.is_logical

    def end_subscription(self) -> None:
        """Remove its subscriber, which could not follow when tables are replaced, until `make_replicas`.

        Does nothing without one. Raises TargetError.
        """
        if self.replicas is not None and self.replicas.is_logical:
            self.replicas.discard()

    def make_replicas(self) -> str:
        """Create its standbys from its current content, or make existing ones follow. Returns the method in words.

        Raises TargetError, psycopg.Error.
        """
        machine = self.own_instance("make replicas")
        assert machine.replicas is not None
        made = machine.replicas.create(self.address, machine.settings)
        if made is None:
            return "they were there"
        if machine.replicas.primary_settings():
            # synchronous commit is enabled only now: until the standbys stream, commits would wait for ever
            machine.write_settings(machine.settings, self.port)
            with self.connect() as connection:
                connection.execute("SELECT pg_reload_conf()")
                machine.replicas.wait_synchronous(connection)
        return made

    def check_replicas(self) -> None:
        """Raise TargetError if one of its standbys, which it may wait for at each commit, has ended."""
        if self.replicas is not None:
            self.replicas.check_alive()

    def replica_environments(self) -> list[dict[str, str]]:
        """Return the variables with which programs connect to each standby; none before the standbys exist."""
        return [each.environment(self.dbname) for each in self.replica_addresses()]

    def replica_names(self) -> list[str]:
        """Return the name of each standby in pg_stat_replication, in the order of `replica_environments`."""
        return [] if self.replicas is None else self.replicas.names

    def replica_directories(self) -> list[Path]:
        """Return their data directories; none over the network, or before they exist."""
        return [] if self.replicas is None else self.replicas.data_directories

    def replica_addresses(self) -> list[Address]:
        """Return the address of each standby; none before they exist."""
        return [] if self.replicas is None else self.replicas.addresses

    def failover_environment(self) -> dict[str, str]:
        """Return the variables with which clients connect to the primary or, after a failover, to its successor."""
        addresses = [self.address.parameters, *(each.parameters for each in self.replica_addresses()[:1])]
        together = {name: ",".join(each[name] for each in addresses) for name in ("host", "port")}
        parameters = {**self.address.parameters, **together, "target_session_attrs": "read-write"}
        return Address(parameters, self.password).environment(self.dbname)

    def followers(self) -> ReplicaSet:
        """Return its replicas, one of which can be promoted. Raises TargetError if it has none."""
        replicas = self.own_instance("promote a replica").replicas
        if replicas is None:
            raise TargetError("cannot promote a replica: the target has none")
        return replicas

    def promote(self) -> None:
        """Promote its first replica, now the primary of `self`, once the old one stopped. Raises TargetError."""
        followers = self.followers()
        # the promotion may succeed although an error is raised: `fail_back` must discard the replica in either case
        self.primary_port = self.port
        self._listens_at(followers.promote())

    @property
    def promoted(self) -> bool:
        """Return whether a replica was promoted."""
        return self.primary_port is not None

    def fail_back(self) -> None:
        """Discards the replicas, including the promoted one, and starts the former primary.

        That one has the data of the moment when it was lost, without later writes to its replica. Raises TargetError.
        """
        machine = self.own_instance("go back to the primary")
        assert machine.replicas is not None
        assert self.primary_port is not None
        machine.replicas.discard()
        port, self.primary_port = self.primary_port, None
        self._listens_at(machine.restart(port))

    def prepare(self, *, set_password: bool, extensions: Iterable[str] = ()) -> None:
        """Create the database, which has `extensions`, and set the password of a cluster that had another.

        Raises TargetError, psycopg.Error.
        """
        socket = str(self.own_instance("set up the cluster").socket_directory)
        # through the socket, because the password of a kept cluster is unknown
        with self.address.connect(self.maintenance, host=socket) as connection:
            if set_password:
                assert self.password is not None
                # as a verifier: the password itself never appears in a statement
                verifier = connection.pgconn.encrypt_password(
                    self.password.encode(), self.user.encode(), b"scram-sha-256"
                ).decode()
                connection.execute(
                    sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(self.user), sql.Literal(verifier))
                )
        for name in extensions:
            # every new database is a copy of this one
            with self.address.connect("template1", host=socket) as connection:
                statement = sql.SQL("CREATE EXTENSION IF NOT EXISTS {} CASCADE")
                connection.execute(statement.format(sql.Identifier(name)))
        with self.address.connect(self.maintenance, host=socket) as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [self.dbname]).fetchone()
            if known is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self.dbname)))


PRIMARY = "server.log"


@dataclass(frozen=True, slots=True)
class LogParts:
    """The logs of a server and its standbys, each from a byte offset on."""

    parts: tuple[tuple[str, Path, int], ...]
    """The name of the saved file, the path of the log, and its size at the start."""

    @classmethod
    def from_now(cls, server: Server) -> LogParts:
        """Begins at the current ends of the logs of the server and its standbys; none over the network."""
        if server.machine is None:
            return cls(())
        logs = {PRIMARY: server.machine.log_path}
        if server.pooler is not None:
            logs["pooler.log"] = server.pooler.log_path
        if server.replicas is not None:
            logs |= {f"replica-{place}.log": path for place, path in enumerate(server.replicas.log_paths, start=1)}
        return cls(tuple((name, path, log_size(path)) for name, path in logs.items()))

    def save(self, folder: Path) -> None:
        """Copy what was added since into `folder`. Raises OSError."""
        for name, path, start in self.parts:
            with path.open("rb") as log, (folder / name).open("wb") as copy:
                log.seek(start)
                shutil.copyfileobj(log, copy)
