"""Samples the console of a connection pooler each second, in the lines of a probe, and sums up a trial."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.probe.lines import epoch_us, parse_line
from pgdyno.records import PlacedLines
from pgdyno.records.probe import PoolerRecord
from pgdyno.run.process import Event

Read = Callable[[], Mapping[str, float]]
"""Return the pooler's figures as they are now: numbers, and counters since its start (`COUNTERS`). Raises TargetError.
"""
COUNTERS = ("transactions", "queries", "wait_time", "transaction_time", "query_time", "received", "sent", "cpu")
PERIOD_S = 1.0
_STOP_S = 6.0
SOURCE = "pooler"


class PoolerSamples:
    """Samples a pooler while its block runs. Its failure does not end the trial."""

    def __init__(self, name: str, pool: int | None, open_console: Callable[[], Read], lines: Path) -> None:
        """Write to `lines`; `open_console` may raise TargetError, as the console is for few users."""
        self._name, self._pool = name, pool
        self._open = open_console
        self._lines = lines
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="pooler", daemon=True)
        self._problem: str | None = None

    def __enter__(self) -> PoolerSamples:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(_STOP_S)

    def _sample(self) -> None:
        try:
            read = self._open()
            with self._lines.open("w", encoding="utf-8") as file:
                before, at = read(), time.monotonic()
                while not self._stop.wait(max(0.0, at + PERIOD_S - time.monotonic())):
                    now, began = read(), time.monotonic()
                    values = {name: now[name] - before[name] if name in COUNTERS else now[name] for name in now}
                    file.write(_line(values, round((began - at) * 1e6)))
                    before, at = now, began
        except (TargetError, OSError) as error:
            self._problem = getattr(error, "message", str(error))

    def read(self, events: Sequence[Event]) -> tuple[PoolerRecord, list[PlacedLines]]:
        """Return the trial of the engine that wrote `events` in figures, and where its samples are."""
        if not self._lines.exists():
            return PoolerRecord(name=self._name, pool=self._pool, message=self._problem), []
        epoch = epoch_us(events, 0)
        samples = [line for text in self._lines.read_bytes().splitlines() if (line := parse_line(text)) is not None]
        begin, end = _measured(events)
        inside = [line["rows"][0]["values"] | {"span": line["span_us"]} for line in samples
                  if begin <= line["t_us"] - epoch - line["span_us"] / 2 < end]  # fmt: skip
        return _summary(self._name, self._pool, self._problem, inside), [PlacedLines(self._lines, -epoch)]


def _line(values: Mapping[str, float], span_us: int) -> str:
    wall_us = time.time_ns() // 1000
    line = {"event": "sample", "t_us": wall_us, "wall_us": wall_us, "span_us": span_us, "source": SOURCE}
    return json.dumps({**line, "rows": [{"labels": {}, "values": dict(values)}]}, separators=(",", ":")) + "\n"


def _measured(events: Sequence[Event]) -> tuple[int, int]:
    """Return the measured part of a trial, in microseconds since the engine's start."""
    origin = next((each["origin_us"] for each in events if each["event"] == "connected"), 0)
    parts = [each for each in events if each["event"] == "interval" and each.get("phase") == "measure"]
    if not parts:
        return 0, 0
    return origin + min(each["from_us"] for each in parts), origin + max(each["to_us"] for each in parts)


def _summary(name: str, pool: int | None, problem: str | None, samples: Sequence[Mapping[str, float]]) -> PoolerRecord:
    if not samples:
        return PoolerRecord(name=name, pool=pool, message=problem)
    total_us = sum(each["span"] for each in samples)

    def mean(metric: str) -> float:
        return round(sum(each[metric] * each["span"] for each in samples) / total_us, 3)

    transactions = sum(each["transactions"] for each in samples)
    waited, queried = (sum(each[metric] for each in samples) for metric in ("wait_time", "query_time"))
    return PoolerRecord(
        name=name,
        pool=pool,
        samples=len(samples),
        clients_waiting=mean("clients_waiting"),
        longest_wait_ms=max(each["longest_wait"] for each in samples),
        servers_active=mean("servers_active"),
        servers_idle=mean("servers_idle"),
        transactions=round(transactions),
        queue_ms=waited / transactions if transactions else None,
        # PgBouncer counts a query from its arrival, and so its wait for a session, too
        server_ms=max(0.0, queried - waited) / transactions if transactions else None,
        message=problem,
    )
