"""Folders and files of the cache, and errors that say where it failed and what to do about it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pgdyno.errors import TargetError

_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


@contextmanager
def storing(path: Path, doing: str) -> Iterator[None]:
    """Turns an OSError inside into a TargetError: `doing` ("cannot write"), `path`, the reason, the remedy.

    Only file operations belong inside: errors of the network are OSErrors too.
    """
    try:
        yield
    except OSError as error:
        raise storage_error(error, path, doing) from error


def storage_error(error: OSError, path: Path, doing: str) -> TargetError:
    """The TargetError for `error`, which came while `doing` something to `path`."""
    reason = (error.strerror or str(error)).lower()
    hint = None
    if error.errno in _FULL:
        hint = no_space_hint(path)
    elif error.errno in _FORBIDDEN:
        hint = "set PGDYNO_HOME to a folder that can be written to"
    return TargetError(f"{doing} {path}: {reason}", hint=hint)


def no_space_hint(path: Path) -> str:
    """What to do when the file system of `path` is full."""
    return f"free space where {path} is, or set PGDYNO_HOME to a folder with more (a server needs about 200 MiB)"


def ensure_folder(path: Path, mode: int = 0o755) -> None:
    """Creates `path` and its missing parents with `mode`, whatever the umask is.

    Servers may run as another user than pgdyno, so folders on their way must be traversable.
    Folders that exist keep their mode. Raises TargetError naming the folder.
    """
    missing = []
    at = path
    while not at.exists() and at != at.parent:
        missing.append(at)
        at = at.parent
    for folder in reversed(missing):
        with storing(folder, "cannot create the folder"):
            try:
                folder.mkdir(mode)
            except FileExistsError:
                if not folder.is_dir():
                    raise
            else:
                folder.chmod(mode)
    if not path.is_dir():
        raise TargetError(f"cannot use {path}: not a folder", hint="set PGDYNO_HOME to another folder")


def write_whole(path: Path, content: bytes) -> None:
    """Writes `path` so that a reader sees all of `content` or the file as it was before."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with storing(path, "cannot write"):
        try:
            beside.write_bytes(content)
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
