"""A pgprobe that runs, and its lines sorted into seconds."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from pgdyno.errors import EngineError
from pgdyno.programs import locate

Line = dict[str, Any]
US = 1e6
LATE_S = 0.5
"""How long after a second's end its samples may arrive."""
SILENT_S = 4.0
"""After this long without an answer, a server counts as away, even if its connection exists."""
STOP_S = 3.0


class Row(NamedTuple):
    span_s: float | None
    labels: Mapping[str, str]
    values: Mapping[str, float]


@dataclass(slots=True)
class Second:
    """A second, and what was reported about it."""

    at_s: float
    """Its end by this host's clock, since 1970."""
    waits: list[Sequence[Line]] = field(default_factory=list)
    """The rows of each sample of active sessions."""
    samples: dict[str, list[Row]] = field(default_factory=dict)
    blockers: Sequence[Line] = ()
    sessions: Sequence[Line] = ()
    away: str | None = None
    """Why the server is not reachable; None if it is."""


@dataclass(slots=True)
class Seconds:
    """Sorts a probe's lines into seconds."""

    notes: dict[str, None] = field(default_factory=dict)
    """Missing data, each once."""
    version: str = ""
    _open: dict[int, Second] = field(default_factory=dict)
    _origin_s: float | None = None
    _next: int = 1
    _away: str | None = "no session yet"
    _last_line_us: int = 0

    def take(self, line: Line) -> None:
        event, t_us = line.get("event"), line.get("t_us", 0)
        if event == "start":
            self._origin_s = (line["wall_us"] - t_us) / US
        elif event == "connected":
            self.version, self._away, self._last_line_us = str(line["server_version"]), None, t_us
        elif event == "waits":
            self._second(int(t_us // US) + 1).waits.append(line["rows"])
            self._last_line_us = t_us
        elif event == "blockers":
            self._second(round(t_us / US)).blockers = line["rows"]
        elif event == "sample":
            span_s = line["span_us"] / US if line.get("span_us") else None
            rows = [Row(span_s, row.get("labels") or {}, row["values"]) for row in line["rows"]]
            self._second(round(t_us / US)).samples.setdefault(line["source"], []).extend(rows)
        elif event in ("warning", "gap"):
            source, reason = line["source"], line.get("reason")
            if source == "server" and (event == "warning" or reason == "session_lost"):
                self._away = str(line["message"])
            elif event == "warning" and reason != "server_down":
                self.notes[f"{source}: {line['message']}"] = None

    def finished(self, now_s: float) -> list[Second]:
        """Return the seconds that are complete `now_s` after the probe's start, oldest first."""
        done = []
        while self._origin_s is not None and now_s >= self._next + LATE_S:
            second = self._second(self._next)
            del self._open[self._next]
            silent_s = self._next - self._last_line_us / US
            second.away = self._away or (f"no answer for {silent_s:.0f} s" if silent_s > SILENT_S else None)
            done.append(second)
            self._next += 1
        return done

    def _second(self, number: int) -> Second:
        # keep a sample that is too late for its second
        number = max(number, self._next)
        return self._open.setdefault(number, Second((self._origin_s or 0.0) + number))


class ProbeStream:
    """A pgprobe that runs until the block ends."""

    def __init__(self, options: Sequence[str], environment: Mapping[str, str]) -> None:
        """`environment` is added to this process's: it carries a password, which `options` never do.

        Raises EngineError if it cannot start.
        """
        command = [str(locate("pgprobe", "PGDYNO_PGPROBE", "the probe")), "--parent-lease", *options]
        # an unread pipe of errors could fill up
        self._errors = TemporaryFile()  # noqa: SIM115 - closed at the end of the block
        self._rest, self._origin_s = b"", 0.0
        try:
            # Ctrl-C is for pgdyno
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        except OSError as error:
            raise EngineError(f"the probe could not be started: {error}") from error
        assert self._process.stdout is not None
        self._output = self._process.stdout.fileno()
        os.set_blocking(self._output, False)

    def __enter__(self) -> ProbeStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        with self._process, self._errors:
            pass

    @property
    def now_s(self) -> float:
        """Return the estimated seconds since the probe's start."""
        return time.monotonic() - self._origin_s if self._origin_s else 0.0

    def lines(self) -> list[Line]:
        """Return the lines since the last call. Raises EngineError if it has ended by itself."""
        found = []
        with suppress(BlockingIOError):
            while piece := os.read(self._output, 1 << 20):
                *lines, self._rest = (self._rest + piece).split(b"\n")
                found += [json.loads(line) for line in lines]
            if not found:
                code = self._process.wait()
                self._errors.seek(0)
                said = self._errors.read().decode(errors="replace").strip().splitlines()
                raise EngineError(f"the probe ended with exit code {code}{f': {said[-1]}' if said else ''}")
        if found and not self._origin_s:
            self._origin_s = time.monotonic() - found[0]["t_us"] / US
        return found
