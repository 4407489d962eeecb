"""The programs that the wheel brings beside pgdyno: where they are, and the engine that answers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import EngineError

ENGINE = "pgdrive"
ENVIRONMENT = "PGDYNO_PGDRIVE"


def locate(program: str, environment: str, what: str) -> Path:
    """The program that the variable `environment` names, else the one beside this Python, else on the PATH.

    `what` says what it is for ("the load engine"). Raises EngineError when there is none.
    """
    named = os.environ.get(environment)
    if named:
        if not os.access(named, os.X_OK):
            raise EngineError(
                f"{environment} names {named}, which cannot be run", hint=f"correct or unset {environment}"
            )
        return Path(named)
    beside = Path(sys.executable).parent / program
    if os.access(beside, os.X_OK):
        return beside
    found = shutil.which(program)
    if found is None:
        raise EngineError(
            f"{what} {program} is not installed",
            hint=f"pgdyno's wheel brings it; in a checkout run make build, or set {environment} to its path",
        )
    return Path(found)


@dataclass(frozen=True, slots=True)
class Engine:
    """A pgdrive that answers."""

    path: Path
    version: str
    through: tuple[str, ...] = ()
    """Words before it where it runs on another host; none: here."""

    @property
    def command(self) -> list[str]:
        """What starts it."""
        return [*self.through, str(self.path)]


def find_engine() -> Engine:
    """The pgdrive that `PGDYNO_PGDRIVE` names, else the one installed beside this Python, else on the PATH.

    Raises EngineError when there is none, or when it does not answer.
    """
    path = locate(ENGINE, ENVIRONMENT, "the load engine")
    try:
        answer = subprocess.run(
            [path, "--version"], capture_output=True, encoding="utf-8", errors="replace", timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise EngineError(f"the engine {path} does not answer: {error}", hint="install pgdyno anew") from error
    return Engine(path, answer.stdout.split()[-1])


ENGINES = "PGDYNO_ENGINES"
"""Environment variable with the folder of programs for other machines: `aarch64/pgdrive` and so on."""


def for_machine(program: str, machine: str) -> Path | None:
    """`program` as it was built for hosts whose `uname -m` is `machine`; None where nobody has."""
    folder = Path(os.environ.get(ENGINES) or Path(sys.prefix) / "share" / "pgdyno" / "engines")
    found = folder / machine / program
    return found if found.is_file() else None
