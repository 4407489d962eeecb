"""Nodes of Ray on this machine, each a process that ends with us."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pgdyno.cluster.node_script import STOP_S, Node, held_script, ray_command
from pgdyno.errors import EngineError

END_S = STOP_S + 5.0


def free_port(ip: str) -> int:
    """A port of `ip` that nobody listens on now."""
    with socket.socket() as sock:
        sock.bind((ip, 0))
        port: int = sock.getsockname()[1]
        return port


@contextmanager
def head_folder() -> Iterator[str]:
    """Where the head keeps its files: a short path, for those of sockets may have 107 bytes only."""
    folder = tempfile.mkdtemp(prefix="pgdyno-ray-", dir="/tmp")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def local_node(node: Node, token: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`node`, beginning to start; what it says goes to `log`. Behind the block it has ended."""
    script = held_script(ray_command(node), [str(Path(sys.executable).parent)])
    with log.open("ab") as said:
        process = subprocess.Popen(
            ["/bin/sh", "-c", script],
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


def not_started(name: str, log: Path) -> EngineError:
    """Why a node that ended at once is none."""
    return EngineError(f"Ray's node {name} did not start: {last_words(log)}", hint=f"see {log}")
