"""Tools of a file system: `btrfs`, `zfs`."""

from __future__ import annotations

import subprocess

from pgdyno.errors import TargetError

_TIMEOUT_S = 600


def run_tool(*command: str) -> None:
    """Runs a tool as we are. Raises TargetError with what it said."""
    doing = " ".join(command)
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise TargetError(f"cannot run {doing}: {error}") from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        reason = said[-1] if said else f"it ended with {done.returncode}"
        raise TargetError(f"{doing} failed: {reason.removeprefix('ERROR: ')}")
