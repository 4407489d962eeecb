"""Mounted file systems."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

MOUNTINFO = Path("/proc/self/mountinfo")


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of /proc/self/mountinfo."""

    point: str
    kind: str
    device: str
    """A device, or the name of a ZFS dataset."""
    number: str
    """`major:minor`."""
    options: frozenset[str]
    """Options of the mount and of the file system."""


def parse_mounts(lines: Iterable[str]) -> list[Mount]:
    """Returns all mounts in mount order (proc(5))."""
    found = []
    for line in lines:
        before, dash, after = line.partition(" - ")
        left, right = before.split(), after.split(" ")
        if dash and len(left) >= 6 and len(right) >= 3:
            options = frozenset([*left[5].split(","), *right[2].split(",")])
            found.append(Mount(_unescaped(left[4]), right[0], _unescaped(right[1]), left[2], options))
    return found


def mount_above(mounts: Iterable[Mount], path: Path) -> Mount | None:
    """Returns the mount of the resolved `path`: the longest mount point above it, and the last of equals."""
    above = {str(path), *(str(parent) for parent in PurePosixPath(path).parents)}
    under = [mount for mount in mounts if mount.point in above]
    return max(enumerate(under), key=lambda pair: (len(pair[1].point), pair[0]))[1] if under else None


def mounted_at(path: Path) -> Mount | None:
    """Returns the mount of `path`, or of its nearest existing parent; None if it cannot be determined."""
    try:
        lines = MOUNTINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return mount_above(parse_mounts(lines), path.resolve())


def _unescaped(text: str) -> str:
    for code, character in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
        text = text.replace(code, character)
    return text
