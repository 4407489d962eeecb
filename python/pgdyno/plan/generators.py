"""Where a plan's load is made: `generators = [...]`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator

MOST_LOCAL = 64
FORMS = '"local:3", "ssh://host1,host2" or "ray://address:10001"'
_HOST = re.compile(r"(?:(?P<user>[^\s@:/,-][^\s@:/,]*)@)?(?P<host>[^\s@:/,-][^\s@:/,]*)(?::(?P<port>\d{1,5}))?")
_ADDRESS = re.compile(r"ray://[^\s/:]+:(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True)
class SshNode:
    """A host on which Ray is started over SSH."""

    host: str
    user: str | None
    port: int | None


@dataclass(frozen=True, slots=True)
class Places:
    """All generators of a plan."""

    local: int = 0
    """Nodes on this machine."""
    ssh: tuple[SshNode, ...] = ()
    ray: str | None = None
    """Address of a cluster that is there already; it stands alone."""


def generators(texts: Sequence[str]) -> Places:
    """What `texts` name. Raises ValueError."""
    local, ssh, ray = 0, list[SshNode](), list[str]()
    for text in texts:
        if text.startswith("local:"):
            local += _local(text)
        elif text.startswith("ssh://"):
            ssh += [_ssh_node(each) for each in text.removeprefix("ssh://").split(",")]
        elif (address := _ADDRESS.fullmatch(text)) is not None and _is_port(address["port"]):
            ray.append(text)
        else:
            lacks = "has no port of Ray's clients" if text.startswith("ray://") else "is no place to work at"
            raise ValueError(f"{text!r} {lacks}; write {FORMS}")
    if local > MOST_LOCAL:
        raise ValueError(f"{local} nodes on this machine are too many; write at most local:{MOST_LOCAL}")
    if len(ray) > 1 or (ray and (local or ssh)):
        raise ValueError("a cluster that is there already (ray://) stands alone; name nothing beside it")
    if len(set(ssh)) < len(ssh):
        raise ValueError("names a host twice; a generator has a host of its own")
    return Places(local, tuple(ssh), ray[0] if ray else None)


def _local(text: str) -> int:
    number = text.removeprefix("local:")
    if not number.isdecimal() or not 1 <= int(number) <= MOST_LOCAL:
        raise ValueError(f"{text!r} is no number of nodes from 1 to {MOST_LOCAL}; write such as local:3")
    return int(number)


def _is_port(text: str) -> bool:
    # the C library takes a larger one for another port
    return 1 <= int(text) <= 65_535


def _ssh_node(text: str) -> SshNode:
    found = _HOST.fullmatch(text)
    if found is None or not _is_port(found["port"] or "22"):
        what = f"{text!r} is no host" if text else "'ssh://' names no host, or there is none between two commas"
        raise ValueError(f'{what}; write "ssh://host1,user@host2:2222"')
    port = found["port"]
    return SshNode(found["host"], found["user"], int(port) if port else None)


def _valid(texts: list[str]) -> list[str]:
    generators(texts)
    return texts


Generators = Annotated[list[str], AfterValidator(_valid)]
