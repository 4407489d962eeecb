"""A copy of a stopped cluster, next to it, to restore it from.

The folder `snapshot` next to the data directory holds `data` and `snapshot.json`; it gets that name when it is
complete. During a restore the data directory is missing: a process that finds it missing while the copy exists restarts
the restore. On ZFS there is only `snapshot.json`, because rolling back the cluster is atomic.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import AliasChoices, Field, ValidationError

from pgdyno.errors import TargetError
from pgdyno.plan.optional_sections import SnapshotMethod
from pgdyno.records import Record
from pgdyno.targets.cluster.folders import copy_tree, shares_blocks
from pgdyno.targets.cluster.processes import end_copies
from pgdyno.targets.cluster.snapshots import btrfs, zfs
from pgdyno.targets.home import ensure_folder, target_errors, write_whole
from pgdyno.targets.server_user import Account
from pgdyno.units import format_bytes

FOLDER = "snapshot"
RECORD = "snapshot.json"
WORDS: dict[SnapshotMethod, str] = {
    "copy": "copied whole",
    "reflink": "blocks shared by reflink",
    "btrfs": "btrfs snapshot",
    "zfs": "ZFS snapshot",
}


class CopyRecord(Record):
    """The content of `snapshot.json`."""

    mark: str
    """The dataset stamp in the database's comment."""
    data_bytes: int
    """The size of the data directory."""
    method: SnapshotMethod = Field(default="copy", validation_alias=AliasChoices("method", "way"))
    """The method by which the copy was made and is restored."""


@dataclass(frozen=True, slots=True)
class ClusterCopy:
    """The copy of one cluster, whether it exists or not; all methods but `read` need a stopped server."""

    data_directory: Path
    account: Account
    kept: bool = False
    """Whether the cluster is kept for later runs."""

    @property
    def folder(self) -> Path:
        """The folder of the copy, once it is complete."""
        return self.data_directory.with_name(FOLDER)

    def read(self) -> CopyRecord | None:
        """Return the record of the copy; None if there is no complete copy."""
        try:
            return CopyRecord.model_validate_json((self.folder / RECORD).read_bytes())
        except (OSError, ValidationError):
            return None

    def create(self, mark: str, wanted: SnapshotMethod | None = None) -> str:
        """Copy the cluster in place of an earlier copy; `mark` is its dataset stamp. Returns the method in words.

        `wanted` is the required method; None selects the best available one. Raises TargetError, with sizes if space is
        short.
        """
        self._refuse_links()
        end_copies(self.data_directory.parent)
        unfinished = self.folder.with_name(f"{FOLDER}.partial")
        for old in (unfinished, self.folder):
            _remove(old)
        ensure_folder(unfinished)
        try:
            size = folder_bytes(self.data_directory)
            method = self._choose(wanted, unfinished)
            if method == "copy":
                check_room(unfinished, size, f"make a copy of the cluster {self.data_directory}")
            if method == "zfs":
                zfs.create_snapshot(self.data_directory, self.account)
            else:
                self._copy(method, self.data_directory, unfinished / "data")
            record = CopyRecord(mark=mark, data_bytes=size, method=method)
            write_whole(unfinished / RECORD, record.model_dump_json(indent=2).encode())
            with target_errors(self.folder, "cannot make"):
                unfinished.rename(self.folder)
        except BaseException:
            _remove(unfinished)
            raise
        return f"{format_bytes(size)}, {WORDS[method]}"

    def _choose(self, wanted: SnapshotMethod | None, folder: Path) -> SnapshotMethod:
        """Return the method, which is `wanted` if that is possible. Raises TargetError."""
        with target_errors(folder, "cannot write to"):
            if wanted is None:
                return best_method(folder, kept=self.kept)
            reason = refusal_of(wanted, folder, kept=self.kept)
        if reason is not None:
            raise TargetError(
                f'cannot copy the cluster {self.data_directory} as snapshot = "{wanted}" requires: {reason}',
                hint="remove reset.snapshot: pgdyno then uses the best available method",
            )
        return wanted

    def restore(self) -> str:
        """Replace the stopped cluster by the copy; return the method in words.

        Raises TargetError; `finish_restoring` then completes the restore.
        """
        record = self.read()
        if record is None:
            raise TargetError(f"cannot restore the cluster {self.data_directory}: there is no copy in {self.folder}")
        if record.method == "zfs":
            zfs.roll_back(self.data_directory)
            return WORDS[record.method]
        discarded = self.data_directory.with_name("data.discarded")
        _remove(discarded)
        with target_errors(self.data_directory, "cannot move away"):
            self.data_directory.rename(discarded)
        self.finish_restoring()
        return WORDS[record.method]

    def is_restoring(self) -> bool:
        """Return whether the cluster is missing and its copy exists."""
        return not self.data_directory.exists() and self.read() is not None

    def finish_restoring(self) -> None:
        """Completes an interrupted restore, if any. Raises TargetError."""
        record = self.read()
        if record is None or not self.is_restoring():
            return
        end_copies(self.data_directory.parent)
        unfinished = self.data_directory.with_name("data.partial")
        for old in (unfinished, self.data_directory.with_name("data.discarded")):
            _remove(old)
        self._copy(record.method, self.folder / "data", unfinished)
        with target_errors(self.data_directory, "cannot bring back"):
            unfinished.rename(self.data_directory)

    def release(self) -> None:
        """Releases what the file system holds for a cluster that is removed. Raises TargetError."""
        if not self.kept:
            zfs.destroy(self.data_directory)

    def _copy(self, method: SnapshotMethod, source: Path, to: Path) -> None:
        if method == "btrfs" and btrfs.is_subvolume(source):
            btrfs.snapshot(source, to)
            return
        if method == "btrfs":
            btrfs.create(to)
        with target_errors(to, "cannot create the folder"):
            to.mkdir(0o700, exist_ok=method == "btrfs")
            self.account.take(to)
        copy_tree(source, to, self.account, "never" if method == "copy" else "always")

    def _refuse_links(self) -> None:
        links = [entry for entry in (self.data_directory / "pg_tblspc").iterdir() if entry.is_symlink()]
        if (self.data_directory / "pg_wal").is_symlink():
            links.append(self.data_directory / "pg_wal")
        if links:
            raise TargetError(
                f"cannot copy the cluster {self.data_directory}: {links[0]} points outside it",
                hint='use method = "template", or drop the tablespace',
            )


