"""Streaming standbys of a server that pgdyno starts.

They are created after the dataset is loaded, and stopped with the server.
"""

import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, LiteralString

import psycopg
from psycopg.conninfo import make_conninfo

from pgdyno.errors import TargetError
from pgdyno.plan.targets import Replicas
from pgdyno.signals_and_exit import signals_deferred
from pgdyno.targets.cluster.initdb import PASSWORD_FILE, USER, write_access, write_password_file
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.cluster.instance_record import Claim
from pgdyno.targets.cluster.postmaster import Deadlines, Postmaster, start_at_free_port
from pgdyno.targets.cluster.processes import ProcessId
from pgdyno.targets.cluster.replication import copy_cluster
from pgdyno.targets.cluster.settings import own_settings, write_settings
from pgdyno.targets.cluster.snapshots.cluster_copy import folder_bytes
from pgdyno.targets.connection import MAINTENANCE, Address
from pgdyno.targets.home import Home, Progress, ensure_folder, target_errors, write_private
from pgdyno.units import format_bytes

PREFIX = "pgdyno_"
"""The prefix of names of standbys and of their replication slots."""
CATCH_UP_S = 900.0
HELD_BY_STANDBYS = frozenset(
    [
        "max_connections",
        "max_worker_processes",
        "max_wal_senders",
        "max_prepared_transactions",
        "max_locks_per_transaction",
    ]
)
"""Settings that a standby requires to be at least as high as on the primary when it wrote the WAL."""
PROMOTION_S = 120.0
"""The time limit for a promotion: the standby first replays the WAL that it has received."""
PROMOTE_FILE = "promote"
"""A file in the data directory; the server checks for it at SIGUSR1 (every version from 10 on)."""
SIGNAL_FILE_MAJOR = 12
"""The first version with standby.signal; earlier ones have recovery.conf."""
_POLL_S = 0.05
_BEHIND: LiteralString = "SELECT pg_wal_lsn_diff(%s, coalesce(pg_last_wal_replay_lsn(), '0/0'))::bigint"
_STREAMING: LiteralString = """
    SELECT count(*) FROM pg_stat_replication WHERE application_name = ANY(%s) AND state = 'streaming'
"""
_SYNCHRONOUS: LiteralString = """
    SELECT count(*) FROM pg_stat_replication WHERE application_name = ANY(%s) AND sync_state = 'sync'
"""


@dataclass(slots=True)
class Standby:
    """One standby of a server."""

    name: str
    """Its cluster_name, its application_name and the name of its slot."""
    postmaster: Postmaster
    address: Address


