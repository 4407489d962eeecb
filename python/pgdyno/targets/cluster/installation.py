"""The programs of one PostgreSQL installation, their version, and the published release that "18" or "18.6" means.

A release on Maven Central is called MAJOR.MINOR.BUILD, sometimes with a second build number after a dash: 18.6.0,
12.17.1, 10.5.0-1. The build number is the packager's; PostgreSQL's own version is MAJOR.MINOR.
"""

import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.messages import Message
from pgdyno.targets.cluster.subprocesses import clean_environment, run_program
from pgdyno.targets.home import target_errors
from pgdyno.targets.poolers.program import Program
from pgdyno.targets.server_user import Account

OLDEST_MAJOR = 10
"""Older versions have no SCRAM passwords and use a different version scheme."""

_RELEASE = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
_CLASSIFIERS = {"x86_64": "linux-amd64", "amd64": "linux-amd64", "aarch64": "linux-arm64v8", "arm64": "linux-arm64v8"}


@dataclass(frozen=True, order=True, slots=True)
class Release:
    """One published build of a server; releases are ordered by version."""

    major: int
    minor: int
    build: int
    rebuild: int = 0

    def __str__(self) -> str:
        """Return its name on the mirror."""
        dashed = f"-{self.rebuild}" if self.rebuild else ""
        return f"{self.major}.{self.minor}.{self.build}{dashed}"

    @property
    def postgres(self) -> str:
        """Return PostgreSQL's own version: "18.6"."""
        return f"{self.major}.{self.minor}"

    def answers(self, asked: Sequence[int]) -> bool:
        """Return whether `asked` (one to three numbers) names this release or a group that includes it."""
        return (self.major, self.minor, self.build)[: len(asked)] == tuple(asked)


def parse_release(text: str) -> Release | None:
    """Parse the name of a release; None if `text` is not one."""
    match = _RELEASE.fullmatch(text)
    return None if match is None else Release(*(int(part or 0) for part in match.groups()))


def parse_asked(text: str) -> tuple[int, ...]:
    """Parse a plan's version of one to three numbers, whose form the plan has checked.

    Raises TargetError before 10.
    """
    asked = tuple(int(part) for part in text.split("."))
    if asked[0] < OLDEST_MAJOR:
        raise TargetError(
            f"cannot get PostgreSQL {text}: older than {OLDEST_MAJOR}", hint=f"use version {OLDEST_MAJOR} or later"
        )
    return asked


def newest_match(asked: Sequence[int], available: Iterable[Release]) -> Release | None:
    """Return the newest of `available` that `asked` matches."""
    return max((release for release in available if release.answers(asked)), default=None)


def resolve(text: str, available: Iterable[Release]) -> Release:
    """Return the newest of `available` that a plan's `text` means.

    Raises TargetError, which names the nearest ones.
    """
    asked = parse_asked(text)
    known = sorted(release for release in available if release.major >= OLDEST_MAJOR)
    found = newest_match(asked, known)
    if found is None:
        raise TargetError(f"cannot get PostgreSQL {text}: there is no such version", hint=_offer(asked, known))
    return found


def _offer(asked: tuple[int, ...], known: Sequence[Release]) -> str:
    if not known:
        return "the mirror has no versions for this processor architecture"
    majors = sorted({release.major for release in known})
    if len(asked) == 1 or asked[0] not in majors:
        nearest = sorted(majors, key=lambda major: (abs(major - asked[0]), -major))[:2]
        names = [str(major) for major in sorted(nearest)]
        return f"nearest: {', '.join(names)}; there are {majors[0]} to {majors[-1]}"
    peers = [release for release in known if release.major == asked[0]]
    if len(asked) == 3 and any(release.minor == asked[1] for release in peers):
        names = [str(release) for release in peers if release.minor == asked[1]]
    else:
        minors = sorted({release.minor for release in peers}, key=lambda minor: (abs(minor - asked[1]), -minor))
        names = [f"{asked[0]}.{minor}" for minor in sorted(minors[:3])]
    return f"nearest: {', '.join(names)}"


def classifier(system: str | None = None, machine: str | None = None) -> str:
    """Return the name of the build for this machine: "linux-amd64". Raises TargetError if none is published."""
    system = platform.system() if system is None else system
    machine = platform.machine() if machine is None else machine
    found = _CLASSIFIERS.get(machine.lower()) if system == "Linux" else None
    if found is None:
        raise TargetError(
            f"cannot get an embedded PostgreSQL for {system} on {machine}: "
            "there are builds for Linux on x86_64 and aarch64",
            hint='install PostgreSQL and use a target with kind = "local"',
        )
    return found


PROGRAMS = ("initdb", "postgres")

_VERSION = re.compile(r"\) (\d+)(\S*)")
"""Follows "postgres (PostgreSQL) ": 18.6, 19devel, 15.5 (Debian 15.5-0+deb12u1)."""


@dataclass(frozen=True, slots=True)
class Installation:
    """PostgreSQL programs that pgdyno has inspected and can run."""

    bin: Path
    version: str
    """As the programs report it: "18.6"."""
    major: int
    origin: str
    """The build and its source, which distinguish kept clusters."""
    library_path: str | None = None
    """LD_LIBRARY_PATH for its programs."""
    notes: list[Message] = field(default_factory=list)
    """Notes for the user about how pgdyno found it."""
    built: str | None = None
    """What pgdyno built of it: sources, patches and extensions; None of what was built before."""
    creates: list[str] = field(default_factory=list)
    """Extensions that every database of its clusters has."""
    pooler: Program | None = None
    """The connection pooler to start beside the server."""

    def program(self, name: str) -> str:
        return str(self.bin / name)

    def environment(self) -> dict[str, str]:
        """Return the environment for its programs."""
        return clean_environment(self.library_path)


def inspect_programs(folder: Path, account: Account, library_path: str | None, remedy: str) -> tuple[str, int]:
    """Inspects the PostgreSQL in `folder`, whose programs `account` must be able to run, for its version.

    Raises TargetError with `remedy` as the hint.
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
    with target_errors(path, "cannot look at"):
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
