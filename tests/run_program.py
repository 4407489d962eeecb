"""Runs a program to its end, and returns what it printed."""

import os
import subprocess
from collections.abc import Mapping, Sequence

from tests.waiting import PATIENCE_S

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
) -> subprocess.CompletedProcess[str]:
    """Returns the exit code and both outputs of `command`; standard input ends at once unless it is given."""
    stdin = subprocess.DEVNULL if input is None else None
    return subprocess.run(
        command, env=env, cwd=cwd, input=input, stdin=stdin, executable=executable, timeout=timeout, check=check,
        capture_output=True, text=True,
    )  # fmt: skip
