"""Starts Ray on a host, locally or over SSH, or joins a running cluster."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from pgdyno.errors import EngineError
from pgdyno.generators.agent import RENEWAL
from pgdyno.generators.ray_node import FOLDER, GO, LEASE_S, REFUSED, wanted_versions
from pgdyno.generators.ray_tls import Authority
from pgdyno.plan.hosts import SshNode

RESOURCE = "loadgen"
"""The Ray resource of which each node that makes load has one."""
HEALTH = '{"health_check_period_ms":1000,"health_check_timeout_ms":2000,"health_check_failure_threshold":3}'
STORE_BYTES = 80_000_000
"""Bytes of shared memory: pgdyno sends nothing through it, but Ray refuses less."""
CONNECT_S = 10
NOT_FOUND, USAGE, SSH_FAILED = 127, 2, 255
"""Exit codes of the shell, of an earlier pgdyno, and of ssh itself."""


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    address: str
    """`host:port` of the head."""
    ip: str | None
    """The node's own address; None lets Ray find it."""
    is_head: bool
    makes_load: bool
    host: SshNode | None = None
    """The SSH host; None is this machine."""
    tasks: int | None = 0
    """The number of concurrent tasks; None is one per processor."""


def ray_command(node: Node) -> list[str]:
    """Return the command `ray start` in the foreground, without the services that pgdyno does not use."""
    command = ["ray", "start", "--block", "--disable-usage-stats", f"--node-name={node.name}"]
    if node.tasks is not None:
        command.append(f"--num-cpus={node.tasks}")
    command += ["--include-log-monitor=false", f"--temp-dir={FOLDER}"]
    command.append(f"--object-store-memory={STORE_BYTES}")
    if node.makes_load:
        command.append(f'--resources={{"{RESOURCE}": 1}}')
    if node.ip is not None:
        command.append(f"--node-ip-address={node.ip}")
    if not node.is_head:
        return [*command, f"--address={node.address}"]
    port = node.address.rpartition(":")[2]
    options = ["--head", f"--port={port}", "--include-dashboard=false", "--no-monitor"]
    return [*command, *options, f"--system-config={HEALTH}"]


def local_command() -> list[str]:
    """Return a command that runs a node on this machine."""
    return [sys.executable, "-m", "pgdyno.generators.ray_node"]


def ssh_command(node: SshNode) -> list[str]:
    """Return a command that runs a node on another host by OpenSSH, with its config files and without prompts."""
    alive = ["-o", "ServerAliveInterval=2", "-o", "ServerAliveCountMax=3"]
    # A config file may forward the agent, with whose keys the host could log in elsewhere.
    options = ["-a", "-x", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}", *alive]
    return ["ssh", "-T", *options, *_destination(node), f"exec sh -c {shlex.quote(_find_and_hold())}"]


def address_of(node: SshNode) -> str:
    """Return the host name that `ssh` uses: OpenSSH's files may define an alias. Raises EngineError."""
    try:
        command = ["ssh", "-G", *_destination(node)]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
    except FileNotFoundError as error:
        hint = "install OpenSSH's client (openssh-client)"
        raise EngineError(f"cannot reach {node.host}: ssh is not installed on this machine", hint=hint) from error
    for line in done.stdout.splitlines():
        name, _, value = line.partition(" ")
        if name == "hostname":
            return value
    return node.host


def _destination(node: SshNode) -> list[str]:
    port = [] if node.port is None else ["-p", str(node.port)]
    user = [] if node.user is None else ["-l", node.user]
    return [*port, *user, node.host]


def _find_and_hold() -> str:
    """Return a script for sh: pgdyno may be installed there in the same folder as here."""
    here = shlex.quote(str(Path(sys.executable).parent))
    return f'PATH={here}:"$HOME/.local/bin:$PATH"; export PATH; exec pgdyno generator-node'


def order(node: Node, token: str, logs: Path | None = None, tls: Authority | None = None) -> bytes:
    """Return the first line for a node's standard input, where process listings do not show it.

    The node removes the folder `logs` if the driver is killed before it can do so.
    """
    told = {
        "command": ray_command(node),
        "token": token,
        "lease_s": LEASE_S,
        "wants": wanted_versions(),
        "reach": None if node.is_head else node.address,
        "logs": None if logs is None else str(logs),
        "tls": None if tls is None else {"head": node.address.rpartition(":")[0], **tls.as_order()},
    }
    return json.dumps(told).encode() + b"\n"


