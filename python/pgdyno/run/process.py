"""The engine as a process that is never left behind."""

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
"""How long an engine that was told to stop may take before it is killed."""


class Load(Protocol):
    """What makes a load: the engine as a process, or several of them on other hosts."""

    @property
    def returncode(self) -> int | None:
        """The exit code once it was waited for."""

    def send_signal(self, sig: int, /) -> None:
        """Tells it to stop (SIGINT): it still says what it measured."""

    def wait(self) -> int:
        """Until it has ended; its exit code."""


Running = Callable[
    [Engine, Sequence[str], Mapping[str, str], IO[bytes], Path | None],
    AbstractContextManager[tuple[Load, Iterator[Event]]],
]
"""As `running_engine`."""


@contextmanager
def running_engine(
    engine: Engine,
    options: Sequence[str],
    environment: Mapping[str, str],
    errors: IO[bytes],
    folder: Path | None = None,
) -> Iterator[tuple[subprocess.Popen[bytes], Iterator[Event]]]:
    """The engine with `options`, and the events on its standard output; its standard error goes to `errors`.

    Behind the block it has ended: by itself when its events were read to their end and it was waited for, else
    because it was told to, whatever ended the block.
    """
    process = subprocess.Popen(
        [*engine.command, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        cwd=folder,
        env=without_libpq(os.environ) | dict(environment),
        # Ctrl-C is ours to hand on: the engine then still says what it measured
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        yield process, read_events(process.stdout)
    finally:
        _stop(process)


def without_libpq(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` without libpq's variables: a PGSERVICE or PGOPTIONS of the user's would send the load elsewhere."""
    return {name: value for name, value in environ.items() if not name.startswith("PG") or name.startswith("PGDYNO")}


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends the engine if it still runs: first by its lease and SIGINT, then by force."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        # nobody reads its events any more: it must not wait for room to write them
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
