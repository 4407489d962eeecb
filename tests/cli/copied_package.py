"""A copy of the package that a test changes and then runs."""

import os
import shutil
import sys
from pathlib import Path

from tests.run_program import run_program

ROOT = Path(__file__).parents[2]


def copy_package(folder: Path) -> Path:
    """Copies pgdyno into `folder`, which must be added to PYTHONPATH; returns the copy's path.

    The compiled files are copied, too. They stay valid, because the copies keep their modification times; temporary
    files of other processes that are compiling have another suffix.
    """
    package = folder / "pgdyno"
    shutil.copytree(ROOT / "python" / "pgdyno", package, ignore=shutil.ignore_patterns("*.pyc.*"))
    return package


def python(folder: Path, *arguments: str, code: int = 0, cwd: Path = ROOT, **variables: str) -> str:
    """Returns the output of Python with pgdyno from `folder`; asserts that it exits with `code`.

    What generates pages can be imported, too.
    """
    done = run_program(
        [sys.executable, *arguments],
        env=os.environ | variables | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT / 'tools'}"},
        cwd=cwd,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def pgdyno(folder: Path, *words: str, code: int = 0, cwd: Path = ROOT, **variables: str) -> str:
    return python(folder, "-m", "pgdyno", *words, code=code, cwd=cwd, **variables)
