"""The extension busywork: written into a folder with the amount of work that a test wants, and kept in git."""

import re
import shutil
import subprocess
from pathlib import Path

SOURCES = Path(__file__).parent / "busywork"
_IDENTITY = ("-c", "user.name=x", "-c", "user.email=x@example.net", "-c", "commit.gpgsign=false")


def write_extension(folder: Path, **rounds: int) -> Path:
    """Copy the sources into `folder`, with other numbers of rounds: `mix=20000`, `fold=2000`, `sort=20`."""
    shutil.copytree(SOURCES, folder, dirs_exist_ok=True)
    change_rounds(folder, **rounds)
    return folder


def change_rounds(folder: Path, **rounds: int) -> None:
    """Change how much work each function of the sources in `folder` does."""
    header = folder / "rounds.h"
    text = header.read_text()
    for name, number in rounds.items():
        text, changed = re.subn(rf"(?m)^(#define {name.upper()}_ROUNDS) .*$", rf"\1 {number}", text)
        assert changed == 1, name
    header.write_text(text)


def commit_all(folder: Path, subject: str = "change") -> str:
    """Commit all files of `folder`, a new repository if it is none; return the commit."""
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", subject)
    return git(folder, "rev-parse", "HEAD").strip()


def git(folder: Path, *arguments: str) -> str:
    """Run git in `folder`; return what it prints."""
    command = ["git", *_IDENTITY, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def programs_with_headers() -> Path:
    """Return the folder of the programs that pg_config on the PATH names; `make test-packages` installs its headers."""
    found = subprocess.run(["pg_config", "--bindir", "--pgxs"], check=True, capture_output=True, text=True)
    folder, makefile = map(Path, found.stdout.split())
    assert makefile.is_file(), "install postgresql-server-dev-all"
    return folder
