"""Runs pgprobe during a test, and reads its output by kind and time."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pgdyno.targets import Server
from tests.present import present
from tests.waiting import PATIENCE_S, wait_until

Line = dict[str, Any]
Values = dict[str, float]


def program() -> str:
    return os.environ.get("PGDYNO_PGPROBE") or str(Path(sys.executable).parent / "pgprobe")


class Probe:
    """The output lines of a pgprobe, which are complete once it has ended."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.lines: list[Line] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        for line in present(self.process.stdout):
            self.lines.append(json.loads(line))

    def end(self) -> int:
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def of(self, event: str, source: str | None = None) -> list[Line]:
        return [
            line for line in self.lines if line["event"] == event and (source is None or line.get("source") == source)
        ]

    def wait_for(self, event: str, source: str | None = None, number: int = 1) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while len(self.of(event, source)) < number:
            assert self.process.poll() is None, self.lines[-3:]
            assert time.monotonic() < deadline, (event, source, self.of("warning"))
            time.sleep(0.02)

    def wait_past(self, moment: float, *sources: str) -> None:
        """Returns once each of `sources` has a sample after a wall time, in seconds."""
        wait_until(lambda: all(self._sampled_past(moment, source) for source in sources))

    def _sampled_past(self, moment: float, source: str) -> bool:
        return any(line["wall_us"] > moment * 1e6 for line in self.of("sample", source))

    def rows(self, source: str, **labels: str) -> list[tuple[float, Values]]:
        """Returns wall time in seconds and values of all rows of a source with these labels."""
        rows = [(line["wall_us"] / 1e6, row) for line in self.of("sample", source) for row in line["rows"]]
        return [(at, row["values"]) for at, row in rows if labels.items() <= row.get("labels", {}).items()]

    def within(self, source: str, began: float, ended: float, amount: Callable[[Line], float]) -> tuple[float, float]:
        """Returns the sums of `amount` over samples entirely within that time, and over samples that overlap it."""
        inner = outer = 0.0
        for line in self.of("sample", source):
            until = line["wall_us"] / 1e6
            since = until - (line["span_us"] or 0) / 1e6
            outer += amount(line) if since <= ended and until >= began else 0
            inner += amount(line) if since >= began and until <= ended else 0
        return inner, outer

    def total(self, source: str, metric: str, **labels: str) -> float:
        return sum(values.get(metric, 0.0) for _, values in self.rows(source, **labels))

    def gained(self, source: str, metric: str, began: float, ended: float, **labels: str) -> float:
        """Returns by how much an amount grew from `began` to `ended`; counters arrive up to 1 s late.

        The sum includes samples up to the first one that was taken more than 1 s after `ended`, even if a busy machine
        delays it; `wait_past(ended + 1, source)` waits for it.
        """
        total = 0.0
        for at, values in self.rows(source, **labels):
            total += values.get(metric, 0.0) if at >= began else 0.0
            if at > ended + 1:
                break
        return total

    def waits(self, backend_type: str = "client backend") -> list[tuple[float, dict[tuple[str, str | None], int]]]:
        """Returns wall time and sessions by wait event of every session sample."""
        looks = []
        for line in self.of("waits"):
            sessions: dict[tuple[str, str | None], int] = {}
            for row in line["rows"]:
                if row["backend_type"] == backend_type:
                    key = (row["wait_type"], row["wait"])
                    sessions[key] = sessions.get(key, 0) + row["sessions"]
            looks.append((line["wall_us"] / 1e6, sessions))
        return looks


def probe_arguments(server: Server, *options: str) -> tuple[dict[str, str], list[str]]:
    return server.environment(), [f"--data={server.data_directory}", *options]


@contextmanager
def probing(environment: Mapping[str, str] | None = None, options: Sequence[str] = ()) -> Iterator[Probe]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PG") or name == "PGDYNO_HOME"}
    process = subprocess.Popen(
        [program(), "--parent-lease", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**clean, **(environment or {})},
    )
    probe = Probe(process)
    try:
        yield probe
        process.send_signal(signal.SIGTERM)
        assert probe.end() == 0
    finally:
        if process.poll() is None:
            process.kill()
            probe.end()
        present(process.stdin).close()
        present(process.stdout).close()
