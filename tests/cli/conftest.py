"""Runs of the installed programs in an empty folder."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.forked import run_pgdyno
from tests.run_program import run_program

BIN = Path(sys.executable).parent

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs pgdyno or pgdrive in an empty folder, without the caller's connection settings."""

    def call(
        program: str, *args: str, env: dict[str, str] | None = None, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "COLUMNS"))}
        # the home of all tests, with locks that no other pgdyno on this host uses
        clean |= {name: os.environ[name] for name in ("PGDYNO_HOME", "PGDYNO_LOCKS") if name in os.environ}
        env = {**clean, "COLUMNS": "80", **(env or {})}
        if program == "pgdyno":
            return run_pgdyno(args, cwd=tmp_path, env=env, stdin=stdin)
        return run_program([str(BIN / program), *args], env=env, cwd=tmp_path, input=stdin)

    return call
