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
_ADDRESS = re.compile(r"ray://[^\s/:]+:\d{1,5}")


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
        kind, _, rest = text.partition(":")
        if kind == "local" and rest.isdigit() and 1 <= int(rest) <= MOST_LOCAL:
            local += int(rest)
        elif text.startswith("ssh://"):
            ssh += [_ssh_node(each) for each in text.removeprefix("ssh://").split(",")]
        elif _ADDRESS.fullmatch(text):
            ray.append(text)
        else:
            raise ValueError(f"{text!r} is no place for generators; write {FORMS}")
    if len(ray) > 1 or (ray and (local or ssh)):
        raise ValueError("a cluster that is there already (ray://) stands alone; name nothing beside it")
    if len(set(ssh)) < len(ssh):
        raise ValueError("names a host twice; a generator has a host of its own")
    return Places(local, tuple(ssh), ray[0] if ray else None)


def _ssh_node(text: str) -> SshNode:
    found = _HOST.fullmatch(text)
    if found is None:
        raise ValueError(f'{text!r} is no host; write "ssh://host1,user@host2:2222"')
    port = found["port"]
    return SshNode(found["host"], found["user"], int(port) if port else None)


def _valid(texts: list[str]) -> list[str]:
    generators(texts)
    return texts


Generators = Annotated[list[str], AfterValidator(_valid)]
