"""A pooler that pgdyno starts beside its server: started anew for each trial, and ended with all its processes."""

import shutil
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.plan.targets import Pooler
from pgdyno.signals_and_exit import signals_deferred
from pgdyno.targets.cluster.instance_record import Claim
from pgdyno.targets.cluster.postmaster import HOST, free_port, log_size, read_log
from pgdyno.targets.cluster.processes import ProcessId, end_session, identify, session_members
from pgdyno.targets.cluster.subprocesses import clean_environment, spawn
from pgdyno.targets.connection import Address
from pgdyno.targets.home import target_errors
from pgdyno.targets.poolers.load_path import LoadPath
from pgdyno.targets.poolers.program import Place, Program, configure
from pgdyno.targets.server_user import Account

READY_S = 15.0
_POLL_S = 0.02
_END_S = 5.0


class OwnPooler:
    """The pooler of one server."""

    def __init__(self, spec: Pooler, program: Program, claim: Claim, account: Account, sockets: Path | None) -> None:
        """`sockets` is the folder of its socket; None: it listens on the loopback address."""
        self._spec = spec
        self._program = program
        self._claim = claim
        self._account = account
        self._sockets = sockets
        self.log_path = claim.folder / "pooler.log"
        self._log_offset = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._identity: ProcessId | None = None
        self._path: LoadPath | None = None

    @property
    def path(self) -> LoadPath:
        """How clients reach it; the port differs after each start."""
        assert self._path is not None, "it was never started"
        return self._path

    def start(self, server: Address, dbname: str) -> None:
        """Start it before `server`, and wait until it listens. Raises TargetError."""
        self.stop()
        folder = self._claim.folder / "pooler"
        with target_errors(folder, "cannot create the folder"):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(0o700)
            self._account.take(folder)
        host, port = HOST if self._sockets is None else str(self._sockets), free_port()
        password = server.password or ""
        place = Place(folder, self._account, host, port, server.host, server.port, server.parameters["user"],
                      password, dbname)  # fmt: skip
        command, variables = configure(self._spec, self._program, place)
        self._log_offset = log_size(self.log_path)
        with target_errors(self.log_path, "cannot write"):
            log = self.log_path.open("ab")
        with log, signals_deferred():
            self._process = spawn(command, self._account, {**clean_environment(None), **variables}, log)
            self._identity = identify(self._process.pid)
            if self._identity is not None:
                self._claim.note(pooler_pid=self._identity.pid, pooler_start_ticks=self._identity.start_ticks)
        self._wait_ready(host, port)
        words = f"{self._program.name}, {self._spec.mode} pooling, pool of {self._spec.pool}"
        address = Address({"host": host, "port": str(port), "user": place.user}, password)
        self._path = LoadPath(
            address,
            dbname,
            self._program.name,
            words,
            self._spec.pool,
            self._program.may_prepare,
            is_own=True,
            pids=self.pids,
        )

    def stop(self) -> None:
        """End it with all its processes; does nothing if it does not run. Raises TargetError."""
        with signals_deferred():
            if self._process is None:
                return
            if self._identity is not None:
                end_session(self._identity, _END_S)
            self._process.wait()
            self._process = self._identity = None

    def failure(self) -> str | None:
        """Return the last line that it printed if it has ended by itself, else None."""
        if self._process is None or self._process.poll() is None:
            return None
        return f"{self._program.name} ended with exit code {self._process.returncode}: {self._last_line()}"

    def pids(self) -> list[int]:
        """Return the numbers of its processes."""
        return [] if self._identity is None else [each.pid for each in session_members(self._identity)]

    def _wait_ready(self, host: str, port: int) -> None:
        end = time.monotonic() + READY_S
        while not _listens(host, port):
            failed = self.failure()
            if failed is None and time.monotonic() > end:
                failed = f"{self._program.name} does not listen after {READY_S:.0f} s: {self._last_line()}"
            if failed is not None:
                self.stop()
                raise TargetError(f"cannot start the pooler: {failed}", hint="look at the keys of the target's pooler")
            time.sleep(_POLL_S)

    def _last_line(self) -> str:
        lines = [line.strip() for line in read_log(self.log_path, self._log_offset).splitlines() if line.strip()]
        return lines[-1] if lines else "it printed nothing"


def _listens(host: str, port: int) -> bool:
    with suppress(OSError):
        if host.startswith("/"):
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(f"{host}/.s.PGSQL.{port}")
        else:
            socket.create_connection((host, port), timeout=1).close()
        return True
    return False
