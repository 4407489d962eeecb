"""Source trees of tests: the extension busywork, with the amount of work that a test wants, and a small server."""

import re
import shutil
import subprocess
from pathlib import Path

from pgdyno.targets.cluster.installation import Installation

SOURCES = Path(__file__).parent / "busywork"
_CONFIGURE = """\
#!/bin/sh
echo "checking the machine"
for argument in "$@"; do
    case $argument in
        --prefix=*) prefix=${argument#--prefix=} ;;
        --without-luck) echo "configure: error: no luck" >&2; exit 77 ;;
    esac
done
echo once >> COUNT
cat > Makefile <<END
all: ; @echo "compiling with $CFLAGS"
install:
\tmkdir -p "\\$(DESTDIR)$prefix"
\tcd "\\$(DESTDIR)$prefix" && ln -s BUILT/bin BUILT/lib BUILT/share .
END
"""
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
    """Commit all files of `folder`, after making it a repository if necessary; return the commit."""
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
    found = subprocess.run(["pg_config", "--bindir", "--includedir-server"], check=True, capture_output=True, text=True)
    folder, headers = map(Path, found.stdout.split())
    assert (headers / "postgres.h").is_file(), "install postgresql-server-dev-all"
    return folder


def write_tree(folder: Path, installed: Installation) -> Path:
    """Write a tree that stands for PostgreSQL's: its configure writes a Makefile, which installs links to `installed`
    and counts its runs in the file `count` next to the tree.
    """
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "main.c").write_text("int main() {}\n")
    text = _CONFIGURE.replace("COUNT", str(folder.parent / "count")).replace("BUILT", str(installed.bin.parent))
    (folder / "configure").write_text(text)
    (folder / "configure").chmod(0o755)
    return folder
