"""How Ray is started on a host, here or over SSH, and what is the matter where it is not."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from pgdyno.cluster.requirements import FOLDER, LEASE_S, REFUSED, wanted
from pgdyno.errors import EngineError
from pgdyno.plan.generators import SshNode

RESOURCE = "loadgen"
"""What a node has one of that makes load."""
HEALTH = '{"health_check_period_ms":1000,"health_check_timeout_ms":2000,"health_check_failure_threshold":3}'
STORE_BYTES = 80_000_000
"""Of shared memory: nothing of ours goes through it, and less is refused."""
CONNECT_S = 10
NOT_FOUND, USAGE, SSH_FAILED = 127, 2, 255
"""Exit codes: of the shell, of an earlier pgdyno, of ssh itself."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of Ray as we start it."""

    name: str
    address: str
    """`host:port` of the head."""
    ip: str | None
    """Its own; None lets Ray find out."""
    is_head: bool
    makes_load: bool
    host: SshNode | None = None
    """None: this machine."""
    tasks: int | None = 0
    """That it does at once; None: one a processor."""


def ray_command(node: Node) -> list[str]:
    """`ray start` in the foreground, without what we do not use."""
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


def started_here() -> list[str]:
    """A command that holds a node on this machine."""
    return [sys.executable, "-m", "pgdyno.cluster.node"]


def started_over_ssh(node: SshNode) -> list[str]:
    """A command that holds a node on another host, as OpenSSH's own files say it is reached; nobody is asked."""
    alive = ["-o", "ServerAliveInterval=2", "-o", "ServerAliveCountMax=3"]
    options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}", *alive]
    return ["ssh", "-T", *options, *_way(node), f"exec sh -c {shlex.quote(_find_and_hold())}"]


def address_of(node: SshNode) -> str:
    """Where `ssh` goes for it: files of OpenSSH may give a host another name. Raises EngineError."""
    try:
        command = ["ssh", "-G", *_way(node)]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
    except FileNotFoundError as error:
        hint = "install OpenSSH's client (openssh-client)"
        raise EngineError(f"cannot reach {node.host}: ssh is not installed on this machine", hint=hint) from error
    for line in done.stdout.splitlines():
        name, _, value = line.partition(" ")
        if name == "hostname":
            return value
    return node.host


def _way(node: SshNode) -> list[str]:
    port = [] if node.port is None else ["-p", str(node.port)]
    user = [] if node.user is None else ["-l", node.user]
    return [*port, *user, node.host]


def _find_and_hold() -> str:
    """For sh: pgdyno may be installed there in the same folder as here."""
    here = shlex.quote(str(Path(sys.executable).parent))
    return f'PATH={here}:"$HOME/.local/bin:$PATH"; export PATH; exec pgdyno generator-node'


def order(node: Node, token: str, logs: Path | None = None) -> bytes:
    """What a node is told first: a line for its standard input, where no list of processes shows it.

    It removes the folder `logs` where the driver is killed, who would have done that.
    """
    told = {
        "command": ray_command(node),
        "token": token,
        "lease_s": LEASE_S,
        "wants": wanted(),
        "reach": None if node.is_head else node.address,
        "logs": None if logs is None else str(logs),
    }
    return json.dumps(told).encode() + b"\n"


def refusal(node: Node, code: int, said: str) -> EngineError | None:
    """Why `node` ended with exit code `code`, where starting it again is of no use; None where it may be."""
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
        wants = wanted()["pgdyno"]
        hint = f'pip install --user "pgdyno[cluster]=={wants}" there, or into the same folder as here'
        return EngineError(f"{message}, in ~/.local/bin or on the PATH there", hint=hint)
    if code == USAGE:
        message = f"{host} cannot be a generator: its pgdyno is from another release"
        return EngineError(message, hint=f"install pgdyno {wanted()['pgdyno']} there")
    if code == SSH_FAILED:
        return EngineError(
            f"cannot reach {host} over SSH: {last or 'ssh printed no message'}", hint=_remedy(host, said)
        )
    return None


def _remedy(host: str, said: str) -> str:
    if "Host key verification failed" in said or "IDENTIFICATION HAS CHANGED" in said:
        return f"compare its host key with what its owner says, then: ssh {host}"
    if "Permission denied" in said:
        return f"pgdyno never asks for a password: give ssh a key or an agent that {host} accepts; try: ssh {host} true"
    return f"try: ssh {host} true"
