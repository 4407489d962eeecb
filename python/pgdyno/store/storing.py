"""Converts file system errors to StoreError, and writes files that survive a crash."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import duckdb

from pgdyno.errors import StoreError

_HINTS = {
    errno.ENOSPC: "make room, or choose another folder with --runs",
    errno.EDQUOT: "your quota is used up; make room, or choose another folder with --runs",
    errno.EACCES: "choose a folder that you may write to with --runs",
    errno.EPERM: "choose a folder that you may write to with --runs",
    errno.EROFS: "choose a folder that can be written to with --runs",
}


@contextmanager
def storing(doing: str, path: Path) -> Iterator[None]:
    """Convert errors of the block to StoreError: `doing` is "write", "read" or the like, done to `path`."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        at = Path(os.fsdecode(error.filename)) if isinstance(error.filename, (str, bytes)) else path
        where = f"{path}" if at == path else f"{path}: {at}"
        raise StoreError(f"cannot {doing} {where}: {reason}", hint=_HINTS.get(error.errno or 0)) from error
    except duckdb.Error as error:
        hint = _HINTS[errno.ENOSPC] if "No space left" in str(error) else None
        raise StoreError(f"cannot {doing} {path}: {_first_line(error)}", hint=hint) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]


def open_new(path: Path) -> BinaryIO:
    """Create a new file at `path` for writing. Raises OSError.

    A folder from elsewhere may have a link of that name, to any file of this machine.
    """
    path.unlink(missing_ok=True)
    return path.open("xb")


def write_durably(path: Path, content: bytes) -> None:
    """Write a file that is on disk when this returns. Raises OSError."""
    with open_new(path) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_durably(path: Path, content: bytes) -> None:
    """Replace `path` with `content` atomically. Raises OSError."""
    beside = path.with_name(f".{path.name}.partial")
    try:
        write_durably(beside, content)
        beside.rename(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's entries, to disk. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Flush `folder` and everything below it to disk. Raises OSError."""
    for below in folder.iterdir():
        if below.is_dir():
            sync_tree(below)
        else:
            sync(below)
    sync(folder)
