"""Who may connect to a server that pgdyno starts: pg_hba.conf and pg_ident.conf, rewritten at every start.

Through the socket, peer authentication accepts pgdyno's own user as `postgres`, and nobody else. Under root, servers
run as another user, whose other processes can reach the socket but have no password. Every other role, and every
connection over TCP, needs a password (SCRAM).
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.targets.account import Account
from pgdyno.targets.cluster import USER
from pgdyno.targets.private_file import write_private
from pgdyno.targets.storage import storing

_HEAD = "# pgdyno rewrites this file at every start\n"
_MAP = "pgdyno"
PASSWORD_FILE = "pgpass"  # noqa: S105 - its name
"""Next to a standby's data directory: the password for its primary."""


def write_access(data_directory: Path) -> None:
    """Writes both files of a cluster, whatever they said before. Raises TargetError."""
    lines = [
        f"local all {USER} peer map={_MAP}",
        "local all,replication all scram-sha-256",
        "host all,replication all 127.0.0.1/32 scram-sha-256",
    ]
    _write(data_directory / "pg_hba.conf", lines)
    _write(data_directory / "pg_ident.conf", [f"{_MAP} {_quoted(_own_name())} {USER}"])


def write_password_file(path: Path, password: str, account: Account) -> None:
    """A password file of libpq's that only `account` can read, for a program that runs as that user.

    Raises TargetError.
    """
    write_private(path, f"*:*:*:{USER}:{password}\n", account)


def _own_name() -> str:
    uid = os.geteuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        # initdb refuses such a user, too
        raise TargetError(f"user {uid} has no name on this host", hint="add the user to /etc/passwd") from None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _write(path: Path, lines: list[str]) -> None:
    with storing(path, "cannot write"):
        # no link is followed: the folder is the server user's, and we may be root
        handle = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.truncate()
            file.write(_HEAD + "".join(f"{line}\n" for line in lines))
