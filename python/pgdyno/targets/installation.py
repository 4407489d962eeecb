"""The programs of one PostgreSQL."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.targets.account import Account
from pgdyno.targets.programs import clean_environment, run_program
from pgdyno.targets.storage import storing
from pgdyno.targets.version import OLDEST_MAJOR

PROGRAMS = ("initdb", "postgres")

_VERSION = re.compile(r"\) (\d+)(\S*)")
"""Behind "postgres (PostgreSQL) ": 18.6, 19devel, 15.5 (Debian 15.5-0+deb12u1)."""


@dataclass(frozen=True, slots=True)
class Installation:
    """PostgreSQL programs that were looked at and can be run."""

    bin: Path
    version: str
    """As the programs say: "18.6"."""
    major: int
    origin: str
    """What kept clusters are told apart by: which build, from where."""
    library_path: str | None = None
    """LD_LIBRARY_PATH for it."""
    notes: list[str] = field(default_factory=list)
    """What the user should know about how it was found."""

    def program(self, name: str) -> str:
        """Path of one of its programs."""
        return str(self.bin / name)

    def environment(self) -> dict[str, str]:
        """Environment of its programs."""
        return clean_environment(self.library_path)


def inspect_programs(folder: Path, account: Account, library_path: str | None, remedy: str) -> tuple[str, int]:
    """Version and major of the PostgreSQL in `folder`, whose programs `account` can run.

    Raises TargetError with `remedy` as hint.
    """
    for name in PROGRAMS:
        _check_program(folder / name, account, remedy)
    versions = {name: _ask_version(folder / name, account, library_path, remedy) for name in PROGRAMS}
    version, major = versions["postgres"]
    if versions["initdb"][1] != major:
        raise TargetError(
            f"cannot use {folder}: initdb is version {versions['initdb'][0]}, postgres {version}", hint=remedy
        )
    if major < OLDEST_MAJOR:
        raise TargetError(
            f"cannot use {folder}: PostgreSQL {version} is older than {OLDEST_MAJOR}",
            hint=f"use version {OLDEST_MAJOR} or later",
        )
    return version, major


def _check_program(path: Path, account: Account, remedy: str) -> None:
    with storing(path, "cannot look at"):
        if not path.is_file():
            raise TargetError(f"cannot find {path.name} in {path.parent}", hint=remedy)
        blocked = account.blocked_at(path)
        if blocked is not None:
            raise TargetError(
                f"cannot run {path} as user {account.name}: {blocked} is closed to that user",
                hint="set PGDYNO_SERVER_USER to a user who may go there, or move the installation",
            )
        if not account.can_execute(path.resolve()):
            raise TargetError(f"cannot run {path} as user {account.name}: it is not executable", hint=remedy)


def _ask_version(path: Path, account: Account, library_path: str | None, remedy: str) -> tuple[str, int]:
    status, output = run_program([str(path), "--version"], account, clean_environment(library_path))
    match = _VERSION.search(output)
    if status != 0 or match is None:
        said = output.strip().splitlines()
        raise TargetError(
            f"cannot use {path}: --version says {said[-1] if said else 'nothing'} (status {status})", hint=remedy
        )
    return match[1] + match[2], int(match[1])
