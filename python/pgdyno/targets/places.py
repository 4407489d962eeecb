"""Folders for a server's files outside of the home: on a path of the plan's, or in memory.

Each gets a folder of its own, which the claim names before it is there, so that it is removed by the run or by
whoever sweeps behind it. Nothing else on that path is touched.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.plan.own_checks import TMPFS
from pgdyno.plan.targets import Environment
from pgdyno.targets.account import Account
from pgdyno.targets.claim import Claim
from pgdyno.targets.storage import storing
from pgdyno.targets.tools import run_tool
from pgdyno.units import format_bytes, parse_bytes

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - names in it are drawn, and mkdir refuses what is there
MEMINFO = Path("/proc/meminfo")
_NAME = re.compile(r"pgdyno-[0-9a-f]{8}")
_MOUNT = "memory"


@dataclass(slots=True)
class Places:
    """Where one server's files go."""

    data_directory: Path
    wal: Path | None = None
    """An empty folder of the server's user; None: with the cluster."""
    notes: list[str] = field(default_factory=list)


def make_places(wanted: Environment, claim: Claim, account: Account) -> Places:
    """Makes the folders that `wanted` asks for. Raises TargetError; the claim knows what is there by then."""
    places = Places(claim.data_directory)
    if wanted.data == TMPFS:
        places.data_directory = _in_memory(wanted.tmpfs_size, claim, account, places.notes) / "data"
    elif wanted.data is not None:
        places.data_directory = _make(Path(wanted.data).expanduser(), claim, account) / "data"
    if wanted.wal is not None:
        places.wal = _make(Path(wanted.wal).expanduser(), claim, account) / "wal"
        with storing(places.wal, "cannot create the folder"):
            places.wal.mkdir(0o700)
            account.take(places.wal)
    if places.data_directory != claim.data_directory:
        claim.note(data_directory=str(places.data_directory))
    return places


def remove_places(places: list[str], mount: str | None) -> None:
    """Removes what `make_places` made, as a claim's record names it. Raises TargetError."""
    if mount is not None and os.path.ismount(mount):
        run_tool("umount", mount)
    for name in places:
        path = Path(name)
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        # a record that was tampered with must not have us remove anything else
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and _NAME.fullmatch(path.name):
            with storing(path, "cannot remove"):
                shutil.rmtree(path)


def _make(parent: Path, claim: Claim, account: Account) -> Path:
    folder = parent / f"pgdyno-{secrets.token_hex(4)}"
    blocked = account.blocked_at(folder)
    if blocked is not None:
        raise TargetError(
            f"cannot put files of a server in {parent}: {blocked} is closed to user {account.name}",
            hint="open it for passing through (chmod o+x), or name another folder",
        )
    claim.note(places=[*claim.record.places, str(folder)])
    with storing(folder, "cannot create the folder"):
        folder.mkdir(0o755)
        folder.chmod(0o755)
    return folder


def _in_memory(size: str | None, claim: Claim, account: Account, notes: list[str]) -> Path:
    wanted = None if size is None else parse_bytes(size)
    available = available_memory()
    if wanted is not None and wanted > available:
        raise TargetError(
            f"cannot have {size} for a cluster in memory: {format_bytes(available)} are available",
            hint="lower tmpfs_size, or free memory",
        )
    if wanted is not None and os.geteuid() == 0:
        mount = claim.folder / _MOUNT
        claim.note(mount=str(mount))
        with storing(mount, "cannot create the folder"):
            mount.mkdir(0o755)
        try:
            run_tool("mount", "-t", "tmpfs", "-o", f"size={wanted},mode=0755,nosuid,nodev", "pgdyno", str(mount))
        except TargetError as error:
            notes.append(f"no tmpfs of its own, so nothing holds it to {size}: {error.message}")
        else:
            return mount
    if not SHARED_MEMORY.is_dir():
        raise TargetError(f"cannot put a cluster in memory: there is no {SHARED_MEMORY}", hint="mount a tmpfs there")
    free = shutil.disk_usage(SHARED_MEMORY).free
    if wanted is not None and wanted > free:
        raise TargetError(
            f"cannot have {size} for a cluster in memory: {SHARED_MEMORY} has {format_bytes(free)} free",
            hint=f"mount {SHARED_MEMORY} with a larger size, or lower tmpfs_size",
        )
    return _make(SHARED_MEMORY, claim, account)


def available_memory() -> int:
    """Bytes that can be had without swapping, as the kernel estimates it (proc(5), MemAvailable)."""
    for line in MEMINFO.read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