class ReplicaSet:
    """The standbys of one server."""

    is_logical: ClassVar[bool] = False

    def __init__(
        self, spec: Replicas, installation: Installation, home: Home, claim: Claim, folder: Path, progress: Progress
    ) -> None:
        self._spec = spec
        self._installation = installation
        self._home = home
        self._claim = claim
        self._folder = folder
        self._progress = progress
        self._standbys: list[Standby] = []
        self._settings: dict[str, str] = {}
        self._primary_port = 0
        self._promoted: Standby | None = None

    def primary_settings(self) -> dict[str, str]:
        """Return settings for the primary's configuration; none until all standbys stream."""
        if not self._standbys or self._spec.synchronous == "off":
            return {}
        names = ", ".join(self.names)
        return {
            "synchronous_standby_names": f"{len(self._standbys)} ({names})",
            "synchronous_commit": self._spec.synchronous,
        }

    @property
    def names(self) -> list[str]:
        """Return their names in pg_stat_replication (application_name)."""
        return [standby.name for standby in self._standbys]

    @property
    def data_directories(self) -> list[Path]:
        """Return their data directories, in the same order."""
        return [standby.postmaster.data_directory for standby in self._standbys]

    @property
    def log_paths(self) -> list[Path]:
        """Return their logs, in the same order."""
        return [standby.postmaster.log_path for standby in self._standbys]

    @property
    def addresses(self) -> list[Address]:
        return [standby.address for standby in self._standbys]

    # ---- creation ----

    def create(self, primary: Address, settings: Mapping[str, str]) -> str | None:
        """Create the standbys of `primary` unless they exist; return their number, size and duration in words.

        `settings` are the plan's. Raises TargetError; the end of the run then removes what was created.
        """
        if self._standbys:
            self.follow(primary.port, settings)
            return None
        self._settings, self._primary_port = dict(settings), primary.port
        try:
            return self._create_all(primary)
        except Exception:
            # what is there would be in the way of the next attempt, and synchronous commits would wait for it
            with suppress(TargetError):
                self.discard()
            raise

    def _create_all(self, primary: Address) -> str:
        drop_slots(primary)
        started = time.monotonic()
        for number in range(1, self._spec.count + 1):
            self._make_one(primary, number)
        copied_s = time.monotonic() - started
        size = sum(folder_bytes(directory) for directory in self.data_directories)
        for standby in self._standbys:
            self._start(standby, None)
        with primary.connect(MAINTENANCE) as connection:
            self._wait_for_all(connection, _STREAMING, "do not stream")
        rate = f"{format_bytes(round(size / copied_s))}/s"
        return f"{self._spec.count}: {format_bytes(size)} in {copied_s:.1f} s, {rate}"

    def before_settings(self, settings: Mapping[str, str]) -> None:
        """Discards all standbys if the primary is about to change one of `HELD_BY_STANDBYS`.

        They could not follow such a change. The next `create` creates them again. Raises TargetError.
        """
        old, new = ({name.lower(): value for name, value in each.items()} for each in (self._settings, settings))
        if self._standbys and any(old.get(name) != new.get(name) for name in HELD_BY_STANDBYS):
            self.discard()

    def follow(self, primary_port: int, settings: Mapping[str, str]) -> None:
        """Update the standbys when the primary's port or settings have changed. Raises TargetError."""
        if primary_port == self._primary_port and dict(settings) == self._settings:
            return
        self._primary_port, self._settings = primary_port, dict(settings)
        for standby in self._standbys:
            with signals_deferred():
                standby.postmaster.stop(Deadlines())
            self._start(standby, standby.address.port)

    def wait(self, primary: Address) -> str:
        """Wait until all standbys stream and show what `primary` has committed so far; return the initial lag.

        Raises TargetError if one does not within `CATCH_UP_S`.
        """
        with primary.connect(MAINTENANCE) as connection:
            row = connection.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
            assert row is not None
            behind = 0
            # a restart of the primary has disconnected them
            self._wait_for_all(connection, _STREAMING, "do not stream")
            for standby in self._standbys:
                behind = max(behind, self._wait_one(standby, row[0]))
        return f"{format_bytes(behind)} behind"

    # ---- promotion and removal ----

    def is_promoted_alive(self) -> bool:
        """Return whether the promoted standby runs."""
        return self._promoted is not None and self._promoted.postmaster.is_alive()

    def promote(self, deadline_s: float = PROMOTION_S) -> int:
        """Promotes the first standby; returns the port on which it accepts writes.

        The others keep following the old primary. Raises TargetError.
        """
        if not self._standbys:
            raise TargetError("cannot promote a replica: there is none yet")
        standby = self._standbys[0]
        process = standby.postmaster.identity
        if process is None or not standby.postmaster.is_alive():
            raise TargetError(f"cannot promote replica {standby.name}: it is not running", hint=self._logs())
        self._promoted = standby
        self._end_recovery(standby, process, deadline_s)
        return standby.address.port

    def _end_recovery(self, standby: Standby, process: ProcessId, deadline_s: float) -> None:
        # as pg_ctl promote does, which published builds of some versions lack
        self._write(standby.postmaster.data_directory / PROMOTE_FILE, "")
        process.send(signal.SIGUSR1)
        end = time.monotonic() + deadline_s
        with standby.address.connect(MAINTENANCE) as connection:
            while connection.execute("SELECT pg_is_in_recovery()").fetchone() != (False,):
                if not standby.postmaster.is_alive() or time.monotonic() > end:
                    raise TargetError(f"replica {standby.name} did not become the primary", hint=self._logs())
                time.sleep(_POLL_S)

    def discard(self) -> None:
        """Stop the standbys and remove their clusters; the next `create` creates them again. Raises TargetError."""
        folders = [directory.parent for directory in self.data_directories]
        self.close()
        for folder in folders:
            with target_errors(folder, "cannot remove"):
                shutil.rmtree(folder)

    def close(self) -> None:
        """Stop all standbys. Raises TargetError."""
        while self._standbys:
            self._standbys[-1].postmaster.stop(Deadlines())
            self._standbys.pop()
        self._promoted = None

    # ---- a single standby ----

    def _make_one(self, primary: Address, number: int) -> None:
        """Copy the primary's cluster for a standby."""
        name = self._name(number)
        folder = self._folder / f"replica-{number}"
        data = folder / "data"
        what = "the subscriber" if self.is_logical else f"replica {number} of {self._spec.count}"
        self._progress.step(f"creating {what}")
        with signals_deferred():
            # recorded before it exists, so that a sweep finds it
            self._claim.note(replicas=[*self._claim.record.replicas, str(data)])
            ensure_folder(folder)
        socket = self._claim.record.socket_directory
        assert primary.password is not None
        assert socket is not None
        log = self._claim.folder / f"replica-{number}.log"
        postmaster = Postmaster(self._installation, data, log, self._home.account)
        self._standbys.append(
            Standby(name, postmaster, Address({"host": primary.host, "user": USER}, primary.password))
        )
        with primary.connect(MAINTENANCE) as connection:
            connection.execute("SELECT pg_create_physical_replication_slot(%s, true)", [name])
        write_password_file(folder / PASSWORD_FILE, primary.password, self._home.account)
        through_socket = Address({**primary.parameters, "host": socket}, primary.password)
        source = Path(self._claim.record.data_directory)
        copy_cluster(through_socket, source, self._installation, self._home.account, data)

    def _name(self, number: int) -> str:
        return f"{PREFIX}{number}"

    def _start(self, standby: Standby, wanted_port: int | None) -> None:
        def launch() -> None:
            with signals_deferred():
                standby.postmaster.launch()

        port = start_at_free_port(
            standby.postmaster, lambda port: self._configure(standby, port), launch, self._asked(), wanted_port
        )
        standby.address.parameters["port"] = str(port)

    def _configure(self, standby: Standby, port: int) -> None:
        socket = self._claim.record.socket_directory
        assert socket is not None
        passfile = standby.postmaster.data_directory.with_name(PASSWORD_FILE)
        source = make_conninfo(
            host=socket, port=self._primary_port, user=USER, passfile=str(passfile), application_name=standby.name
        )
        follows = {"primary_conninfo": source, "primary_slot_name": standby.name}
        own = {
            **own_settings(port, Path(socket)),
            "cluster_name": standby.name,
            "hot_standby": "on",
            "wal_retrieve_retry_interval": "200ms",
        }
        data = standby.postmaster.data_directory
        if self._installation.major >= SIGNAL_FILE_MAJOR:
            own |= follows
            self._write(data / "standby.signal", "")
        else:
            lines = [f"{name} = '{value.replace(chr(39), chr(39) * 2)}'" for name, value in follows.items()]
            self._write(data / "recovery.conf", "\n".join(["standby_mode = 'on'", *lines, ""]))
        write_settings(data, own, self._asked())
        write_access(data, self._home.account)

    def _asked(self) -> Mapping[str, str]:
        return self._settings

    def _write(self, path: Path, text: str) -> None:
        write_private(path, text, self._home.account)

    # ---- waiting ----

    def _wait_for_all(
        self, connection: psycopg.Connection[tuple[Any, ...]], query: LiteralString, not_yet: str
    ) -> None:
        """Wait until `query` counts all of them by their names."""
        end = time.monotonic() + CATCH_UP_S
        while connection.execute(query, [self.names]).fetchone() != (len(self._standbys),):
            self.check_alive()
            if time.monotonic() > end:
                raise TargetError(f"the replicas {not_yet} after {CATCH_UP_S:.0f} s", hint=self._logs())
            time.sleep(_POLL_S)

    def wait_synchronous(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        """Wait until commits on the primary, which was told to reload, wait for the standbys. Raises TargetError."""
        self._wait_for_all(connection, _SYNCHRONOUS, "are not synchronous")

    def _wait_one(self, standby: Standby, lsn: str) -> int:
        """Return its initial lag in bytes."""
        with standby.address.connect(MAINTENANCE) as connection:
            return self._wait_for_shown(standby, connection, _BEHIND, [lsn])

    def _wait_for_shown(
        self,
        standby: Standby,
        connection: psycopg.Connection[tuple[Any, ...]],
        behind: LiteralString,
        values: Sequence[str],
    ) -> int:
        """Wait until the query `behind` returns 0 bytes; return what it returned first."""
        end = time.monotonic() + CATCH_UP_S
        first: int | None = None
        while True:
            row = connection.execute(behind, values).fetchone()
            assert row is not None
            first = max(row[0], 0) if first is None else first
            if row[0] <= 0:
                return first
            self.check_alive()
            if time.monotonic() > end:
                raise TargetError(
                    f"replica {standby.name} is {format_bytes(row[0])} behind after {CATCH_UP_S:.0f} s",
                    hint=self._logs(),
                )
            time.sleep(_POLL_S)

    def check_alive(self) -> None:
        """Raise TargetError if one has ended: synchronous commits would wait for it for ever."""
        dead = [standby.name for standby in self._standbys if not standby.postmaster.is_alive()]
        if dead:
            raise TargetError(f"replica {dead[0]} went down", hint=self._logs())

    def _logs(self) -> str:
        return f"their logs are in {self._claim.folder} until the run ends"


def drop_slots(primary: Address) -> None:
    """Drop slots of standbys that are gone, as in a kept cluster: they would retain WAL for ever."""
    with primary.connect(MAINTENANCE) as connection:
        connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
            " WHERE slot_type = 'physical' AND NOT active AND left(slot_name, length(%s)) = %s",
            [PREFIX, PREFIX],
        )
