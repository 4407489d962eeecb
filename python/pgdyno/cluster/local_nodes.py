"""Ray nodes on this machine, which end with this process."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from pgdyno.cluster.heard import RENEWAL
from pgdyno.cluster.node_script import Node, order, started_here, started_over_ssh
from pgdyno.cluster.requirements import GO
from pgdyno.errors import EngineError

END_S = 10.0
RENEW_S = 1.0
LOOK_S = 0.05
HEAD_S = 90.0


def own_address(towards: str) -> str:
    """Returns this machine's address towards a host; Ray leaves the loopback address if there is another."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            # connecting a UDP socket sends nothing
            sock.connect((towards, 9))
        except OSError:
            return "127.0.0.1"
        address: str = sock.getsockname()[0]
        return address


def free_port(ip: str) -> int:
    """Returns a free port of `ip`."""
    with socket.socket() as sock:
        sock.bind((ip, 0))
        port: int = sock.getsockname()[1]
        return port


def wait_for_head(address: tuple[str, int], is_over: Callable[[], EngineError | None]) -> None:
    """Waits until `address` accepts connections; `is_over` returns why it never will. Raises EngineError."""
    deadline = time.monotonic() + HEAD_S
    while True:
        try:
            socket.create_connection(address, timeout=1).close()
        except OSError as error:
            why = is_over()
            if why is not None:
                raise why from None
            if time.monotonic() > deadline:
                raise EngineError(f"Ray's head did not start within {HEAD_S:g} s: {error}") from error
            time.sleep(0.1)
        else:
            return


@contextmanager
def running_node(node: Node, token: str, log: Path, go: threading.Event) -> Iterator[subprocess.Popen[bytes]]:
    """Yields the process of `node`, which checks its host and starts when `go` is set; output goes to `log`.

    It has ended after the block.
    """
    with log.open("ab") as said:
        process = subprocess.Popen(
            started_here() if node.host is None else started_over_ssh(node.host),
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=said,
            # this process handles Ctrl-C: the load ends before its nodes
            start_new_session=True,
        )
    assert process.stdin is not None
    is_over = threading.Event()
    # the head is on this machine and ends last
    told = (process.stdin, order(node, token, log.parent if node.is_head else None), go, is_over)
    renewing = threading.Thread(target=_renew, args=told, daemon=True)
    try:
        renewing.start()
        yield process
    finally:
        with ExitStack() as stack:
            stack.callback(process.kill)
            is_over.set()
            renewing.join()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _renew(stream: IO[bytes], first: bytes, go: threading.Event, is_over: threading.Event) -> None:
    """Sends `first`, `go` when it is set, and then renewals until it `is_over`; the node owns the stream's end."""
    # writes to a lost host fail; the process's waiter detects that
    with suppress(OSError), stream:
        stream.write(first)
        stream.flush()
        while not go.wait(LOOK_S):
            if is_over.is_set():
                return
        stream.write(GO)
        stream.flush()
        while not is_over.wait(RENEW_S):
            stream.write(RENEWAL)
            stream.flush()


def said_of(log: Path) -> str:
    """Returns the output of a node."""
    return log.read_text(errors="replace") if log.is_file() else ""


def last_words(log: Path) -> str:
    """Returns the last line of a node's output."""
    lines = said_of(log).strip().splitlines()
    return lines[-1] if lines else "it printed no message"
