"""A copy of a stopped cluster, beside it, to go back to.

The folder `snapshot` beside the data directory holds `data` and `snapshot.json`; it gets that name when it is
whole. While a cluster is brought back its data directory is missing: whoever finds it so, and the copy there,
brings it back anew. The copying is done by the server's user with `cp`, so that links in a folder of that user's
lead nobody elsewhere; file systems that can share blocks do (`--reflink`).
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from pgdyno.errors import TargetError
from pgdyno.records import Record
from pgdyno.target.account import Account
from pgdyno.target.processes import end_copies
from pgdyno.target.programs import clean_environment, run_program
from pgdyno.target.storage import ensure_folder, storing, write_whole
from pgdyno.units import format_bytes

FOLDER = "snapshot"
RECORD = "snapshot.json"


class CopyRecord(Record):
    """`snapshot.json`."""

    mark: str
    """What the database's comment said of the dataset."""
    data_bytes: int
    """Size of the data directory."""


@dataclass(frozen=True, slots=True)
class ClusterCopy:
    """The copy of one cluster, whether it is there or not; the server must be stopped for all but `read`."""

    data_directory: Path
    account: Account

    @property
    def folder(self) -> Path:
        """Holds the copy once it is whole."""
        return self.data_directory.with_name(FOLDER)

    def read(self) -> CopyRecord | None:
        """What is said of the copy; None when there is none, or none that is whole."""
        try:
            return CopyRecord.model_validate_json((self.folder / RECORD).read_bytes())
        except (OSError, ValidationError):
            return None

    def make(self, mark: str) -> str:
        """Copies the cluster in place of an earlier copy; `mark` says what it holds. How it was copied.

        Raises TargetError, with sizes where there is too little room.
        """
        self._refuse_links()
        end_copies(self.data_directory.parent)
        unfinished = self.folder.with_name(f"{FOLDER}.partial")
        for old in (unfinished, self.folder):
            _remove(old)
        ensure_folder(unfinished)
        try:
            size = folder_bytes(self.data_directory)
            shared = self._shares_blocks(unfinished)
            if not shared:
                check_room(unfinished, size, f"make a copy of the cluster {self.data_directory}")
            self._copy(self.data_directory, unfinished / "data")
            record = CopyRecord(mark=mark, data_bytes=size)
            write_whole(unfinished / RECORD, record.model_dump_json(indent=2).encode())
            with storing(self.folder, "cannot make"):
                unfinished.rename(self.folder)
        except BaseException:
            _remove(unfinished)
            raise
        return f"{format_bytes(size)}, {'blocks shared' if shared else 'copied'}"

    def restore(self) -> None:
        """Puts the copy in place of the cluster. Raises TargetError; `finish_restoring` then does the rest."""
        if self.read() is None:
            raise TargetError(f"cannot bring back the cluster {self.data_directory}: there is no copy in {self.folder}")
        discarded = self.data_directory.with_name("data.discarded")
        _remove(discarded)
        with storing(self.data_directory, "cannot move away"):
            self.data_directory.rename(discarded)
        self.finish_restoring()

    def is_restoring(self) -> bool:
        """Whether the cluster is missing and its copy is there."""
        return not self.data_directory.exists() and self.read() is not None

    def finish_restoring(self) -> None:
        """Brings the cluster back if that was begun and not ended; nothing else. Raises TargetError."""
        if not self.is_restoring():
            return
        end_copies(self.data_directory.parent)
        unfinished = self.data_directory.with_name("data.partial")
        for old in (unfinished, self.data_directory.with_name("data.discarded")):
            _remove(old)
        self._copy(self.folder / "data", unfinished)
        with storing(self.data_directory, "cannot bring back"):
            unfinished.rename(self.data_directory)

    def _copy(self, source: Path, to: Path) -> None:
        with storing(to, "cannot create the folder"):
            to.mkdir(0o700)
            self.account.take(to)
        self._run_cp("--archive", "--reflink=auto", "--no-target-directory", str(source), str(to))
        sync_files(to)

    def _run_cp(self, *arguments: str) -> None:
        status, output = run_program(["cp", *arguments], self.account, clean_environment(None))
        if status != 0:
            said = output.strip().splitlines()
            reason = said[-1].removeprefix("cp: ") if said else f"cp ended with {status}"
            raise TargetError(f"cannot copy {arguments[-2]} to {arguments[-1]}: {reason}")

    def _shares_blocks(self, folder: Path) -> bool:
        """Whether the file system of `folder` makes copies that share their blocks."""
        trial = folder / "reflink"
        with storing(trial, "cannot create the folder"):
            trial.mkdir(0o700)
            self.account.take(trial)
        try:
            self._run_cp("--reflink=always", str(self.data_directory / "global" / "pg_control"), str(trial / "file"))
        except TargetError:
            return False
        finally:
            _remove(trial)
        return True

    def _refuse_links(self) -> None:
        links = [entry for entry in (self.data_directory / "pg_tblspc").iterdir() if entry.is_symlink()]
        if (self.data_directory / "pg_wal").is_symlink():
            links.append(self.data_directory / "pg_wal")
        if links:
            raise TargetError(
                f"cannot make a copy of the cluster {self.data_directory}: {links[0]} leads out of it",
                hint='use method = "template", or drop the tablespace',
            )


def files_below(folder: Path) -> Iterator[Path]:
    """Regular files below `folder`; links are not followed, and what goes away meanwhile is left out."""
    for at, _, names in os.walk(folder):
        for name in names:
            path = Path(at, name)
            if path.is_file() and not path.is_symlink():
                yield path


def folder_bytes(folder: Path) -> int:
    """Bytes that the files below `folder` take on disk."""
    total = 0
    for path in files_below(folder):
        try:
            total += path.lstat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total


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


def check_room(folder: Path, needed_bytes: int, doing: str) -> None:
    """Raises TargetError when the file system of `folder` has no room for `needed_bytes`."""
    with storing(folder, "cannot look at"):
        free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise TargetError(
            f"cannot {doing}: it needs {format_bytes(needed_bytes)}, and {folder} has {format_bytes(free)} free",
            hint="make room, or set PGDYNO_HOME to a folder with more",
        )


def _remove(folder: Path) -> None:
    with storing(folder, "cannot remove"):
        if folder.exists():
            shutil.rmtree(folder)
