"""Runs a plan's commands before and after its run and its trials, ends them reliably, and keeps their output."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pgdyno.errors import ExitCode, PgdynoError
from pgdyno.messages import Message
from pgdyno.signals_and_exit import signals_deferred
from pgdyno.units import duration_words

GRACE_S = 5.0
"""How long a command may take to end after SIGTERM before it is killed."""
_POLL_S = 0.02
_SHOWN = 200
"""The length limit for a command's last line in messages."""


class HookError(PgdynoError):
    """A hook failed, could not be started, or exceeded its timeout."""

    exit_code = ExitCode.STOPPED

    def __init__(self, reason: Message, *, hint: str | None = None) -> None:
        super().__init__(str(reason), hint=hint)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Hook:
    name: str
    """before_run, after_run, before_trial, after_trial."""
    command: str | list[str]
    """A shell command, or a program and its arguments."""
    folder: Path
    """The working directory."""
    timeout_s: float


def run_hook(hook: Hook, environment: Mapping[str, str], log: Path) -> None:
    """Run `hook` to its end with `environment` added to this process's; its output goes to the file `log`.

    Raises HookError if it fails, cannot be started or exceeds its timeout. On any error or Ctrl-C, its whole process
    group is ended.
    """
    process = None
    with log.open("wb") as output:
        try:
            # Ctrl-C while it starts must find a process that can be ended
            with signals_deferred():
                process = _start(hook, environment, output)
            code = process.wait(hook.timeout_s)
        except BaseException as error:
            if process is not None:
                _end_group(process)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise HookError(_timed_out(hook, _last_line(log)), hint="give it more time with hooks.timeout") from None
        finally:
            _hide(environment.get("PGPASSWORD"), log)
    if code != 0:
        raise HookError(_failure_message(hook, code, _last_line(log)))


def _start(hook: Hook, environment: Mapping[str, str], output: IO[bytes]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            hook.command,
            shell=isinstance(hook.command, str),
            cwd=hook.folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # a separate process group, to end its children, too
            start_new_session=True,
        )
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise HookError(
            Message("hook-not-started", "the hook {hook} cannot be started: {why}", hook=hook.name, why=why)
        ) from error


def _timed_out(hook: Hook, last: str) -> Message:
    return Message(
        "hook-timed-out",
        "the hook {hook} exceeded {timeout} and was terminated: {last_line}"
        if last
        else "the hook {hook} exceeded {timeout} and was terminated",
        hook=hook.name,
        timeout=duration_words(hook.timeout_s),
        last_line=last,
    )


def _failure_message(hook: Hook, code: int, last: str) -> Message:
    if code < 0:
        return Message(
            "hook-killed",
            "the hook {hook} failed with signal {signal}: {last_line}"
            if last
            else "the hook {hook} failed with signal {signal}",
            hook=hook.name,
            signal=-code,
            last_line=last,
        )
    return Message(
        "hook-failed",
        "the hook {hook} failed with exit code {exit_code}: {last_line}"
        if last
        else "the hook {hook} failed with exit code {exit_code}",
        hook=hook.name,
        exit_code=code,
        last_line=last,
    )


def _end_group(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        # the leader is reaped last: until then no other group can get its number
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        end = time.monotonic() + GRACE_S
        while not _is_gone(process.pid) and time.monotonic() < end:
            time.sleep(_POLL_S)
        if _is_gone(process.pid):
            break
    process.wait()


def _is_gone(group: int) -> bool:
    """Tells whether no process of the group runs; zombies may remain."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgrp = status.read_text(errors="replace").rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(pgrp) == group and state != "Z":
            return False
    return True


def _hide(password: str | None, log: Path) -> None:
    if not password:
        return
    content = log.read_bytes()
    if password.encode() in content:
        log.write_bytes(content.replace(password.encode(), b"********"))


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:_SHOWN] if lines else ""
