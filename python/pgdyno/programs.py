"""Finds the programs that the wheel installs with pgdyno, and checks the engine."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pgdyno.errors import EngineError

ENGINE = "pgdrive"
ENVIRONMENT = "PGDYNO_PGDRIVE"


def ask(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    limit_s: float | None = 30,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Return what a program printed, which may be in any encoding. Raises OSError, subprocess.SubprocessError."""
    return subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=limit_s,
        check=check,
    )


def locate(program: str, environment: str, what: str) -> Path:
    """Return the program that the variable `environment` names, or else the one next to this Python, or else on the
    PATH.

    `what` describes it ("the load engine"). Raises EngineError if it is missing.
    """
    named = os.environ.get(environment)
    if named:
        if not os.access(named, os.X_OK):
            raise EngineError(
                f"{environment} names {named}, which is not executable", hint=f"correct or unset {environment}"
            )
        return Path(named)
    installed = Path(sys.executable).parent / program
    if os.access(installed, os.X_OK):
        return installed
    found = shutil.which(program)
    if found is None:
        raise EngineError(
            f"{what} {program} is not installed",
            hint=f"install pgdyno's wheel; in a checkout run make build, or set {environment} to its path",
        )
    return Path(found)


def end_process(process: subprocess.Popen[bytes], within_s: float, number: int = signal.SIGTERM) -> None:
    """Send the signal `number`, and kill a process that has not ended `within_s` later."""
    process.send_signal(number)
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Engine(NamedTuple):
    path: Path
    version: str
    through: tuple[str, ...] = ()
    """Words before the command if it runs on another host; empty on this one."""

    @property
    def command(self) -> list[str]:
        return [*self.through, str(self.path)]


def find_engine() -> Engine:
    """Return the pgdrive that `PGDYNO_PGDRIVE` names, or else the one next to this Python, or else on the PATH.

    Raises EngineError if it is missing or does not work.
    """
    path = locate(ENGINE, ENVIRONMENT, "the load engine")
    try:
        answer = ask([path, "--version"])
    except (OSError, subprocess.SubprocessError) as error:
        raise EngineError(f"cannot run the engine {path}: {error}", hint="reinstall pgdyno") from error
    return Engine(path, answer.stdout.split()[-1])


ENGINES = "PGDYNO_ENGINES"
"""Environment variable: folder of programs for other machines (`aarch64/pgdrive` and so on)."""


def for_machine(program: str, machine: str) -> Path | None:
    """Return `program` built for hosts whose `uname -m` is `machine`, or None."""
    folder = Path(os.environ.get(ENGINES) or Path(sys.prefix) / "share" / "pgdyno" / "engines")
    found = folder / machine / program
    return found if found.is_file() else None
