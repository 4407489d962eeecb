"""Hosts of a plan: generators, and a server's host over SSH."""

import os
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field

from pgdyno.errors import InvalidValueError, Problem, UsageError
from pgdyno.mounts import expand_home, is_file
from pgdyno.plan.plan_document import Document
from pgdyno.plan.values import Model

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


MOST_LOCAL = 64
FORMS = '"local:3" or "ssh://host1,user@host2:2222"'
RAY = "ray://"
"""Begins generators on Ray, which plans of earlier releases may name."""
_HOST = re.compile(
    r"(?:(?P<user>[^\s@:/,-][^\s@:/,]*)@)?"
    r"(?:\[(?P<address>[\da-fA-F:.]+(?:%[\w.-]+)?)\]|(?P<host>[^\s@:/,\[\]-][^\s@:/,\[\]]*))(?::(?P<port>\d{1,5}))?"
)


class Places(NamedTuple):
    """All generators of a plan."""

    local: int = 0
    """Number of engines on this machine."""
    ssh: tuple[SshSpec, ...] = ()


def generators(texts: Sequence[str]) -> Places:
    """Parse `texts`. Raises ValueError, and UsageError for generators on Ray."""
    local, ssh = 0, list[SshSpec]()
    for text in texts:
        if text.startswith("local:"):
            number = text.removeprefix("local:")
            if not number.isdecimal() or not 1 <= int(number) <= MOST_LOCAL:
                raise InvalidValueError(f"{text!r} is not a number from 1 to {MOST_LOCAL}", "write for example local:3")
            local += int(number)
        elif text.startswith("ssh://"):
            ssh += [ssh_host(each) for each in text.removeprefix("ssh://").split(",")]
        elif text.startswith(RAY):
            hint = 'name the hosts: "ssh://host1,host2"; pgdyno copies pgdrive there, and needs nothing else'
            raise UsageError(f"{text}: pgdyno no longer generates load on a Ray cluster", hint=hint)
        else:
            raise InvalidValueError(f"{text!r} is not a host for generators", f"write {FORMS}")
    if local > MOST_LOCAL:
        raise InvalidValueError(f"{local} generators on this machine are too many", f"write at most local:{MOST_LOCAL}")
    if len(set(ssh)) < len(ssh):
        raise InvalidValueError("names a host twice", "each generator needs its own host")
    return Places(local, tuple(ssh))


def ssh_host(text: str) -> SshSpec:
    """Parse `[user@]host[:port]`. Raises InvalidValueError."""
    found = _HOST.fullmatch(text)
    port = None if found is None or found["port"] is None else int(found["port"])
    # the C library would truncate a larger number to another port
    if found is None or not (port is None or 1 <= port <= 65_535):
        what = f"{text!r} is not a host" if text else "'ssh://' names no host, or has two commas in a row"
        raise InvalidValueError(what, 'write "ssh://host1,user@host2:2222", and an IPv6 address in brackets')
    return SshSpec(host=found["address"] or found["host"], user=found["user"], port=port)


def _valid(texts: list[str]) -> list[str]:
    # a stored run, or a plan to be changed, opens
    generators([text for text in texts if not text.startswith(RAY)])
    return texts


Generators = Annotated[list[str], AfterValidator(_valid)]


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
        found = expand_home(file)
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
