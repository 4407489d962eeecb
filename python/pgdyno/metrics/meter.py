"""Accumulates the engine's figures of a running experiment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from prometheus_client import Metric
from prometheus_client.registry import Collector

from pgdyno.metrics.catalogue import Catalogue
from pgdyno.metrics.latency import Buckets
from pgdyno.metrics.sampled import Sampled
from pgdyno.metrics.stored import OUTCOMES, PHASES
from pgdyno.metrics.text import Labels, Sample, with_samples

QUANTILES = {"0.5": "p50", "0.95": "p95", "0.99": "p99", "0.999": "p999"}
Lines = Callable[[int], tuple[str, Path] | None]


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

    def heard(self, event: Mapping[str, Any]) -> None:
        with self._lock:
            if self._trial is not None:
                self._trial.heard(event)

    def collect(self) -> Iterator[Metric]:
        """Return all current families."""
        with self._lock:
            trial = self._trial
            done = [self._ended(outcome, number) for outcome, number in self._done.items()]
            families = [with_samples("pgdyno_trials", "counter", "Completed trials.", done)]
            if trial is not None:
                families += trial.families()
        if trial is not None and trial.sampled is not None and self._catalogue is not None:
            # outside the lock that the run's thread needs: there may be much to read
            families += trial.sampled.families(self._catalogue, trial.labels)
        return iter([each for each in families if each.samples])

    def _ended(self, outcome: str, number: int) -> Sample:
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

    def heard(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "start":
            self._names = {script["id"]: script["name"] for script in event["scripts"]}
            for name in self._names.values():
                self._counts |= {(name, outcome): 0 for outcome in OUTCOMES}
        elif event["event"] == "interval":
            self._interval(event)

    def _interval(self, event: Mapping[str, Any]) -> None:
        self.phase = event["phase"]
        self._gauges = {"clients": event["clients"], "in_flight": event["in_flight"]}
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
        info: Sample = ("_info", {**self.labels, "slug": self.slug}, 1.0, None)
        families = [
            with_samples("pgdyno_trial", "info", "The current trial, or the last one.", [info]),
            with_samples("pgdyno_phase", "stateset", "State of the load.", self._phases()),
            with_samples("pgdyno_tps", "gauge", "Transactions per second, in the last second.", self._rate()),
            with_samples(
                "pgdyno_transactions", "counter", "Transactions since the start of the trial.", self._transactions()
            ),
            with_samples(
                "pgdyno_latency_seconds",
                "histogram",
                "Latency from the intended start; succeeded transactions since the start of the trial.",
                self._histograms(),
                "seconds",
            ),
            with_samples(
                "pgdyno_second_latency_seconds",
                "gauge",
                "Quantiles of the latency within the last second.",
                [("", self._named(name, quantile=each), at, None) for (name, each), at in self._quantiles.items()],
                "seconds",
            ),
            with_samples(
                "pgdyno_generator_cpu_seconds",
                "counter",
                "CPU time of the generator's workers.",
                [("_total", self.labels, self._cpu_s, None)],
                "seconds",
            ),
        ]
        for name, help_text in (("clients", "Connected clients."), ("in_flight", "Clients inside a transaction.")):
            if name in self._gauges:
                value = float(self._gauges[name])
                families.append(with_samples(f"pgdyno_{name}", "gauge", help_text, [("", self.labels, value, None)]))
        return families

    def _named(self, script: str, **more: str) -> dict[str, str]:
        return {**self.labels, "script": script, **more}

    def _phases(self) -> list[Sample]:
        return [("", {**self.labels, "pgdyno_phase": each}, float(each == self.phase), None) for each in PHASES]

    def _rate(self) -> list[Sample]:
        # between two trials nothing runs
        return [("", self.labels, self._tps if self.phase else 0.0, None)]

    def _transactions(self) -> list[Sample]:
        return [
            ("_total", self._named(name, outcome=outcome), float(count), None)
            for (name, outcome), count in self._counts.items()
        ]

    def _histograms(self) -> Iterator[Sample]:
        for name, buckets in self._buckets.items():
            yield from buckets.samples(self._named(name), None)
