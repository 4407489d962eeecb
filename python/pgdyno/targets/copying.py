"""Folders of the server's user copied file by file, with their blocks shared where that is wanted and can be had."""

from __future__ import annotations

import ctypes
import fcntl
import os
import tempfile
from pathlib import Path
from typing import Literal

from pgdyno.errors import TargetError
from pgdyno.targets.account import Account
from pgdyno.targets.programs import clean_environment, run_program
from pgdyno.targets.storage import storing

FICLONE = 0x40049409
"""ioctl_ficlone(2): one file gets the blocks of another."""


def copy_tree(
    source: Path, to: Path, account: Account, reflink: Literal["always", "auto", "never"], *, durable: bool = True
) -> None:
    """Copies what is in the folder `source` into the folder `to`, which is there, and if `durable` brings it to disk.

    The server's user does it with `cp`, so that links in a folder of that user's lead nobody elsewhere.
    Raises TargetError.
    """
    arguments = ["--archive", f"--reflink={reflink}", "--no-target-directory", str(source), str(to)]
    status, output = run_program(["cp", *arguments], account, clean_environment(None))
    if status != 0:
        said = output.strip().splitlines()
        reason = said[-1].removeprefix("cp: ") if said else f"cp ended with {status}"
        raise TargetError(f"cannot copy {source} to {to}: {reason}")
    if durable:
        sync_files(to)


def shares_blocks(folder: Path) -> bool:
    """Whether two files in `folder` can have the same blocks. Raises OSError when nothing can be written there."""
    with tempfile.TemporaryFile(dir=folder) as source, tempfile.TemporaryFile(dir=folder) as to:
        source.write(bytes(1 << 16))
        source.flush()
        try:
            fcntl.ioctl(to, FICLONE, source.fileno())
        except OSError:
            return False
        return True


def sync_files(folder: Path) -> None:
    """Brings all files below `folder`, and whatever else its file system holds back, to disk. Raises TargetError.

    One syncfs(2): a cluster has a thousand files, and a journal written for each takes seconds.
    """
    with storing(folder, "cannot write"):
        handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(handle) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
        finally:
            os.close(handle)