def best_method(folder: Path, *, kept: bool) -> SnapshotMethod:
    """Return the cheapest method to copy a cluster in `folder`. Raises OSError if the folder is not writable."""
    methods: tuple[SnapshotMethod, ...] = ("btrfs", "zfs", "reflink")
    return next((method for method in methods if refusal_of(method, folder, kept=kept) is None), "copy")


def refusal_of(method: SnapshotMethod, folder: Path, *, kept: bool) -> str | None:
    """Try the method in `folder`; return why it is not possible there, or None.

    `kept` tells whether the cluster is kept for later runs. Raises OSError if the folder is not writable.
    """
    match method:
        case "btrfs":
            return btrfs.refusal(folder)
        case "zfs":
            return zfs.refusal(folder, kept=kept)
        case "reflink":
            return None if shares_blocks(folder) else f"files in {folder} cannot share blocks"
        case "copy":
            return None


def files_below(folder: Path) -> Iterator[Path]:
    """Yield regular files below `folder`; follows no links and skips files that disappear meanwhile."""
    for at, _, names in os.walk(folder):
        for name in names:
            path = Path(at, name)
            if path.is_file() and not path.is_symlink():
                yield path


def folder_bytes(folder: Path) -> int:
    """Return the bytes that the files below `folder` occupy on disk."""
    total = 0
    for path in files_below(folder):
        try:
            total += path.lstat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total


def check_room(folder: Path, needed_bytes: int, doing: str) -> None:
    """Raise TargetError if the file system of `folder` has less free space than `needed_bytes`."""
    with target_errors(folder, "cannot look at"):
        free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise TargetError(
            f"cannot {doing}: it needs {format_bytes(needed_bytes)}, and {folder} has {format_bytes(free)} free",
            hint="free space, or set PGDYNO_HOME to a folder with more",
        )


def _remove(folder: Path) -> None:
    for path in (folder / "data", folder):
        if btrfs.is_subvolume(path):
            btrfs.remove(path)
    with target_errors(folder, "cannot remove"):
        if folder.exists():
            shutil.rmtree(folder)
