"""Reads the probe's lines of the running trial from its growing file: counters since its start, current gauges."""

from __future__ import annotations

import json
import threading
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client import Metric

from pgdyno.metrics.catalogue import Catalogue, Lasting, lasting
from pgdyno.metrics.text import Labels, Sample, with_samples

SECOND_US = 1_000_000
GONE_US = 5 * SECOND_US
"""A gauge without a sample for this long is not current."""
Key = tuple[str, str]


class Sampled:
    def __init__(self, lines: Path) -> None:
        """The file `lines` may not exist yet."""
        self._path = lines
        self._lock = threading.Lock()
        self._at = 0
        self._now_us = 0
        self._totals: dict[Key, dict[Lasting, float]] = {}
        self._last: dict[Key, dict[Lasting, tuple[int, float]]] = {}
        self._looks: deque[tuple[int, Counter[tuple[str, str, str]]]] = deque()

    def families(self, catalogue: Catalogue, labels: Labels) -> list[Metric]:
        """Return all families so far, with `labels` added, and without timestamps."""
        with self._lock:
            self._read()
            return list(self._families(catalogue, labels))

    def _read(self) -> None:
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                for text in file:
                    if not text.endswith(b"\n"):
                        break
                    self._at += len(text)
                    self._take(text)
        except OSError:
            # it does not exist yet, or the trial's tables have replaced it
            return

    def _families(self, catalogue: Catalogue, labels: Labels) -> Iterator[Metric]:
        yield with_samples("pgdyno_active_sessions", "gauge", "Average active sessions.", self._active(labels))
        for source, metric in sorted(self._last):
            family = catalogue.family(source, metric)
            suffix = "_total" if family.type == "counter" else ""
            samples: list[Sample] = []
            for kept, (at_us, value) in self._last[source, metric].items():
                if suffix:
                    value_now = self._totals[source, metric][kept]
                elif self._now_us - at_us <= GONE_US:
                    value_now = value
                else:
                    continue
                samples.append((suffix, {**labels, **dict(kept)}, value_now * family.factor, None))
            yield with_samples(family.name, family.type, family.help, samples, family.unit)

    def _active(self, labels: Labels) -> Iterator[Sample]:
        sums: Counter[tuple[str, str, str]] = Counter()
        for _, look in self._looks:
            sums.update(look)
        for (backend, kind, event), sessions in sums.items():
            named = {**labels, "backend_type": backend, "wait_type": kind, "wait": event}
            yield "", named, sessions / len(self._looks), None

    def _take(self, text: bytes) -> None:
        try:
            line = json.loads(text)
            self._now_us = line["t_us"]
            if line["event"] == "waits":
                self._look(line)
            elif line["event"] == "sample":
                self._sample(line)
        except (ValueError, KeyError, TypeError):
            # truncated, or from a newer probe
            return

    def _look(self, line: dict[str, Any]) -> None:
        look: Counter[tuple[str, str, str]] = Counter()
        for row in line["rows"]:
            look[row["backend_type"] or "", row["wait_type"] or "", row["wait"] or ""] += row["sessions"]
        self._looks.append((self._now_us, look))
        while self._looks[0][0] <= self._now_us - SECOND_US:
            self._looks.popleft()

    def _sample(self, line: dict[str, Any]) -> None:
        for row in line["rows"]:
            kept = lasting(row.get("labels") or {})
            for metric, value in row["values"].items():
                key = (line["source"], metric)
                totals = self._totals.setdefault(key, {})
                totals[kept] = totals.get(kept, 0.0) + value
                self._last.setdefault(key, {})[kept] = (self._now_us, value)