def refusal(node: Node, code: int, said: str) -> EngineError | None:
    """Return why `node`, which ended with exit code `code`, would fail again; None if a retry may succeed."""
    lines = said.strip().splitlines()
    last = lines[-1] if lines else ""
    host = "this machine" if node.host is None else node.host.host
    if code == REFUSED:
        why = json.loads(last)
        return EngineError(f"{host} cannot be a generator: {why['refused']}", hint=why["hint"])
    if node.host is None:
        return None
    if code == NOT_FOUND:
        message = f"{host} cannot be a generator: pgdyno is not in the folder {Path(sys.executable).parent}"
        wants = wanted_versions()["pgdyno"]
        hint = f'pip install --user "pgdyno[cluster]=={wants}" there, or into the same folder as here'
        return EngineError(f"{message}, in ~/.local/bin or on the PATH there", hint=hint)
    if code == USAGE:
        message = f"{host} cannot be a generator: its pgdyno is from another release"
        return EngineError(message, hint=f"install pgdyno {wanted_versions()['pgdyno']} there")
    if code == SSH_FAILED:
        return EngineError(
            f"cannot reach {host} over SSH: {last or 'ssh printed no message'}", hint=_remedy(host, said)
        )
    return None


def _remedy(host: str, said: str) -> str:
    if "Host key verification failed" in said or "IDENTIFICATION HAS CHANGED" in said:
        return f"compare its host key with the one that its owner gives you; then: ssh {host}"
    if "Permission denied" in said:
        return f"pgdyno never asks for a password: give ssh a key or an agent that {host} accepts; try: ssh {host} true"
    return f"try: ssh {host} true"


END_S = 10.0
RENEW_S = 1.0
LOOK_S = 0.05
HEAD_S = 90.0


def own_address(towards: str) -> str:
    """Return this machine's address towards a host; Ray leaves the loopback address if there is another."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            # connecting a UDP socket sends nothing
            sock.connect((towards, 9))
        except OSError:
            return "127.0.0.1"
        address: str = sock.getsockname()[0]
        return address


def free_port(ip: str) -> int:
    with socket.socket() as sock:
        sock.bind((ip, 0))
        port: int = sock.getsockname()[1]
        return port


def wait_for_head(address: tuple[str, int], is_over: Callable[[], EngineError | None]) -> None:
    """Wait until `address` accepts connections; `is_over` returns why it never will. Raises EngineError."""
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
def running_node(
    node: Node, token: str, log: Path, go: threading.Event, tls: Authority | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Yield the process of `node`, which starts when `go` is set and ends with the block; output goes to `log`."""
    with log.open("ab") as said:
        process = subprocess.Popen(
            local_command() if node.host is None else ssh_command(node.host),
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=said,
            # this process handles Ctrl-C: the load ends before its nodes
            start_new_session=True,
        )
    assert process.stdin is not None
    is_over = threading.Event()
    # the head is on this machine and ends last
    told = (process.stdin, order(node, token, log.parent if node.is_head else None, tls), go, is_over)
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
    """Send `first`, `go` when it is set, and then renewals until it `is_over`; the node owns the stream's end."""
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
    return log.read_text(errors="replace") if log.is_file() else ""


def last_words(log: Path) -> str:
    """Return the last line of a node's output."""
    lines = said_of(log).strip().splitlines()
    return lines[-1] if lines else "it printed no message"


SCHEME = "ray://"
ANSWER_S = 10.0
"""The time limit for a connection, and for an answer."""
_LISTENING = "its port is --ray-client-server-port of `ray start --head` (10001 by default); check routes, too"
_LET_IN = "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN to what that cluster was started with"


def look(address: str) -> None:
    """Check that a Ray head answers at `address`. Raises EngineError."""
    host, _, port = address.removeprefix(SCHEME).rpartition(":")
    try:
        # gRPC would retry without reporting the reason
        socket.create_connection((host, int(port)), ANSWER_S).close()
    except (OSError, OverflowError) as error:
        raise _join_error(address, f"no process listens there: {error}", _LISTENING) from error
    _ping(address, f"{host}:{port}")


def _ping(address: str, where: str) -> None:
    try:
        import grpc
        from ray._private.grpc_utils import init_grpc_channel
        from ray.exceptions import AuthenticationError

        # generated by protoc, without types
        messages, calls = (
            import_module(f"ray.core.generated.{name}") for name in ("ray_client_pb2", "ray_client_pb2_grpc")
        )
    except ImportError as error:
        raise _join_error(
            address, f"Ray's client is not installed on this machine ({error.name})", "pip install 'ray[client]'"
        ) from error
    channel = init_grpc_channel(where)
    try:
        request = messages.ClusterInfoRequest(type=messages.ClusterInfoType.PING)
        calls.RayletDriverStub(channel).ClusterInfo(request, timeout=ANSWER_S)
    except grpc.RpcError as error:
        # exceptions of a call are calls themselves, which the types do not show
        call: Any = error
        if call.code() == grpc.StatusCode.UNAUTHENTICATED:
            raise _join_error(address, f"it refuses access: {call.details()}", _LET_IN) from error
        raise _join_error(address, f"no server of Ray's clients answers: {call.details()}", _LISTENING) from error
    except AuthenticationError as error:
        raise _join_error(address, "RAY_AUTH_MODE is token, but no token is set", _LET_IN) from error
    finally:
        channel.close()


def _join_error(address: str, why: str, hint: str) -> EngineError:
    return EngineError(f"cannot join the Ray cluster at {address}: {why}", hint=hint)
