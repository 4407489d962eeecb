"""A source tree: what it is, so that a build of it can be found again."""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pgdyno.errors import TargetError
from pgdyno.targets.storage import storing

FILES = {"configure": "configure", "meson": "meson.build"}
"""What each needs in the top folder."""
_GIT_TIMEOUT_S = 120
_SHORT = 12


@dataclass(frozen=True, slots=True)
class Source:
    """A tree as it is now."""

    folder: Path
    key: str
    """Differs when anything in the tree differs that git does not ignore."""
    words: str
    """What it is, for people: `commit 1a2b3c4d5e6f, changed`."""
    meson: bool
    """Built with meson rather than configure."""


def read_source(folder: Path, system: Literal["configure", "meson"] | None = None) -> Source:
    """The tree in `folder`, to be built by `system`; None: with configure where there is one.

    Raises TargetError when there is no such tree, or it was built in place.
    """
    there = [name for name in ("configure", "meson") if (folder / FILES[name]).is_file()]
    if not there or (system is not None and system not in there):
        missing = FILES[system] if system is not None else " or ".join(FILES.values())
        raise TargetError(
            f"cannot build {folder}: there is no {missing}", hint="name the top folder of PostgreSQL's source"
        )
    meson = (system or there[0]) == "meson"
    if (folder / "config.status").exists():
        # configure of PostgreSQL refuses to build elsewhere then, or mixes both
        raise TargetError(
            f"cannot build {folder}: it was configured in place", hint=f"run make distclean in {folder} first"
        )
    commit = _git(folder, "rev-parse", "HEAD") if (folder / ".git").exists() else None
    if commit is None:
        key = _hash_files(folder, _all_files(folder))
        return Source(folder, f"tree {key}", f"files {key[:_SHORT]}", meson)
    changed = _changes(folder)
    name = commit.decode().strip()
    words = f"commit {name[:_SHORT]}" + (", changed" if changed else "")
    return Source(folder, f"commit {name} {changed}", words, meson)


def _changes(folder: Path) -> str:
    """A hash of what is not committed; empty when there is nothing."""
    diff = _git(folder, "diff", "--binary", "HEAD") or b""
    listed = _git(folder, "ls-files", "--others", "--exclude-standard", "-z") or b""
    others = [folder / os.fsdecode(name) for name in listed.split(b"\0") if name]
    if not diff and not others:
        return ""
    return hashlib.sha256(diff + _hash_files(folder, others).encode()).hexdigest()


def _git(folder: Path, *arguments: str) -> bytes | None:
    """What git says; None when it is not there, or does not know the tree (an archive beside a stray .git)."""
    # the tree may be another user's, which git would refuse: only its own files are read
    command = ["git", "-c", "safe.directory=*", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_GIT_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def _all_files(folder: Path) -> list[Path]:
    found = []
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        found += [Path(at, name) for name in sorted(names)]
    return found


def _hash_files(folder: Path, files: list[Path]) -> str:
    """Of names, modes and contents."""
    total = hashlib.sha256()
    for path in files:
        with storing(path, "cannot read"):
            status = path.lstat()
            content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
        name = os.fsencode(path.relative_to(folder))
        total.update(b"%d %o %d %s\0" % (len(name), status.st_mode, len(content), name))
        total.update(content)
    return total.hexdigest()
