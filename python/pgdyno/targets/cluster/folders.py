"""Folders for a server's files outside of the home, on a path of the plan or in memory, and copies of folders.

Each server gets a folder of its own. The claim records its name before the folder is created, so that the run, or a
later sweep, can remove it. Nothing else on that path is touched.
"""

import ctypes
import fcntl
import os
import re
import secrets
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pgdyno.errors import TargetError
from pgdyno.messages import Message
from pgdyno.mounts import expand_home
from pgdyno.plan.targets import TMPFS, Environment
from pgdyno.programs import ask
from pgdyno.targets.cluster.instance_record import Claim
from pgdyno.targets.cluster.subprocesses import clean_environment, run_program
from pgdyno.targets.home import target_errors
from pgdyno.targets.server_user import Account
from pgdyno.units import format_bytes, parse_bytes

FICLONE = 0x40049409
"""The request of ioctl_ficlone(2), which makes a file share the blocks of another."""


def copy_tree(
    source: Path, to: Path, account: Account, reflink: Literal["always", "auto", "never"], *, durable: bool = True
) -> None:
    """Copy the content of the folder `source` into the existing folder `to`, and syncs it if `durable`.

    `cp` runs as the server's user, so that links in that user's folders cannot reach files that only root may access.
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
    """Return whether two files in `folder` can share blocks. Raises OSError if the folder is not writable."""
    with tempfile.TemporaryFile(dir=folder) as source, tempfile.TemporaryFile(dir=folder) as to:
        source.write(bytes(1 << 16))
        source.flush()
        try:
            fcntl.ioctl(to, FICLONE, source.fileno())
        except OSError:
            return False
        return True


def sync_files(folder: Path) -> None:
    """Sync the file system of `folder`, with all files below the folder. Raises TargetError.

    Uses one syncfs(2) call: a cluster has a thousand files, and an fsync of each takes seconds.
    """
    with target_errors(folder, "cannot write"):
        handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(handle) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
        finally:
            os.close(handle)


_TIMEOUT_S = 600


def run_tool(*command: str) -> None:
    """Run a tool as pgdyno's own user. Raises TargetError with its output."""
    doing = " ".join(command)
    try:
        done = ask(command, limit_s=_TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise TargetError(f"cannot run {doing}: {error}") from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        reason = said[-1] if said else f"it ended with {done.returncode}"
        raise TargetError(f"{doing} failed: {reason.removeprefix('ERROR: ')}")


SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - names in it are drawn, and mkdir refuses what is there
MEMINFO = Path("/proc/meminfo")
_NAME = re.compile(r"pgdyno-[0-9a-f]{8}")
_MOUNT = "memory"


@dataclass(slots=True)
class Places:
    """The locations of one server's files."""

    data_directory: Path
    wal: Path | None = None
    """An empty folder of the server's user; None keeps WAL in the data directory."""
    notes: list[Message] = field(default_factory=list)


def make_places(wanted: Environment, claim: Claim, account: Account) -> Places:
    """Create the folders that `wanted` asks for. Raises TargetError; the claim records what exists by then."""
    places = Places(claim.data_directory)
    if wanted.data == TMPFS:
        places.data_directory = _in_memory(wanted.tmpfs_size, claim, account, places.notes) / "data"
    elif wanted.data is not None:
        places.data_directory = _create_folder(expand_home(wanted.data), claim, account) / "data"
    if wanted.wal is not None:
        places.wal = _create_folder(expand_home(wanted.wal), claim, account) / "wal"
        with target_errors(places.wal, "cannot create the folder"):
            places.wal.mkdir(0o700)
            account.take(places.wal)
    if places.data_directory != claim.data_directory:
        claim.note(data_directory=str(places.data_directory))
    return places


def remove_places(places: list[str], mount: str | None, account: Account) -> None:
    """Remove folders outside of the home that pgdyno created, as recorded in the claim. Raises TargetError."""
    if mount is not None and os.path.ismount(mount):
        run_tool("umount", mount)
    for name in places:
        path = Path(name)
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        # a manipulated record must not make pgdyno remove anything else
        is_own = stat.S_ISDIR(status.st_mode) and status.st_uid in (os.geteuid(), account.uid)
        if is_own and _NAME.fullmatch(path.name):
            with target_errors(path, "cannot remove"):
                shutil.rmtree(path)


def _create_folder(parent: Path, claim: Claim, account: Account) -> Path:
    folder = parent / f"pgdyno-{secrets.token_hex(4)}"
    blocked = account.blocked_at(folder)
    if blocked is not None:
        raise TargetError(
            f"cannot put files of a server in {parent}: {blocked} is closed to user {account.name}",
            hint="make it searchable (chmod o+x), or name another folder",
        )
    claim.note(places=[*claim.record.places, str(folder)])
    with target_errors(folder, "cannot create the folder"):
        folder.mkdir(0o755)
        folder.chmod(0o755)
    return folder


def _in_memory(size: str | None, claim: Claim, account: Account, notes: list[Message]) -> Path:
    wanted = None if size is None else parse_bytes(size)
    available = available_memory()
    if wanted is not None and wanted > available:
        raise TargetError(
            f"cannot reserve {size} for a cluster in memory: {format_bytes(available)} are available",
            hint="lower tmpfs_size, or free memory",
        )
    if wanted is not None and os.geteuid() == 0:
        mount = claim.folder / _MOUNT
        claim.note(mount=str(mount))
        with target_errors(mount, "cannot create the folder"):
            mount.mkdir(0o755)
        try:
            run_tool("mount", "-t", "tmpfs", "-o", f"size={wanted},mode=0755,nosuid,nodev", "pgdyno", str(mount))
        except TargetError as error:
            notes.append(
                Message(
                    "memory-not-limited",
                    "the folder in memory is not limited to {size}, as it has no tmpfs of its own: {error}",
                    size=str(size),
                    error=error.message,
                )
            )
        else:
            return mount
    if not SHARED_MEMORY.is_dir():
        raise TargetError(f"cannot put a cluster in memory: there is no {SHARED_MEMORY}", hint="mount a tmpfs there")
    free = shutil.disk_usage(SHARED_MEMORY).free
    if wanted is not None and wanted > free:
        raise TargetError(
            f"cannot reserve {size} for a cluster in memory: {SHARED_MEMORY} has {format_bytes(free)} free",
            hint=f"mount {SHARED_MEMORY} with a larger size, or lower tmpfs_size",
        )
    return _create_folder(SHARED_MEMORY, claim, account)


def available_memory() -> int:
    """Return the bytes available without swapping, by the kernel's estimate (MemAvailable in proc(5))."""
    for line in MEMINFO.read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
