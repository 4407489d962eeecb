"""Which published server is meant by "18", "18.6" or "18.6.0".

A release on Maven Central is called MAJOR.MINOR.BUILD, sometimes with a further build behind a dash:
18.6.0, 12.17.1, 10.5.0-1. The build is the packager's; PostgreSQL's own version is MAJOR.MINOR.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pgdyno.errors import TargetError

OLDEST_MAJOR = 10
"""Before it PostgreSQL had no SCRAM passwords and other version numbers."""

_RELEASE = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-(\d+))?")
_CLASSIFIERS = {"x86_64": "linux-amd64", "amd64": "linux-amd64", "aarch64": "linux-arm64v8", "arm64": "linux-arm64v8"}


@dataclass(frozen=True, order=True, slots=True)
class Release:
    """One published build of a server; ordered by age."""

    major: int
    minor: int
    build: int
    rebuild: int = 0

    def __str__(self) -> str:
        """Its name on the mirror."""
        dashed = f"-{self.rebuild}" if self.rebuild else ""
        return f"{self.major}.{self.minor}.{self.build}{dashed}"

    @property
    def postgres(self) -> str:
        """PostgreSQL's own version: "18.6"."""
        return f"{self.major}.{self.minor}"

    def answers(self, asked: Sequence[int]) -> bool:
        """True when `asked` (one to three numbers) means this release or a group with it."""
        return (self.major, self.minor, self.build)[: len(asked)] == tuple(asked)


def parse_release(text: str) -> Release | None:
    """The release called `text`; None when that is no name of a release."""
    match = _RELEASE.fullmatch(text)
    return None if match is None else Release(*(int(part or 0) for part in match.groups()))


def parse_asked(text: str) -> tuple[int, ...]:
    """One to three numbers of a plan's version; the plan has checked the form. Raises TargetError before 10."""
    asked = tuple(int(part) for part in text.split("."))
    if asked[0] < OLDEST_MAJOR:
        raise TargetError(
            f"cannot get PostgreSQL {text}: older than {OLDEST_MAJOR}", hint=f"use version {OLDEST_MAJOR} or later"
        )
    return asked


def newest_match(asked: Sequence[int], available: Iterable[Release]) -> Release | None:
    """The newest of `available` that `asked` means."""
    return max((release for release in available if release.answers(asked)), default=None)


def resolve(text: str, available: Iterable[Release]) -> Release:
    """The newest of `available` that a plan's `text` means. Raises TargetError offering the nearest ones."""
    asked = parse_asked(text)
    known = sorted(release for release in available if release.major >= OLDEST_MAJOR)
    found = newest_match(asked, known)
    if found is None:
        raise TargetError(f"cannot get PostgreSQL {text}: there is no such version", hint=_offer(asked, known))
    return found


def _offer(asked: tuple[int, ...], known: Sequence[Release]) -> str:
    if not known:
        return "the mirror has no versions for this kind of processor"
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
    """Name of the build for this kind of machine: "linux-amd64". Raises TargetError when there is none."""
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
