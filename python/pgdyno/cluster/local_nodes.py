"""Nodes of Ray on this machine, each a process that ends with us."""

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
    """This machine's address towards a host; Ray does not stay on the loopback one where there is another."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            # nothing is sent
            sock.connect((towards, 9))
        except OSError:
            return "127.0.0.1"
        address: str = sock.getsockname()[0]
        return address


def free_port(ip: str) -> int:
    """A port of `ip` that nobody listens on now."""
    with socket.socket() as sock:
        sock.bind((ip, 0))
        port: int = sock.getsockname()[1]
        return port


def wait_for_head(address: tuple[str, int], is_over: Callable[[], EngineError | None]) -> None:
    """Until somebody listens at `address`; `is_over` says why nobody will. Raises EngineError."""
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
    """`node`, looking at its host, and starting when `go` is set; what it says goes to `log`.

    Behind the block it has ended.
    """
    with log.open("ab") as said:
        process = subprocess.Popen(
            started_here() if node.host is None else started_over_ssh(node.host),
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=said,
            # Ctrl-C is ours: the load is to end before its nodes
            start_new_session=True,
        )
    assert process.stdin is not None
    is_over = threading.Event()
    # the head is on this machine, and the last to be missed
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
    """Says `first`, when to `go`, and then that we live, until it `is_over`; the end of the stream is the node's."""
    # a host that is gone takes nothing any more: that is seen by who waits for the process
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
    """All that a node said."""
    return log.read_text(errors="replace") if log.is_file() else ""


def last_words(log: Path) -> str:
    """What a node said last."""
    lines = said_of(log).strip().splitlines()
    return lines[-1] if lines else "it said nothing"
