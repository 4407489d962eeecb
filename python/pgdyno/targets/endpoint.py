"""Where a server listens: a port nobody has, and a folder for its socket."""

from __future__ import annotations

import re
import secrets
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.targets.account import Account
from pgdyno.targets.storage import storing

HOST = "127.0.0.1"
MAX_SOCKET_PATH_BYTES = 107
"""sun_path of Linux holds 108 with the zero at the end (unix(7))."""

_FOLDER_NAME = re.compile(r"pgdyno-[0-9a-f]{8}")
_LONGEST_SOCKET = "/.s.PGSQL.65535.lock"


def free_port() -> int:
    """A TCP port of the loopback address that is free now; another may take it at any time."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def make_socket_folder(account: Account, announce: Callable[[Path], None]) -> Path:
    """A folder for sockets that only `account` (and root) can enter, with a short path.

    `announce` is told the path before the folder is there. Raises TargetError.
    """
    parent = _short_parent(account)
    while True:
        folder = parent / f"pgdyno-{secrets.token_hex(4)}"
        if folder.exists():
            continue
        announce(folder)
        with storing(folder, "cannot create the folder"):
            try:
                folder.mkdir(0o700)
            except FileExistsError:
                continue
            account.take(folder)
            return folder


def remove_socket_folder(folder: Path, allowed_uids: set[int]) -> bool:
    """Removes a folder that `make_socket_folder` made; leaves what is not one. True when it was there."""
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return False
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid in allowed_uids
    if not ours or _FOLDER_NAME.fullmatch(folder.name) is None:
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


def _short_parent(account: Account) -> Path:
    # S108: names in it are drawn, and mkdir refuses what is there
    tried = list(dict.fromkeys([tempfile.gettempdir(), "/tmp"]))  # noqa: S108
    for place in tried:
        folder = Path(place) / "pgdyno-12345678"
        short = len(str(folder)) + len(_LONGEST_SOCKET) <= MAX_SOCKET_PATH_BYTES
        # a folder for temporary files may be closed to the server's user
        if short and _writable(folder.parent) and account.blocked_at(folder) is None:
            return folder.parent
    raise TargetError(
        f"cannot make a folder for the server's socket: none of {', '.join(tried)} will do",
        hint="set TMPDIR to a folder with a short path that can be written to",
    )


def _writable(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
