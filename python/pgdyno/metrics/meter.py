"""Figures of a running experiment, from the engine's events and the probe's lines."""

import json
import threading
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from prometheus_client import Metric
from prometheus_client.registry import Collector

from pgdyno.metrics.catalogue import Catalogue, Lasting, lasting_labels
from pgdyno.metrics.stored_run import OUTCOMES, PHASES, told_apart
from pgdyno.metrics.text import Buckets, Labels, Sample, family_of, with_samples

SECOND_US = 1_000_000
GONE_US = 5 * SECOND_US
"""A gauge without a sample for this long is not current, unless its source is sampled less often."""
UNKNOWN_SPAN_US = 10 * SECOND_US
"""The time to the next sample of a source that was sampled once: that of the slow ones, such as tables."""
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
        self._spans_us: dict[str, int] = {}
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
        yield family_of("pgdyno_active_sessions", self._active(labels))
        for source, metric in sorted(self._last):
            family = catalogue.family(source, metric)
            suffix = "_total" if family.type == "counter" else ""
            # a sample may come a little late
            current_us = max(GONE_US, self._spans_us.get(source, 0) * 3 // 2)
            samples: list[Sample] = []
            for kept, (at_us, value) in self._last[source, metric].items():
                if suffix:
                    value_now = self._totals[source, metric][kept]
                elif self._now_us - at_us <= current_us:
                    value_now = value
                else:
                    continue
                samples.append((suffix, {**labels, **dict(kept)}, value_now * family.factor, None))
            yield with_samples(family.name, family.type, family.help, samples, family.unit)

    def _active(self, labels: Labels) -> Iterator[Sample]:
        if self._looks and self._now_us - self._looks[-1][0] > GONE_US:
            return
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
        self._spans_us[line["source"]] = line.get("span_us") or UNKNOWN_SPAN_US
        for row in line["rows"]:
            kept = lasting_labels(row.get("labels") or {})
            for metric, value in row["values"].items():
                key = (line["source"], metric)
                totals = self._totals.setdefault(key, {})
                totals[kept] = totals.get(kept, 0.0) + value
                self._last.setdefault(key, {})[kept] = (self._now_us, value)


QUANTILES = {"0.5": "p50", "0.95": "p95", "0.99": "p99", "0.999": "p999"}


class Meter(Collector):
    """A trial's figures while it runs. The run's thread updates it, the endpoint's threads read it."""

    def __init__(self, catalogue: Catalogue | None) -> None:
        """Without a `catalogue`, figures of the probe are left out."""
        self._catalogue = catalogue
        self._lock = threading.Lock()
        self._run = ""
        self._done = dict.fromkeys(("finished", "failed", "interrupted"), 0)
        self._trial: _Running | None = None

    def run_began(self, name: str) -> None:
        with self._lock:
            self._run = name

    def trial_started(self, number: int, slug: str, lines: Path | None) -> None:
        """Record the start of a trial, whose probe writes to `lines`."""
        with self._lock:
            self._trial = _Running({"run": self._run, "trial": str(number)}, slug, lines)

    def trial_ended(self, outcome: str) -> None:
        """Record the end of the trial; its figures stay until the next one begins."""
        with self._lock:
            self._done[outcome] = self._done.get(outcome, 0) + 1
            if self._trial is not None:
                self._trial.phase = ""

    def handle(self, event: Mapping[str, Any]) -> None:
        with self._lock:
            if self._trial is not None:
                self._trial.handle(event)

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            trial = self._trial
            done = [self._ended_sample(outcome, number) for outcome, number in self._done.items()]
            families = [family_of("pgdyno_trials", done)]
            if trial is not None:
                families += trial.families()
        if trial is not None and trial.sampled is not None and self._catalogue is not None:
            # outside the lock that the run's thread needs: there may be much to read
            families += trial.sampled.families(self._catalogue, trial.labels)
        return iter([each for each in families if each.samples])

    def _ended_sample(self, outcome: str, number: int) -> Sample:
        return "_total", {"run": self._run, "outcome": outcome}, float(number), None


class _Running:
    def __init__(self, labels: Labels, slug: str, lines: Path | None) -> None:
        self.labels = labels
        self.slug = slug
        self.phase = "warm-up"
        self.sampled = Sampled(lines) if lines is not None else None
        self._names: dict[int, str] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._buckets: dict[str, Buckets] = {}
        self._quantiles: dict[tuple[str, str], float] = {}
        self._gauges: dict[str, float] = {}
        self._cpu_s = 0.0
        self._tps = 0.0

    def handle(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "start":
            self._names = told_apart({script["id"]: script["name"] for script in event["scripts"]})
            for name in self._names.values():
                self._counts |= {(name, outcome): 0 for outcome in OUTCOMES}
        elif event["event"] == "interval":
            self._interval(event)

    def _interval(self, event: Mapping[str, Any]) -> None:
        self.phase = event["phase"]
        self._gauges = {name: float(event[name]) for name in ("clients", "in_flight")}
        self._cpu_s += sum(worker["cpu_us"] for worker in event["workers"]) / 1e6
        length_s = (event["to_us"] - event["from_us"]) / 1e6
        succeeded = sum(script["succeeded"] for script in event["scripts"])
        self._tps = succeeded / length_s if length_s > 0 else 0.0
        self._quantiles = {}
        for script in event["scripts"]:
            name = self._names.get(script["script"], str(script["script"]))
            for outcome in OUTCOMES:
                self._counts[name, outcome] = self._counts.get((name, outcome), 0) + script[outcome]
            latency = script.get("latency_ns")
            if latency:
                self._buckets.setdefault(name, Buckets()).add(script["histogram"], latency["sum"])
                self._quantiles |= {(name, each): latency[field] / 1e9 for each, field in QUANTILES.items()}

    def families(self) -> list[Metric]:
        # between two trials nothing runs
        tps = self._tps if self.phase else 0.0
        return [
            family_of("pgdyno_trial", [("_info", {**self.labels, "slug": self.slug}, 1.0, None)]),
            family_of("pgdyno_phase", self._phases()),
            family_of("pgdyno_tps", [("", self.labels, tps, None)]),
            family_of("pgdyno_transactions", self._transactions()),
            family_of("pgdyno_latency_seconds", self._histograms()),
            family_of("pgdyno_second_latency_seconds", self._second()),
            family_of("pgdyno_generator_cpu_seconds", [("_total", self.labels, self._cpu_s, None)]),
            *(family_of(f"pgdyno_{name}", [("", self.labels, at, None)]) for name, at in self._gauges.items()),
        ]

    def _script_labels(self, script: str, **more: str) -> dict[str, str]:
        return {**self.labels, "script": script, **more}

    def _phases(self) -> list[Sample]:
        return [("", {**self.labels, "pgdyno_phase": each}, float(each == self.phase), None) for each in PHASES]

    def _second(self) -> list[Sample]:
        return [
            ("", self._script_labels(name, quantile=each), at, None) for (name, each), at in self._quantiles.items()
        ]

    def _transactions(self) -> list[Sample]:
        return [
            ("_total", self._script_labels(name, outcome=outcome), float(count), None)
            for (name, outcome), count in self._counts.items()
        ]

    def _histograms(self) -> Iterator[Sample]:
        for name, buckets in self._buckets.items():
            yield from buckets.samples(self._script_labels(name), None)
