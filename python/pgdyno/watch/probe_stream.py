"""A pgprobe that runs, and what its lines say."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pgdyno.errors import EngineError
from pgdyno.programs import end_process, locate
from pgdyno.run.process import without_libpq

Line = dict[str, Any]
US = 1e6
SILENT_S = 4.0
"""After this long without an answer, a server counts as away, even if its connection exists."""
STOP_S = 3.0


@dataclass(slots=True)
class Samples:
    """The samples of the last seconds, and the state of the server."""

    recent: deque[list[Line]]
    """A list for each second; the last one is of the second in progress."""
    notes: dict[str, None]
    """Missing data, each once."""
    version: str = ""
    latest: dict[str, Line] = field(default_factory=dict)
    """The last sample of each source, some of which are sampled less often than every second."""
    _away: str | None = "no session yet"
    _answered_s: float = 0.0

    def take(self, line: Line) -> None:
        event: str = line["event"]
        if event in ("connected", "waits"):
            self._answered_s = line["t_us"] / US
        if event == "sample":
            span_s = line["span_us"] / US if line.get("span_us") else None
            line["rows"] = [{"labels": {}, **row, "span_s": span_s} for row in line["rows"]]
        if event in ("waits", "blockers", "sample", "backends"):
            self.recent[-1].append(line)
            self.latest[str(line.get("source", event))] = line
        elif event == "connected":
            self.version, self._away = str(line["server_version"]), None
        elif event in ("warning", "gap"):
            source, reason = line["source"], line.get("reason")
            if source == "server" and (event == "warning" or reason == "session_lost"):
                self._away = str(line["message"])
            elif event == "warning" and reason != "server_down":
                self.notes[f"{source}: {line['message']}"] = None

    def rows(self, source: str) -> Sequence[Line]:
        """Return the rows of the last sample of a source."""
        return self.latest[source]["rows"] if source in self.latest else ()

    def away(self, now_s: float) -> str | None:
        """Return why the server is not reachable `now_s` after the probe's start; None if it is."""
        silent_s = now_s - self._answered_s
        return self._away or (f"no answer for {silent_s:.0f} s" if silent_s > SILENT_S else None)


class ProbeStream:
    """A pgprobe that runs until the block ends."""

    def __init__(self, options: Sequence[str], environment: Mapping[str, str]) -> None:
        """`environment` has libpq's variables, and among them the password, which `options` never do.

        Raises EngineError if it cannot start.
        """
        command = [str(locate("pgprobe", "PGDYNO_PGPROBE", "the probe")), "--parent-lease", *options]
        self._rest, self._origin_s, self._said = b"", 0.0, ""
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=without_libpq(os.environ) | dict(environment),
                # Ctrl-C is for pgdyno
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
        with self._process:
            end_process(self._process, STOP_S)

    @property
    def now_s(self) -> float:
        """Return the estimated seconds since the probe's start."""
        return time.monotonic() - self._origin_s if self._origin_s else 0.0

    def lines(self) -> Iterator[Line]:
        """Yield the lines since the last call. Raises EngineError if it has ended by itself."""
        with suppress(BlockingIOError):
            while piece := os.read(self._output, 1 << 20):
                *lines, self._rest = (self._rest + piece).split(b"\n")
                for line in lines:
                    if not line.startswith(b"{"):
                        self._said = f": {line.decode(errors='replace')}"
                        continue
                    found = json.loads(line)
                    self._origin_s = self._origin_s or time.monotonic() - found["t_us"] / US
                    yield found
            raise EngineError(f"the probe ended with exit code {self._process.wait()}{self._said}")
