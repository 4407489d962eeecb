"""Servers that misbehave on purpose, and pgdrive as their client with its exit code, output and memory."""

import contextlib
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.cli.messages import DONE, HELLO, columns, row
from tests.listening import end_accepting
from tests.run_program import BIN

GUARD_S = 90
"""Seconds after which a pgdrive that still runs is considered hung, and the test fails."""

Misdeed = Callable[["Peer"], None]


POOLER = b"select /* pgdyno */ (pid operator("
"""Part of the question by which pgdrive recognises a connection pooler."""


@dataclass
class Peer:
    """The server's side of one connection; the end of the connection ends the misbehaviour."""

    socket: socket.socket
    number: int
    busy: threading.Event
    """To set once the client has reached the state in which the test interrupts it."""
    received: bytearray = field(default_factory=bytearray)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> bytes:
        """Returns what the client sends after it knows that this is no connection pooler, which it asks first."""
        while True:
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionError
            if POOLER in data:
                self.send(columns("int4") + row(b"1") + DONE)
            elif data[5:].startswith(b"set application_name"):
                self.send(DONE)
            else:
                self.received += data
                return data

    def greet(self) -> None:
        self.receive()
        self.send(HELLO)

    def hear(self) -> None:
        """Discards what the client sends, and never answers."""
        while True:
            self.receive()

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def answering(*answers: bytes) -> Misdeed:
    """Greets, and gives every message the same answers."""

    def misdeed(peer: Peer) -> None:
        peer.greet()
        while True:
            peer.receive()
            for each in answers:
                peer.send(each)

    return misdeed


def pouring(endless: bytes, begin: bytes = b"", *, rushes_s: float = 2.0) -> Misdeed:
    """Greets, and answers the first query without an end: fast until whoever keeps it all has too much, then slowly."""

    def misdeed(peer: Peer) -> None:
        peer.greet()
        peer.receive()
        peer.busy.set()
        peer.send(begin)
        enough = time.monotonic() + rushes_s
        while True:
            peer.send(endless)
            # no faster than a network: libpq reads until the socket is empty, and nobody can stop it before
            time.sleep(1e-4 if time.monotonic() < enough else 0.01)

    return misdeed


@dataclass
class Hostile:
    """A listener that treats all connections in the same way."""

    port: int
    misdeed: Misdeed
    peers: list[Peer] = field(default_factory=list)
    busy: threading.Event = field(default_factory=threading.Event)

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                accepted, _ = listener.accept()
            except OSError:
                return
            peer = Peer(accepted, len(self.peers), self.busy)
            self.peers.append(peer)
            threading.Thread(target=self.treat, args=(peer,), daemon=True).start()

    def treat(self, peer: Peer) -> None:
        with contextlib.suppress(OSError), peer.socket:
            self.misdeed(peer)

    @property
    def received(self) -> bytes:
        return b"".join(bytes(peer.received) for peer in self.peers)


@contextlib.contextmanager
def hostile(misdeed: Misdeed) -> Iterator[Hostile]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Hostile(listener.getsockname()[1], misdeed)
        accepting = threading.Thread(target=server.serve, args=(listener,), daemon=True)
        accepting.start()
        try:
            yield server
        finally:
            end_accepting(listener, accepting)
            for peer in server.peers:
                with contextlib.suppress(OSError):
                    peer.socket.shutdown(socket.SHUT_RDWR)


@dataclass
class Outcome:
    code: int
    stdout: bytes
    stderr: bytes
    peak_mib: float

    @property
    def said(self) -> str:
        return self.stderr.decode()


def high_water_kib(pid: int) -> int:
    """Returns the peak memory of a process so far. wait4 would include the memory of the parent before exec."""
    with contextlib.suppress(OSError):
        found = re.search(r"VmHWM:\s*(\d+)", Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) if found else 0
    return 0


@dataclass
class Drive:
    """Runs pgdrive in a folder, by default with a script of one statement."""

    folder: Path

    def __call__(
        self,
        server: Hostile,
        *args: str,
        script: str | None = "SELECT 1;\n",
        env: dict[str, str] | None = None,
        interrupted: bool = False,
    ) -> Outcome:
        command = [str(BIN / "pgdrive"), "-h", "127.0.0.1", "-p", str(server.port), "-U", "alice", "-n"]
        if script is not None:
            (self.folder / "s.sql").write_text(script)
            command += ["-f", "s.sql"]
        # these servers misbehave in the protocol, not in front of it
        environment = os.environ | {"PGSSLMODE": "disable"} | (env or {})
        with (
            (self.folder / "out").open("w+b") as out,
            (self.folder / "err").open("w+b") as err,
            subprocess.Popen(
                [*command, *args, "bench"], cwd=self.folder, env=environment, stdout=out, stderr=err
            ) as process,
        ):
            guard = threading.Timer(GUARD_S, process.kill)
            guard.start()
            if interrupted:
                assert server.busy.wait(GUARD_S), "the client never came where it was to be interrupted"
                time.sleep(0.3)
                process.send_signal(signal.SIGINT)
            peak_kib = 0
            while process.poll() is None:
                peak_kib = max(peak_kib, high_water_kib(process.pid))
                time.sleep(0.01)
            guard.cancel()
            out.seek(0)
            err.seek(0)
            outcome = Outcome(process.returncode, out.read(), err.read(), peak_kib / 1024)
        assert outcome.code != -signal.SIGKILL, f"it hangs: {outcome.said}"
        return outcome
