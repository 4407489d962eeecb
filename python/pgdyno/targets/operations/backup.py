"""A base backup by pg_basebackup as an operation, whose files are removed after it."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.programs import ask

PROGRAM = "pg_basebackup"
_DEBIAN = Path("/usr/lib/postgresql")
_MAJOR = re.compile(r"\(PostgreSQL\) (\d+)")


def backup_command(server_version: int, to: Path, max_rate: str | None, folders: list[Path]) -> list[str]:
    """Return the command line of a backup of a server of `server_version` (150018) into `to`.

    The program is that of `folders`, of Debian's packages, or of PATH: of the server's version, or a later one. Raises
    TargetError without one.
    """
    major = server_version // 10_000
    program = next((each for each in _programs(major, folders) if (_major_of(each) or 0) >= major), None)
    if program is None:
        raise TargetError(
            f"there is no {PROGRAM} of PostgreSQL {major} or later on this machine",
            hint=f"install Debian's package postgresql-client-{major}, or put {PROGRAM} in PATH",
        )
    # as tar, tablespaces need no place of their own
    how = ["--format=tar", "--wal-method=stream", "--checkpoint=fast", "--no-password"]
    return [program, f"--pgdata={to}", *how, *([f"--max-rate={max_rate}"] if max_rate is not None else [])]


def _programs(major: int, folders: list[Path]) -> Iterator[str]:
    versions = sorted((int(each.name) for each in _DEBIAN.glob("[0-9]*") if each.name.isdecimal()), reverse=True)
    debian = [_DEBIAN / str(version) / "bin" for version in sorted(versions, key=lambda version: version != major)]
    for folder in [*folders, *debian, *map(Path, os.get_exec_path())]:
        found = shutil.which(PROGRAM, path=str(folder))
        if found is not None:
            yield found


def _major_of(program: str) -> int | None:
    found = _MAJOR.search(ask([program, "--version"], check=False).stdout)
    return None if found is None else int(found[1])
