"""A server that pgdyno starts, from its folder and cluster to its process and clean-up."""

import atexit
import hashlib
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from filelock import FileLock, Timeout

from pgdyno.errors import TargetError
from pgdyno.plan.targets import OwnTarget
from pgdyno.signals_and_exit import signals_deferred
from pgdyno.targets.cluster.folders import make_places
from pgdyno.targets.cluster.initdb import USER, ClusterTemplate, check_arguments, init_cluster, write_access
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.cluster.instance_record import Claim, make_claim, read_record
from pgdyno.targets.cluster.leftovers import remove_traces, sweep_leftovers
from pgdyno.targets.cluster.postmaster import (
    HOST,
    KEPT_DEADLINES,
    Deadlines,
    Postmaster,
    make_socket_folder,
    start_at_free_port,
)
from pgdyno.targets.cluster.processes import servers_in
from pgdyno.targets.cluster.settings import check_settings, own_settings, write_settings
from pgdyno.targets.cluster.snapshots.cluster_copy import ClusterCopy
from pgdyno.targets.cluster.standbys import ReplicaSet
from pgdyno.targets.cluster.subscriber import Subscriber
from pgdyno.targets.connection import Address
from pgdyno.targets.embedded.schema import EmbeddedTarget
from pgdyno.targets.home import Home, Progress, ensure_folder, target_errors
from pgdyno.targets.poolers.own_pooler import OwnPooler


def cluster_key(installation: Installation, initdb: Sequence[str]) -> str:
    """Return the key of a cluster: its programs and initdb's options.

    Each start writes the settings, so they do not count.
    """
    facts = json.dumps([installation.origin, list(initdb)])
    return f"{installation.version}-{hashlib.sha256(facts.encode()).hexdigest()[:12]}"


class KeptCluster:
    """The location of one kept cluster, locked against other runs."""

    def __init__(self, home: Home, key: str) -> None:
        self.folder = home.clusters / key
        self._home = home
        self._lock: FileLock = home.lock(f"cluster-{key}")

    @property
    def data_directory(self) -> Path:
        """The cluster's folder; absent until the first run has created it."""
        return self.folder / "data"

    def acquire(self) -> None:
        """Locks it until `release`. Raises TargetError if another run has locked it."""
        with target_errors(self.folder, "cannot lock"):
            try:
                self._lock.acquire(timeout=0)
            except Timeout:
                raise TargetError(
                    f"cannot use the kept cluster {self.folder}: {self._user()} uses it",
                    hint="wait until that run ends, or set keep_data = false",
                ) from None
        ensure_folder(self.folder)

    def release(self) -> None:
        """Unlocks it; does nothing if it is not locked."""
        self._lock.release()

    def adopt(self, data_directory: Path) -> None:
        """Move a new cluster to this location. Raises TargetError."""
        with target_errors(self.data_directory, "cannot move a cluster to"):
            data_directory.rename(self.data_directory)

    def _user(self) -> str:
        for folder in self._home.instances.glob("*"):
            record = read_record(folder)
            if record is not None and record.data_directory == str(self.data_directory):
                return f"target {record.target} of process {record.owner_pid}"
        return "another run"


