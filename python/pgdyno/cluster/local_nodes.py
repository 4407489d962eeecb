"""Nodes of Ray on this machine, each a process that ends with us."""

from __future__ import annotations

import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pgdyno.cluster.node_script import STOP_S, Node, held_script, ray_command
from pgdyno.errors import EngineError
from pgdyno.plan.generators import SshNode

END_S = STOP_S + 5.0
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
def head_folder() -> Iterator[str]:
    """Where the head keeps its files: a short path, for those of sockets may have 107 bytes only."""
    folder = tempfile.mkdtemp(prefix="pgdyno-ray-", dir="/tmp")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def started_here(script: str) -> list[str]:
    """A command that runs `script` on this machine."""
    return ["/bin/sh", "-c", script]


def started_over_ssh(script: str, node: SshNode) -> list[str]:
    """A command that runs `script` on another host, as OpenSSH's own files say it is reached; nobody is asked."""
    port = [] if node.port is None else ["-p", str(node.port)]
    user = [] if node.user is None else ["-l", node.user]
    options = ["-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]
    return ["ssh", "-T", *options, *port, *user, node.host, f"exec sh -c {shlex.quote(script)}"]


@contextmanager
def running_node(node: Node, token: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`node`, beginning to start; what it says goes to `log`. Behind the block it has ended."""
    # there it may be installed in the same folder as here
    script = held_script(ray_command(node), [str(Path(sys.executable).parent)])
    with log.open("ab") as said:
        process = subprocess.Popen(
            started_here(script) if node.host is None else started_over_ssh(script, node.host),
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=said,
            # Ctrl-C is ours: the load is to end before its nodes
            start_new_session=True,
        )
    assert process.stdin is not None
    try:
        process.stdin.write(f"{token}\n".encode())
        process.stdin.flush()
        yield process
    finally:
        with ExitStack() as stack:
            stack.callback(process.kill)
            process.stdin.close()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def last_words(log: Path) -> str:
    """What a node said last."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.is_file() else []
    return lines[-1] if lines else "it said nothing"
