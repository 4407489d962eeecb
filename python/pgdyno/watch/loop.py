"""The main loop: reads a server every second and updates the view."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from tempfile import TemporaryFile

from pgdyno.errors import EngineError
from pgdyno.programs import locate
from pgdyno.watch.buckets import US, Bucket, Fold, Line, last, rows_of
from pgdyno.watch.find_server import Found, Place, place_of
from pgdyno.watch.frame import History
from pgdyno.watch.polling import Connection, Polling
from pgdyno.watch.screen import Looks
from pgdyno.watch.views import View

STOP_S = 3.0


class ProbeStream:
    """A pgprobe that runs until the block ends."""

    def __init__(self, options: Sequence[str], environment: Mapping[str, str]) -> None:
        """`environment` is added to this process's: it carries a password, which `options` never do."""
        self._command = [str(locate("pgprobe", "PGDYNO_PGPROBE", "the probe")), "--parent-lease", *options]
        self._environment = environment
        self._lines: queue.SimpleQueue[Line] = queue.SimpleQueue()
        self._origin: float | None = None

    def __enter__(self) -> ProbeStream:
        """Start it. Raises EngineError."""
        # an unread pipe of errors could fill up
        self._errors = TemporaryFile()
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**os.environ, **self._environment},
                # Ctrl-C is for pgdyno
                start_new_session=True,
            )
        except OSError as error:
            raise EngineError(f"the probe could not be started: {error}") from error
        self._thread = threading.Thread(target=self._read, name="watch-probe", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._thread.join()
        with self._process, self._errors:
            pass

    def lines(self) -> list[Line]:
        """Return the lines since the last call. Raises EngineError if it has ended by itself."""
        over = not self._thread.is_alive()
        lines = [self._lines.get() for _ in range(self._lines.qsize())]
        if over and not lines:
            code = self._process.wait()
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace").strip().splitlines()
            raise EngineError(f"the probe ended with exit code {code}{f': {said[-1]}' if said else ''}")
        return lines

    @property
    def now_s(self) -> float:
        """Return the estimated seconds since the probe's start."""
        return 0.0 if self._origin is None else time.monotonic() - self._origin

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            # truncated, as after a kill
            with suppress(ValueError):
                line = json.loads(text)
                self._origin = self._origin or time.monotonic() - line["t_us"] / US
                self._lines.put(line)


STOPPED_S = 10.0
"""An iteration takes a fifth of a second: after this long without one, pending lines are discarded."""


@dataclass(slots=True)
class Watcher:
    """Watches one server until the view ends."""

    found: Found
    waits_hz: int | None
    history: History
    fold: Fold = field(default_factory=Fold)
    _place: Place | None = None
    _new_place: Place | None = None
    _turned: float = field(default_factory=time.monotonic)

    def watch(self, connection: Connection, view: View) -> None:
        """Update `view` every second. Raises EngineError if the probe is missing or ends."""
        self._place = self.found.place
        for note in self.found.notes:
            self.fold.note(note)
        with ExitStack() as probes, Polling(connection, self.found.connect, self._came_back) as polling, view:
            stream = probes.enter_context(self._stream())
            self.history.texts = polling.texts
            while True:
                if self._has_moved() or self._was_stopped():
                    # the server's processes have changed, or the lines are old
                    probes.close()
                    self.fold.started_anew()
                    stream = probes.enter_context(self._stream())
                for line in stream.lines():
                    self.fold.take(line)
                while not polling.answers.empty():
                    self.fold.record_poll(*polling.answers.get())
                for bucket in self.fold.finished(stream.now_s):
                    self.history.add(bucket)
                    view.second(self.history, self._looks(bucket))
                polling.want(self.history.query_ids())
                if self.fold.notes:
                    view.notes([self.fold.notes.pop(0) for _ in range(len(self.fold.notes))])
                if not view.wait():
                    return

    def _stream(self) -> ProbeStream:
        return ProbeStream(self.found.probe_options(self._place, self.waits_hz), self.found.probe_environment())

    def _came_back(self, connection: Connection) -> None:
        """Called by the polling thread, with its new session."""
        if self._place is not None:
            self._new_place = place_of(connection)

    def _has_moved(self) -> bool:
        """Return whether the server has come back as a process that the probe does not find by itself."""
        before, place = self._place, self._new_place
        self._new_place = None
        if before is None or place is None or place.postmaster == before.postmaster:
            return False
        self._place = place
        return any(option.startswith("--postmaster") for option in before.probe_options())

    def _was_stopped(self) -> bool:
        """Return whether this process was suspended (Ctrl-Z, a sleeping laptop)."""
        before, self._turned = self._turned, time.monotonic()
        return self._turned - before > STOPPED_S

    def _looks(self, bucket: Bucket) -> Looks:
        return Looks(
            title=self.found.title,
            version=self.fold.version,
            interval=1,
            processors=None if self._place is None else _processors(self._place, bucket),
            colours=not os.environ.get("NO_COLOR"),
            queries=self.history.queries,
        )


def _processors(place: Place, bucket: Bucket) -> float | None:
    """Return the cores that the server may use: of its affinity or cpuset, or fewer by its control group's quota."""
    try:
        cores = float(len(os.sched_getaffinity(place.postmaster)))
    except OSError:
        # it has ended
        cores = float(os.cpu_count() or 1)
    limit = last(rows_of([bucket], "cgroup"), "cpu_limit")
    return cores if limit is None else min(cores, limit)