class Instance:
    """One server and all that it leaves on the machine.

    `close` undoes whatever has been done so far, at any point, and also runs when the interpreter exits. Its paths stay
    known after that.
    """

    data_directory: Path
    socket_directory: Path
    log_path: Path
    copy: ClusterCopy
    """The stopped copy of its data directory, whether it exists or not."""

    def __init__(self, name: str, spec: OwnTarget, installation: Installation, home: Home, progress: Progress) -> None:
        self._name = name
        self._spec = spec
        self._installation = installation
        self._home = home
        self._progress = progress
        self.settings: Mapping[str, str] = dict(spec.settings)
        """The plan's settings in the server's configuration."""
        self.notes = list(installation.notes)
        self._password = secrets.token_urlsafe(24)
        self.has_other_password = False
        """Whether the cluster is an earlier one or a copy, so that its superuser has another password."""
        self._pid = os.getpid()
        self._claim: Claim | None = None
        self._kept: KeptCluster | None = None
        self._postmaster: Postmaster | None = None
        self.replicas: ReplicaSet | None = None
        """Its standbys; None if the plan has none."""
        self.pooler: OwnPooler | None = None
        """The connection pooler beside it; None if the plan has none."""

    def open(self) -> Address:
        """Create the cluster and start it; return its address. Raises TargetError; call `close` in any case."""
        check_settings(self._spec.settings)
        check_arguments(self._spec.initdb)
        account = self._home.account
        # covers exceptions between a `with` and its block, or before the clean-up defers them
        atexit.register(self.close)
        with signals_deferred():
            claim = self._claim = make_claim(self._home, self._name)
        self.log_path = claim.log_path
        self.data_directory = self._get_cluster(claim)
        with signals_deferred():
            self.socket_directory = make_socket_folder(account, lambda folder: claim.note(socket_directory=str(folder)))
        variables = self._spec.environment.variables
        self._postmaster = Postmaster(self._installation, self.data_directory, self.log_path, account, variables)
        self.copy = ClusterCopy(self.data_directory, account, self._spec.keep_data)
        self._progress.step(f"starting PostgreSQL {self._installation.version}")
        port = self._start(self._postmaster, claim, None)
        over_socket = self._spec.connect == "unix"
        if self._spec.replicas is not None:
            # nothing else would remove files that lie next to a kept cluster
            parent = claim.folder if self._spec.keep_data else self.data_directory.parent
            self.replicas = ReplicaSet(
                self._spec.replicas, self._installation, self._home, claim, parent, self._progress
            )
        elif self._spec.subscriber is not None:
            parent = self.data_directory.parent
            self.replicas = Subscriber(
                self._spec.subscriber, self._installation, self._home, claim, parent, self._progress
            )
        if self._spec.pooler is not None and self._installation.pooler is not None:
            sockets = self.socket_directory if over_socket else None
            self.pooler = OwnPooler(self._spec.pooler, self._installation.pooler, claim, account, sockets)
        host = str(self.socket_directory) if over_socket else HOST
        return Address({"host": host, "port": str(port), "user": USER}, self._password)

    def close(self) -> None:
        """Stop the server and remove what was created, except a kept cluster. Raises TargetError."""
        # a forked child of pgdyno must not stop the server
        if os.getpid() != self._pid:
            return
        with signals_deferred():
            if self.pooler is not None:
                self.pooler.stop()
            if self._postmaster is not None:
                self._postmaster.stop(KEPT_DEADLINES if self._spec.keep_data else Deadlines())
                self._postmaster = None
            if self.replicas is not None:
                self.replicas.close()
            if self._kept is not None:
                self._kept.release()
            if self._claim is not None:
                remove_traces(self._claim.record, self._claim.folder, self._home)
                self._claim.remove()
                self._claim = None
            atexit.unregister(self.close)

    def is_alive(self) -> bool:
        """Return whether the server's process runs."""
        return self._postmaster is not None and self._postmaster.is_alive()

    def restart(self, port: int) -> int:
        """Restarts the server, at `port` if that is still free; returns its new port."""
        self.stop()
        return self.start(port)

    def stop(self) -> None:
        """Shuts the server down; does nothing if it does not run. Raises TargetError."""
        postmaster, _ = self._require_open("stop")
        with signals_deferred():
            postmaster.stop(KEPT_DEADLINES)

    def start(self, port: int) -> int:
        """Start the server after `stop`, at `port` if that is still free; return its port.

        First completes an interrupted restore of the data directory. Raises TargetError.
        """
        postmaster, claim = self._require_open("start")
        self.copy.finish_restoring()
        return self._start(postmaster, claim, port)

    def wrap(self, command: Sequence[str]) -> None:
        """Start the server by `command` from the next start on; an empty one starts it as usual. Raises TargetError."""
        postmaster, _ = self._require_open("wrap")
        postmaster.wrapper = tuple(command)

    def write_settings(self, settings: Mapping[str, str], port: int) -> None:
        """Replace the plan's settings; they apply from the next reload or start. Raises TargetError."""
        self._require_open("configure")
        if self.replicas is not None:
            self.replicas.before_settings(settings)
        self.settings = dict(settings)
        self._write(port)

    def _require_open(self, doing: str) -> tuple[Postmaster, Claim]:
        if self._postmaster is None or self._claim is None:
            raise TargetError(f"cannot {doing} the server of target {self._name}: it was closed")
        return self._postmaster, self._claim

    def _get_cluster(self, claim: Claim) -> Path:
        """Return the data directory."""
        making = f"creating a cluster of PostgreSQL {self._installation.version}"
        if not self._spec.keep_data:
            self._progress.step(making)
            with signals_deferred():
                places = make_places(self._spec.environment, claim, self._home.account)
            self.notes += places.notes
            self._make_or_copy_cluster(places.data_directory, places.wal)
            return places.data_directory
        kept = self._kept = KeptCluster(self._home, cluster_key(self._installation, self._spec.initdb))
        kept.acquire()
        copy = ClusterCopy(kept.data_directory, self._home.account, kept=True)
        if copy.is_restoring():
            self._progress.step("finishing the restore of the cluster, which an earlier run did not complete")
            copy.finish_restoring()
        reused = self.has_other_password = kept.data_directory.is_dir()
        if reused:
            self._free_from_leftovers(kept.data_directory)
        else:
            self._progress.step(making)
            # created in the instance's folder first, so that folders below clusters are always complete
            self._make_cluster(claim.data_directory, durable=True)
        claim.note(data_directory=str(kept.data_directory), keep_data=True)
        if not reused:
            kept.adopt(claim.data_directory)
        return kept.data_directory

    def _free_from_leftovers(self, data_directory: Path) -> None:
        if servers_in(data_directory):
            # no run has locked it, so its server is a leftover
            sweep_leftovers(self._home)
        others = servers_in(data_directory)
        if others:
            pids = ", ".join(str(process.pid) for process in others)
            raise TargetError(
                f"cannot use the kept cluster {data_directory}: a server that pgdyno did not start runs on it: "
                f"process {pids}",
                hint="stop that server",
            )

    def _make_or_copy_cluster(self, data_directory: Path, wal: Path | None) -> None:
        # programs that may be rebuilt at any time need a cluster of their own initdb; only initdb can fill a separate
        # WAL folder
        if wal is not None or not isinstance(self._spec, EmbeddedTarget):
            self._make_cluster(data_directory, durable=False, wal=wal)
            return
        template = ClusterTemplate(self._home, cluster_key(self._installation, self._spec.initdb))
        self.has_other_password = template.copy_to(data_directory)
        if not self.has_other_password:
            self._make_cluster(data_directory, durable=False)
            template.keep(data_directory)

    def _make_cluster(self, data_directory: Path, *, durable: bool, wal: Path | None = None) -> None:
        init_cluster(
            self._installation,
            data_directory,
            self._home.account,
            self._spec.initdb,
            self._password,
            durable=durable,
            wal=wal,
        )

    def _start(self, postmaster: Postmaster, claim: Claim, wanted_port: int | None) -> int:
        port = start_at_free_port(
            postmaster, self._write, lambda: self._launch(postmaster, claim), self.settings, wanted_port
        )
        if self.replicas is not None:
            self.replicas.follow(port, self.settings)
        return port

    def _write(self, port: int) -> None:
        own = own_settings(port, self.socket_directory)
        if self.replicas is not None:
            own |= self.replicas.primary_settings()
        write_settings(self.data_directory, own, self.settings)
        # a pooler and a subscriber come as the server's user
        enters = self._spec.is_pooled or self._spec.subscriber is not None
        write_access(self.data_directory, self._home.account, enters=enters)

    def _launch(self, postmaster: Postmaster, claim: Claim) -> None:
        with signals_deferred():
            postmaster.launch()
            identity = postmaster.identity
            if identity is not None:
                claim.note(postmaster_pid=identity.pid, postmaster_start_ticks=identity.start_ticks)
