"""Runs a program to its end, and returns what it printed."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.waiting import PATIENCE_S

BIN = Path(sys.executable).parent
PGDRIVE = BIN / "pgdrive"
Word = str | os.PathLike[str]


def run_program(
    command: Sequence[Word],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Word | None = None,
    input: str | None = None,  # noqa: A002 - as subprocess has it
    executable: Word | None = None,
    timeout: float = PATIENCE_S,
    check: bool = False,
    code: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """Returns the exit code, which must be `code` if that is given, and both outputs of `command`.

    Standard input ends at once unless it is given.
    """
    stdin = subprocess.DEVNULL if input is None else None
    done = subprocess.run(
        command, env=env, cwd=cwd, input=input, stdin=stdin, executable=executable, timeout=timeout, check=check,
        capture_output=True, text=True,
    )  # fmt: skip
    assert code in (None, done.returncode), done.stdout + done.stderr
    return done
