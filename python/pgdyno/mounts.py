"""Mounted file systems, and what is at a path that a user gave.

Before Python 3.14, methods of Path raise OSError for a name that is too long, and for one in a folder that may not be
read; expanduser raises RuntimeError for an unknown user. A wrong path is an everyday mistake: most of these functions
raise nothing, and the caller says what is wrong.
"""

import errno
import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import NamedTuple

MOUNTINFO = Path("/proc/self/mountinfo")
MOST_BYTES = 64 * 1024 * 1024
"""Of a plan or a price list: more than anybody writes."""


def exists(path: str | os.PathLike[str]) -> bool:
    """Return whether something is at `path`; False also if that cannot be determined."""
    return os.path.exists(path)  # noqa: PTH110 - raises nothing


def is_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a regular file is at `path`; False also if that cannot be determined."""
    return os.path.isfile(path)  # noqa: PTH113 - raises nothing


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder is at `path`; False also if that cannot be determined."""
    return os.path.isdir(path)  # noqa: PTH112 - raises nothing


def without_folder(path: str | os.PathLike[str]) -> str:
    """Return why there is no folder at `path`: nothing is there, or something else."""
    return f"{path} is not a folder" if exists(path) else f"folder {path} does not exist"


def read_within(path: Path) -> bytes:
    """Return the content of the file at `path`; a device has no end, and would fill the memory.

    Raises OSError, also if there are more than `MOST_BYTES`.
    """
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return content


def expand_home(path: str | os.PathLike[str]) -> Path:
    """Return `path` with the home directory for its `~`; unchanged if there is no such user."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - raises nothing


class Mount(NamedTuple):
    point: str
    kind: str
    device: str
    """A device, or the name of a ZFS dataset."""
    number: str
    """`major:minor`."""
    options: frozenset[str]
    """Options of the mount and of the file system."""


def parse_mounts(lines: Iterable[str]) -> list[Mount]:
    """Return all mounts in mount order (proc(5))."""
    found = []
    for line in lines:
        before, dash, after = line.partition(" - ")
        left, right = before.split(), after.split(" ")
        if dash and len(left) >= 6 and len(right) >= 3:
            options = frozenset([*left[5].split(","), *right[2].split(",")])
            found.append(Mount(_unescape(left[4]), right[0], _unescape(right[1]), left[2], options))
    return found


def mount_above(mounts: Iterable[Mount], path: Path) -> Mount | None:
    """Return the mount of the resolved `path`: the longest mount point above it, and the last of equals."""
    above = {str(path), *(str(parent) for parent in PurePosixPath(path).parents)}
    under = [mount for mount in mounts if mount.point in above]
    return max(enumerate(under), key=lambda pair: (len(pair[1].point), pair[0]))[1] if under else None


def mounted_at(path: Path) -> Mount | None:
    """Return the mount of `path`, or of its nearest existing parent; None if it cannot be determined."""
    try:
        lines = MOUNTINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return mount_above(parse_mounts(lines), path.resolve())


def _unescape(text: str) -> str:
    for code, character in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
        text = text.replace(code, character)
    return text
