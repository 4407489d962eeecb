"""Checks the description of a host that is reached over SSH."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from pgdyno.errors import Problem
from pgdyno.plan.document import Document
from pgdyno.plan.ssh_words import SshSpec

_HOST = re.compile(r"[^\s@/-][^\s@/]*")
_USER = re.compile(r"[^\s@:-][^\s@:]*")


def check_ssh(path: tuple[str, ...], ssh: SshSpec, document: Document) -> Iterator[Problem]:
    """Yields problems of `ssh` that are visible without contacting the host."""
    if _HOST.fullmatch(ssh.host) is None:
        message = f"{ssh.host!r} is not a host"
        yield document.problem(
            (*path, "host"), message, 'such as "db.example.net"; user and port have keys of their own'
        )
    if ssh.user is not None and _USER.fullmatch(ssh.user) is None:
        yield document.problem((*path, "user"), f"{ssh.user!r} is not a user", 'such as "postgres"')
    for key, file in (("config", ssh.config), ("known_hosts", ssh.known_hosts)):
        if file is None:
            continue
        found = Path(file).expanduser()
        if not found.is_absolute():
            yield document.problem((*path, key), f"{file} is not an absolute path", f'such as "~/.ssh/{key}"')
        elif not found.is_file() or not os.access(found, os.R_OK):
            yield document.problem((*path, key), f"cannot read the file {found}")
    if not ssh.folder.startswith(("/", "~/")):
        message = f"{ssh.folder} is neither an absolute path nor one below the home directory of that host"
        yield document.problem((*path, "folder"), message, 'such as "/var/tmp/pgdyno" or "~/.cache/pgdyno"')
    if ssh.data is not None and not ssh.data.startswith("/"):
        message = f"{ssh.data} is not an absolute path"
        yield document.problem((*path, "data"), message, 'such as "/var/lib/postgresql/18/main"')
