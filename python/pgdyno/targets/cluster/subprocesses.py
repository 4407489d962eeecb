"""Runs programs as the server's user, without losing them to a signal, from a thread that lives as long as pgdyno.

To the kernel, a process's parent is the thread that forked it, and a parent-death signal comes when that thread ends.
Threads of plan events also start servers, and end with their trial.
"""

import os
import queue
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

from pgdyno.errors import TargetError
from pgdyno.signals_and_exit import signals_deferred
from pgdyno.targets.server_user import Account

_T = TypeVar("_T")
_Task = tuple[Callable[[], Any], "Future[Any]"]
_lock = threading.Lock()
_tasks: dict[int, queue.SimpleQueue[_Task]] = {}
"""The queue of tasks by process number: a forked child has no such thread."""


def in_lasting_thread(call: Callable[[], _T]) -> _T:
    """Run `call` in the thread that lives as long as pgdyno; return its result or raise its exception."""
    future: Future[_T] = Future()
    _tasks_of_thread().put((call, future))
    return future.result()


def _tasks_of_thread() -> queue.SimpleQueue[_Task]:
    with _lock:
        pid = os.getpid()
        if pid not in _tasks:
            tasks: queue.SimpleQueue[_Task] = queue.SimpleQueue()
            # not an executor's thread: Python joins those before atexit handlers run, and these stop servers
            threading.Thread(target=_serve, args=(tasks,), name="lasting", daemon=True).start()
            _tasks[pid] = tasks
        return _tasks[pid]


def _serve(tasks: queue.SimpleQueue[_Task]) -> None:
    while True:
        call, future = tasks.get()
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)
        # the call may hold references to a whole server
        del call, future


_PASSED_ON = ("PATH", "TZ", "LD_PRELOAD")


def clean_environment(library_path: str | None) -> dict[str, str]:
    """Return the environment of servers: few variables, so that results depend on the plan alone.

    `library_path` is LD_LIBRARY_PATH, which an installation of the user may need.
    """
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment["LC_ALL"] = "C"
    if library_path:
        environment["LD_LIBRARY_PATH"] = library_path
    return environment


def spawn(
    argv: Sequence[str], account: Account, environment: Mapping[str, str], output: int | IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start `argv` as `account` in a new session; its output goes to `output`.

    It receives SIGINT, a server's fast shutdown, when pgdyno is gone, however pgdyno ended.

    The caller defers signals until the process is recorded. Raises TargetError.
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
            # that user may have no access to the current directory
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
    """Return words to put before the command line of `program`, so that it gets SIGINT when pgdyno has ended.

    setpriv sets the signal after the change of user, which would clear it; a shell then checks that pgdyno still lives.
    `program` replaces both, and only the kernel's setting stays (PR_SET_PDEATHSIG of prctl(2)). Returns nothing without
    setpriv, or if `program` is not executable, so that the error names `program` itself.
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
    """Run `begin`, whose process leads a session; an exception ends that process with all its children."""
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
    """Return exit status and output of `argv`; an exception leaves none of its processes behind.

    Raises TargetError.
    """
    with session(lambda: spawn(argv, account, environment, subprocess.PIPE)) as process:
        output, _ = process.communicate()
    return process.returncode, output.decode("utf-8", "replace")
