"""Programs run as the server's user, without losing them to a signal."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from pgdyno.errors import TargetError
from pgdyno.targets.account import Account
from pgdyno.targets.lasting_thread import in_lasting_thread
from pgdyno.targets.signals import signals_deferred

_PASSED_ON = ("PATH", "TZ", "LD_PRELOAD")


def clean_environment(library_path: str | None) -> dict[str, str]:
    """What servers see of our environment: little, so that results depend on the plan alone.

    `library_path` is LD_LIBRARY_PATH, which an installation of the user's may need.
    """
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment["LC_ALL"] = "C"
    if library_path:
        environment["LD_LIBRARY_PATH"] = library_path
    return environment


def spawn(
    argv: Sequence[str], account: Account, environment: Mapping[str, str], output: int | IO[bytes]
) -> subprocess.Popen[bytes]:
    """Starts `argv` as `account` in a session of its own; what it says goes to `output`.

    It gets SIGINT, the fast shutdown of a server, when pgdyno is gone, however it ended.

    To be called with signals deferred until the process is noted. Raises TargetError.
    """
    return in_lasting_thread(lambda: _spawn(argv, account, environment, output))


def _spawn(
    argv: Sequence[str], account: Account, environment: Mapping[str, str], output: int | IO[bytes]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            [*_until_parent_dies(argv[0], account), *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # ours may be closed to that user
            cwd="/",
            env=dict(environment),
            umask=0o077,
            start_new_session=True,
            **account.popen_user(),
        )
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TargetError(f"cannot run {argv[0]} as user {account.name}: {reason.lower()}") from error


def _until_parent_dies(program: str, account: Account) -> list[str]:
    """What to write before the command line of `program` so that it gets SIGINT when we are gone.

    It is set after the change of user, which would take it away again; then a shell makes sure that we were not gone
    before. `program` replaces both: nothing stays but the kernel's note (prctl(2), PR_SET_PDEATHSIG). Nothing where
    there is no setpriv, or when `program` cannot be run, as then it is to be refused by its own name.
    """
    setpriv, path = shutil.which("setpriv"), shutil.which(program)
    if setpriv is None or path is None:
        return []
    if account.blocked_at(Path(path)) is not None or not account.can_execute(Path(path).resolve()):
        return []
    start = 'test "$PPID" = "$0" && unset PWD OLDPWD SHLVL && exec "$@"'
    return [setpriv, "--pdeathsig", "INT", "--", "/bin/sh", "-c", start, str(os.getpid())]


@contextmanager
def session(begin: Callable[[], subprocess.Popen[bytes]]) -> Iterator[subprocess.Popen[bytes]]:
    """What `begin` starts, as the leader of a session; an exception ends it with all its children."""
    process: subprocess.Popen[bytes] | None = None
    try:
        with signals_deferred():
            process = begin()
        yield process
    except BaseException:
        if process is not None:
            with signals_deferred(), suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        raise


def run_program(argv: Sequence[str], account: Account, environment: Mapping[str, str]) -> tuple[int, str]:
    """Exit status and output of `argv`; nothing of it is left when an exception comes. Raises TargetError."""
    with session(lambda: spawn(argv, account, environment, subprocess.PIPE)) as process:
        output, _ = process.communicate()
    return process.returncode, output.decode("utf-8", "replace")
