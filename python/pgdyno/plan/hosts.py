"""Hosts of a plan: generators, and a server's host over SSH."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from pgdyno.errors import InvalidValueError, Problem
from pgdyno.mounts import expanded, is_file
from pgdyno.plan.plan_document import Document
from pgdyno.plan.values import Model

MOST_LOCAL = 64
FORMS = '"local:3", "ssh://host1,host2" or "ray://address:10001"'
_HOST = re.compile(r"(?:(?P<user>[^\s@:/,-][^\s@:/,]*)@)?(?P<host>[^\s@:/,-][^\s@:/,]*)(?::(?P<port>\d{1,5}))?")
_ADDRESS = re.compile(r"ray://[^\s/:]+:(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True)
class SshNode:
    """A host on which pgdyno starts Ray over SSH."""

    host: str
    user: str | None
    port: int | None


@dataclass(frozen=True, slots=True)
class Places:
    """All generators of a plan."""

    local: int = 0
    """Number of nodes on this machine."""
    ssh: tuple[SshNode, ...] = ()
    ray: str | None = None
    """Address of an existing cluster, which excludes other generators."""


def generators(texts: Sequence[str]) -> Places:
    """Parse `texts`. Raises ValueError."""
    local, ssh, ray = 0, list[SshNode](), list[str]()
    for text in texts:
        if text.startswith("local:"):
            local += _local(text)
        elif text.startswith("ssh://"):
            ssh += [_ssh_node(each) for each in text.removeprefix("ssh://").split(",")]
        elif (address := _ADDRESS.fullmatch(text)) is not None and _is_port(address["port"]):
            ray.append(text)
        else:
            lacks = "lacks the port of Ray's clients" if text.startswith("ray://") else "is not a host for generators"
            raise InvalidValueError(f"{text!r} {lacks}", f"write {FORMS}")
    if local > MOST_LOCAL:
        raise InvalidValueError(f"{local} nodes on this machine are too many", f"write at most local:{MOST_LOCAL}")
    if len(ray) > 1 or (ray and (local or ssh)):
        raise ValueError("an existing cluster (ray://) cannot be combined with other hosts")
    if len(set(ssh)) < len(ssh):
        raise InvalidValueError("names a host twice", "each generator needs its own host")
    return Places(local, tuple(ssh), ray[0] if ray else None)


def _local(text: str) -> int:
    number = text.removeprefix("local:")
    if not number.isdecimal() or not 1 <= int(number) <= MOST_LOCAL:
        raise InvalidValueError(
            f"{text!r} is not a number of nodes from 1 to {MOST_LOCAL}", "write for example local:3"
        )
    return int(number)


def _is_port(text: str) -> bool:
    # the C library would truncate a larger number to another port
    return 1 <= int(text) <= 65_535


def _ssh_node(text: str) -> SshNode:
    found = _HOST.fullmatch(text)
    if found is None or not _is_port(found["port"] or "22"):
        what = f"{text!r} is not a host" if text else "'ssh://' names no host, or has two commas in a row"
        raise InvalidValueError(what, 'write "ssh://host1,user@host2:2222"')
    port = found["port"]
    return SshNode(found["host"], found["user"], int(port) if port else None)


def _valid(texts: list[str]) -> list[str]:
    generators(texts)
    return texts


Generators = Annotated[list[str], AfterValidator(_valid)]


CACHE = "~/.cache/pgdyno"


class SshSpec(Model):
    """SSH access to the database's host. OpenSSH's files give the defaults."""

    host: Annotated[str, Field(min_length=1)]
    """A name or an address, or a host of the config file."""
    user: Annotated[str, Field(min_length=1)] | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    config: str | None = None
    """Config file in place of ~/.ssh/config."""
    known_hosts: str | None = None
    """The only file of host keys; None: those that the config names, or else ~/.ssh/known_hosts and the system's."""
    folder: str = CACHE
    """Folder for the probe on that host."""
    data: str | None = None
    """The server's data directory on that host; None: the one that the server reports, if the role may read it."""


_SSH_HOST = re.compile(r"[^\s@/-][^\s@/]*")
_USER = re.compile(r"[^\s@:-][^\s@:]*")


def check_ssh(path: tuple[str | int, ...], ssh: SshSpec, document: Document) -> Iterator[Problem]:
    """Yield problems of `ssh` that are visible without contacting the host."""
    if _SSH_HOST.fullmatch(ssh.host) is None:
        message = f"{ssh.host!r} is not a host"
        yield document.problem(
            (*path, "host"), message, 'such as "db.example.net"; user and port have keys of their own'
        )
    if ssh.user is not None and _USER.fullmatch(ssh.user) is None:
        yield document.problem((*path, "user"), f"{ssh.user!r} is not a user", 'such as "postgres"')
    for key, file in (("config", ssh.config), ("known_hosts", ssh.known_hosts)):
        if file is None:
            continue
        found = expanded(file)
        if not found.is_absolute():
            yield document.problem((*path, key), f"{file} is not an absolute path", f'such as "~/.ssh/{key}"')
        elif not is_file(found) or not os.access(found, os.R_OK):
            yield document.problem((*path, key), f"cannot read the file {found}")
    if not ssh.folder.startswith(("/", "~/")):
        message = f"{ssh.folder} is neither an absolute path nor one below the home directory of that host"
        yield document.problem((*path, "folder"), message, 'such as "/var/tmp/pgdyno" or "~/.cache/pgdyno"')
    if ssh.data is not None and not ssh.data.startswith("/"):
        message = f"{ssh.data} is not an absolute path"
        yield document.problem((*path, "data"), message, 'such as "/var/lib/postgresql/18/main"')
