"""Runs the engine as a process and ends it reliably."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Protocol

from pgdyno.programs import Engine
from pgdyno.run.stream import Event, read_events

STOP_S = 10.0
"""How long an engine may take to stop before it is killed."""


class Load(Protocol):
    """A load generator: a local engine process, or several remote ones."""

    @property
    def returncode(self) -> int | None:
        """The exit code after `wait`."""

    def send_signal(self, sig: int, /) -> None:
        """Stops it with SIGINT, after which it still reports its results."""

    def wait(self) -> int:
        """Waits for its end and returns the exit code."""


Running = Callable[
    [Engine, Sequence[str], Mapping[str, str], IO[bytes], Path | None],
    AbstractContextManager[tuple[Load, Iterator[Event]]],
]
"""The signature of `running_engine`."""


@contextmanager
def running_engine(
    engine: Engine,
    options: Sequence[str],
    environment: Mapping[str, str],
    errors: IO[bytes],
    folder: Path | None = None,
) -> Iterator[tuple[subprocess.Popen[bytes], Iterator[Event]]]:
    """Yields the engine with `options` and the events on its standard output; its standard error goes to `errors`.

    The engine has ended after the block: by itself if its events were read to their end and it was waited for,
    otherwise because it was stopped.
    """
    process = subprocess.Popen(
        [*engine.command, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        cwd=folder,
        env=without_libpq(os.environ) | dict(environment),
        # this process passes on Ctrl-C, so that the engine still reports its results
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        yield process, read_events(process.stdout)
    finally:
        _stop(process)


def without_libpq(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns `environ` without libpq's variables: the user's PGSERVICE or PGOPTIONS would redirect the load."""
    return {name: value for name, value in environ.items() if not name.startswith("PG") or name.startswith("PGDYNO")}


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stops a running engine, first by its lease and SIGINT, then by SIGKILL."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        # closes the pipe: without a reader, the engine would block when it writes events
        _close(process)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    _close(process)


def _close(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None and not stream.closed:
            stream.close()
