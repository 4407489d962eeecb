"""A copy of the package that a test changes and then runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def copy_package(folder: Path) -> Path:
    """Copies pgdyno into `folder`, which goes onto PYTHONPATH; the path of the copy.

    What Python has compiled is copied too. It stays valid, because the files keep their times of modification; a file
    that another process is just writing has one more suffix.
    """
    package = folder / "pgdyno"
    shutil.copytree(ROOT / "python" / "pgdyno", package, ignore=shutil.ignore_patterns("*.pyc.*"))
    return package


def python(folder: Path, *arguments: str, code: int = 0, cwd: Path = ROOT, **variables: str) -> str:
    """What Python prints that imports pgdyno from `folder`; fails unless it exits with `code`."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=os.environ | variables | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def pgdyno(folder: Path, *words: str, code: int = 0, cwd: Path = ROOT, **variables: str) -> str:
    """What a command of that pgdyno prints."""
    return python(folder, "-m", "pgdyno", *words, code=code, cwd=cwd, **variables)
