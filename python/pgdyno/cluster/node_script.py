"""The shell command that starts Ray on a host and ends it with whoever holds its standard input."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.plan.generators import SshNode

RESOURCE = "loadgen"
"""What a node has one of that makes load."""
HEALTH = '{"health_check_period_ms":1000,"health_check_timeout_ms":2000,"health_check_failure_threshold":3}'
STORE_BYTES = 80_000_000
"""Of shared memory: nothing of ours goes through it, and less is refused."""
STOP_S = 5
"""Until what was asked to end is killed."""


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
    folder: str = ""
    """For the head's files."""
    host: SshNode | None = None
    """None: this machine."""
    tasks: int | None = 0
    """That it does at once; None: one a processor."""


def ray_command(node: Node) -> list[str]:
    """`ray start` in the foreground, without what we do not use."""
    command = ["ray", "start", "--block", "--disable-usage-stats", f"--node-name={node.name}"]
    if node.tasks is not None:
        command.append(f"--num-cpus={node.tasks}")
    command.append(f"--object-store-memory={STORE_BYTES}")
    if node.makes_load:
        command.append(f'--resources={{"{RESOURCE}": 1}}')
    if node.ip is not None:
        command.append(f"--node-ip-address={node.ip}")
    if not node.is_head:
        return [*command, f"--address={node.address}"]
    port = node.address.rpartition(":")[2]
    options = ["--head", f"--port={port}", "--include-dashboard=false"]
    return [*command, *options, f"--temp-dir={node.folder}", f"--system-config={HEALTH}"]


def held_script(command: Sequence[str], search: Sequence[str]) -> str:
    """A script for sh: reads Ray's token from its standard input, and ends `command` when that is closed.

    `search` are folders in which programs are looked for before those of PATH. What Ray starts are sessions of their
    own: they are found by their parents, and killed where they do not end by themselves.
    """
    path = ":".join([*search, "$HOME/.local/bin:$PATH"])
    return f"""PATH="{path}"
export PATH RAY_AUTH_MODE=token RAY_AUTH_TOKEN RAY_USAGE_STATS_ENABLED=0 PYTHONWARNINGS=ignore
read -r RAY_AUTH_TOKEN || exit 1
exec 3<&0
{shlex.join(command)} </dev/null 3<&- &
node=$!
below() {{ for each in $(ps -o pid= --ppid "$1"); do below "$each"; echo "$each"; done; }}
( read -r _ <&3; : ) &
held=$!
while kill -0 $held 2>/dev/null && kill -0 $node 2>/dev/null; do sleep 0.2; done
all="$(below $node) $node"
kill -TERM $node 2>/dev/null
i=0
while [ $i -lt {STOP_S * 5} ] && kill -0 $node 2>/dev/null; do sleep 0.2; i=$((i + 1)); done
kill -KILL $all 2>/dev/null
kill $held 2>/dev/null
wait $node 2>/dev/null
exit 0
"""
