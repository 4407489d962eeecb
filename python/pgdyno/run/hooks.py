"""Commands of a plan around its run and its trials: never left behind, their output kept."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import ExitCode, PgdynoError
from pgdyno.units import format_duration

GRACE_S = 5.0
"""How long a command that was told to end may take before it is killed."""
_POLL_S = 0.02
_SHOWN = 200
"""How much of a command's last line is said."""


class HookError(PgdynoError):
    """A hook that failed, could not be started, or took too long."""

    exit_code = ExitCode.STOPPED


@dataclass(frozen=True, slots=True)
class Hook:
    """One of the plan's commands."""

    name: str
    """before_run, after_run, before_trial, after_trial."""
    command: str | list[str]
    """A line for /bin/sh, or a program and its arguments."""
    folder: Path
    """Where it runs."""
    timeout_s: float


def run_hook(hook: Hook, environment: Mapping[str, str], log: Path) -> None:
    """Runs `hook` to its end with `environment` beside our own; what it writes goes to the file `log`.

    Raises HookError when it fails, cannot be started or takes too long. When that or anything else ends it,
    Ctrl-C among it, all that it has started in its process group ends with it.
    """
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                hook.command,
                shell=isinstance(hook.command, str),
                cwd=hook.folder,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # a group of its own, so that it can be ended with its children
                start_new_session=True,
            )
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise HookError(f"the hook {hook.name} cannot be started: {reason}") from error
        try:
            code = process.wait(hook.timeout_s)
        except BaseException as error:
            _end_group(process)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            limit = format_duration(hook.timeout_s)
            hint = "give it more time with hooks.timeout"
            raise HookError(f"the hook {hook.name} was ended after {limit}{_last(log)}", hint=hint) from None
        finally:
            _hide(environment.get("PGPASSWORD"), log)
    if code != 0:
        ended = f"exit code {code}" if code > 0 else f"signal {-code}"
        raise HookError(f"the hook {hook.name} ended with {ended}{_last(log)}")


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends the command and its children: first by SIGTERM, then by force."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        # the leader is waited for last: until then its number cannot be another's group
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        end = time.monotonic() + GRACE_S
        while not _is_gone(process.pid) and time.monotonic() < end:
            time.sleep(_POLL_S)
        if _is_gone(process.pid):
            break
    process.wait()


def _is_gone(group: int) -> bool:
    """True when nothing of the group runs any more; the dead may still wait for whom they belong to."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgrp = status.read_text(errors="replace").rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(pgrp) == group and state != "Z":
            return False
    return True


def _hide(password: str | None, log: Path) -> None:
    """Takes the server's password out of what a command wrote: `env` and `set -x` show it."""
    if not password:
        return
    content = log.read_bytes()
    if password.encode() in content:
        log.write_bytes(content.replace(password.encode(), b"********"))


def _last(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return f": {lines[-1][:_SHOWN]}" if lines else ""
