"""The engine as a process that never outlives its trial, its events, and an end if its server falls silent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Protocol, overload

from pgdyno.errors import EngineError
from pgdyno.programs import Engine

_ASK_EVERY_S = 0.5


class Silence(Protocol):
    """Measures how long a server has sent nothing."""

    def renew(self) -> None:
        """Record that the server answered."""

    def reason(self) -> str | None:
        """Return why no answer can be expected, or None; may take as long as a query to the server."""


class SilenceWatch:
    """Watches a server while an engine uses it."""

    def __init__(self, silence: Callable[[], Silence]) -> None:
        """`silence` is called when the engine starts, and counts from then."""
        self._silence = silence
        self.reason: str | None = None
        """Why the engine was ended; None if it was not."""

    def over(self, running: Running) -> Running:
        """Return `running`, but stop an engine whose server has fallen silent: SIGINT, then SIGKILL."""

        @contextmanager
        def watched(
            engine: Engine,
            options: Sequence[str],
            environment: Mapping[str, str],
            errors: IO[bytes],
            folder: Path | None,
        ) -> Iterator[tuple[Load, Iterator[Event]]]:
            ended = threading.Event()
            with running(engine, options, environment, errors, folder) as (load, events):
                silence = self._silence()
                thread = threading.Thread(target=self._watch, args=(load, silence, ended), name="silence", daemon=True)
                thread.start()
                try:
                    yield load, _renewing(events, silence)
                finally:
                    ended.set()

        return watched

    def _watch(self, load: Load, silence: Silence, ended: threading.Event) -> None:
        while not ended.wait(_ASK_EVERY_S):
            reason = silence.reason()
            if reason is not None and not ended.is_set():
                self.reason = reason
                load.send_signal(signal.SIGINT)
                if not ended.wait(STOP_S) and isinstance(load, subprocess.Popen):
                    load.kill()
                return


def _renewing(events: Iterator[Event], silence: Silence) -> Iterator[Event]:
    rows = None
    for event in events:
        # these events come once a second, whether the server answers or not
        if event["event"] == "interval":
            moved = any(script["succeeded"] + script["failed"] for script in event["scripts"])
        else:
            moved = event["event"] != "load" or event.get("rows") != rows
            rows = event.get("rows")
        if moved:
            silence.renew()
        yield event


RELEASE = "use pgdrive and pgdyno of the same release (in a checkout: make build)"
VERSION = 1
"""The newest version of the event stream that this code reads; see docs/reference/events.md."""

Event = dict[str, Any]


def read_events(lines: Iterable[bytes]) -> Iterator[Event]:
    """Yield the events of `lines`, an object per line. Raises EngineError for a newer version or an invalid line."""
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            return  # truncated: the caller detects the missing end event
        try:
            event = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise EngineError(f"line {number} of the engine's events is not JSON: {error}") from error
        if not isinstance(event, dict) or "event" not in event:
            raise EngineError(f"line {number} of the engine's events has no kind: {line[:80]!r}")
        version = event.get("v", 0) if event["event"] == "start" else 0
        if not isinstance(version, int) or version > VERSION:
            raise EngineError(
                f"the engine writes events of version {version!r}, and this pgdyno reads up to {VERSION}", hint=RELEASE
            )
        yield event


@contextmanager
def understood(doing: str) -> Iterator[None]:
    """Raise EngineError for errors inside the block that come from a missing or wrong field of an event."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        why = f"field {error}" if isinstance(error, KeyError) else str(error).split("\n", 1)[0]
        raise EngineError(
            f"cannot {doing}, because the engine's events have an unexpected form: {why}", hint=RELEASE
        ) from error


class Spool(Protocol):
    """Keeps the events of an engine."""

    @property
    def events(self) -> Sequence[Event]:
        """The events so far."""

    def append(self, event: Event, /) -> None:
        """Add an event. Raises StoreError."""


class MemorySpool:
    """Keeps events in memory, which a trial of hours would fill."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def append(self, event: Event) -> None:
        self.events.append(event)


def among(events: Sequence[Event], others: Sequence[Event]) -> Sequence[Event]:
    """Merge `others` into the engine's `events` by time; none follows its `end`.

    An event of `others` follows an engine event of the same time. `events` may be on disk: the result reads them again.
    """
    last = len(events) - 1 if events and events[-1]["event"] == "end" else len(events)
    times = [event["t_us"] for event in chain(islice(events, last), others)]
    order = array("q", sorted(range(len(times)), key=times.__getitem__))
    # the end comes last, whatever its time
    places = (place if place < last else last - place - 1 for place in order)
    return _Merged(events, others, array("q", chain(places, range(last, len(events)))))


class _Merged(Sequence[Event]):
    """Two lists of events in one order."""

    def __init__(self, events: Sequence[Event], others: Sequence[Event], places: Sequence[int]) -> None:
        """Take the place of each event in `events`; -1, -2… are the first, second… of `others`."""
        self._events, self._others, self._places = events, others, places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        place = self._places[index]
        return self._events[place] if place >= 0 else self._others[-1 - place]


STOP_S = 10.0
"""How long an engine may take to stop before it is killed."""


class Load(Protocol):
    """A load generator: a local engine process, or several remote ones."""

    @property
    def returncode(self) -> int | None:
        """The exit code after `wait`."""

    def send_signal(self, sig: int, /) -> None:
        """Stop it with SIGINT, after which it still reports its results."""

    def wait(self) -> int:
        """Wait for its end and return the exit code."""


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
    """Yield the engine with `options` and the events on its standard output; its standard error goes to `errors`.

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
    """Return `environ` without libpq's variables: the user's PGSERVICE or PGOPTIONS would redirect the load."""
    return {name: value for name, value in environ.items() if not name.startswith("PG") or name.startswith("PGDYNO")}


def _stop(process: subprocess.Popen[bytes]) -> None:
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
