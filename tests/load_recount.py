"""Recounts the results of a load from its detailed output: the end event, the intervals and the log.

    load = run_load(environment, folder, "-c", "4", "-t", "100", "-M", "prepared")
    counts = load.verify()

`verify` fails if two of these disagree: the total of every report, the figures of the scripts and of the run, the
intervals and the end, the histograms, the log's lines one by one, and the percentiles of these lines. The caller must
compare `counts` with what only the server knows: its rows and balances.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hdrh.histogram import HdrHistogram

from tests.run_program import PGDRIVE
from tests.waiting import wait_until

TIMEOUT_S = 120
PERCENTILES = {"p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "p9999": 0.9999}
HDR_RELATIVE = 0.002
"""The relative width of a histogram's bucket with three significant digits."""
LOG_RESOLUTION_NS = 1000
"""The log has whole microseconds, rounded down."""

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of transactions by outcome."""

    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    late: int = 0
    """Transactions that succeeded but exceeded the latency limit."""
    retried: int = 0
    retries: int = 0

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> Counts:
        return cls(**{name: event[name] for name in cls.__slots__})

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in Counts.__slots__})


def total(counts: Iterable[Counts]) -> Counts:
    return sum(counts, Counts())


@dataclass(frozen=True, slots=True)
class Line:
    """One transaction of a log. Durations are in microseconds, and times are microseconds since 1970."""

    worker: int
    client: int
    number: int
    outcome: str
    """`succeeded`, or the word in the log: skipped, failed, serialization, deadlock, other."""
    latency_us: int
    """Microseconds from the intended start; 0 unless the transaction succeeded."""
    script: int
    end_us: int
    lag_us: int = 0
    retries: int = 0

    @property
    def succeeded(self) -> bool:
        return self.outcome == "succeeded"

    @property
    def skipped(self) -> bool:
        return self.outcome == "skipped"

    @property
    def intended_us(self) -> int:
        """When the schedule required the start; in a closed loop, the actual start."""
        assert self.succeeded
        return self.end_us - self.latency_us


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Some of the figures in a line of `--aggregate-interval`."""

    worker: int
    start_s: int
    count: int
    sum_us: float
    skipped: int
    retried: int
    retries: int


def _files(prefix: Path) -> list[tuple[int, Path]]:
    """Returns the logs of one process by worker: PREFIX.PID, PREFIX.PID.1, PREFIX.PID.2…"""
    found = []
    for path in prefix.parent.glob(f"{prefix.name}.*"):
        match = re.fullmatch(r"\.\d+(?:\.(\d+))?", path.name.removeprefix(prefix.name))
        assert match is not None, path
        found.append((int(match[1] or 0), path))
    assert len({worker for worker, _ in found}) == len(found), f"logs of two processes under {prefix}"
    return sorted(found)


def read_log(prefix: Path, *, lag: bool, retries: bool) -> list[Line]:
    """Returns every line of every worker's log; `lag` (-R) and `retries` (--max-tries) say which columns exist."""
    lines = []
    for worker, path in _files(prefix):
        for text in path.read_text().splitlines():
            words = text.split(" ")
            assert len(words) == 6 + lag + retries, text
            client, number, said, script, second, microsecond, *rest = words
            assert int(microsecond) < 10**6, text
            extra = iter(int(word) for word in rest)
            lines.append(
                Line(
                    worker=worker,
                    client=int(client),
                    number=int(number),
                    outcome="succeeded" if said.isdigit() else said,
                    latency_us=int(said) if said.isdigit() else 0,
                    script=int(script),
                    end_us=int(second) * 10**6 + int(microsecond),
                    lag_us=next(extra) if lag else 0,
                    retries=next(extra) if retries else 0,
                )
            )
    return lines


def read_aggregates(prefix: Path) -> list[Aggregate]:
    """Returns every line of every worker's log of intervals."""
    found = []
    for worker, path in _files(prefix):
        for text in path.read_text().splitlines():
            words = text.split(" ")
            assert len(words) in (15, 16), text
            start_s, count, *of_time = words[:10]
            sum_us, *_ = map(float, of_time)
            skipped, retried, retries, *_ = map(int, words[10:])
            found.append(Aggregate(worker, int(start_s), int(count), sum_us, skipped, retried, retries))
    return found


def percentile(values: Sequence[float], quantile: float) -> float:
    """Returns the smallest value that is not less than a share of `quantile` of all values, as HDR histograms define
    it.
    """
    ordered = sorted(values)
    return ordered[max(0, math.ceil(quantile * len(ordered)) - 1)]


def merged(blobs: Iterable[str]) -> HdrHistogram:
    whole = HdrHistogram(1, 3600 * 10**9, 3)
    for blob in blobs:
        whole.decode_and_add(blob.encode())
    return whole


@dataclass
class Load:
    """The output of a load that has ended."""

    exit_code: int
    stdout: str
    stderr: str
    folder: Path
    events: list[Event]
    end: Event
    """The end event, as --json prints it."""
    lines: list[Line] = field(default_factory=list)
    aggregates: list[Aggregate] = field(default_factory=list)
    aggregated: bool = False

    @property
    def start(self) -> Event:
        return self.events[0]

    @property
    def intervals(self) -> list[Event]:
        return [event for event in self.events if event["event"] == "interval"]

    @property
    def counts(self) -> Counts:
        return Counts.of(self.end)

    @property
    def limit_us(self) -> float | None:
        limit_ms: float | None = self.start["latency_limit_ms"]
        return None if limit_ms is None else limit_ms * 1000

    @property
    def ended_with_client(self) -> int:
        """Failed transactions without a line in the log, because their client aborted; pgbench does not count them
        either.
        """
        logged = sum(not line.succeeded and not line.skipped for line in self.lines)
        return int(self.end["failed"]) - logged

    def verify(self) -> Counts:
        """Asserts that all results of the load agree; returns its counts."""
        check_sum(self.end)
        self.check_events()
        if self.aggregated:
            self.check_aggregates()
        else:
            self.check_log()
            self.check_latencies()
        return self.counts

    def check_events(self) -> None:
        """Asserts that the stream is complete, that its intervals add up to its end, and that --json has the same
        end.
        """
        kinds = [event["event"] for event in self.events]
        assert (kinds[0], kinds[1], kinds[-1]) == ("start", "connected", "end"), kinds
        said = {name: value for name, value in self.events[-1].items() if name not in ("event", "t_us")}
        assert said == {name: value for name, value in self.end.items() if name not in ("event", "t_us")}
        assert self.end["exit_code"] == self.exit_code
        assert [interval["seq"] for interval in self.intervals] == list(range(len(self.intervals)))
        assert all(a["to_us"] == b["from_us"] for a, b in itertools.pairwise(self.intervals))
        measured = [interval for interval in self.intervals if interval["phase"] != "warm-up"]
        for script in self.end["scripts"]:
            parts = [part for one in measured for part in one["scripts"] if part["script"] == script["script"]]
            assert total(Counts.of(part) for part in parts) == Counts.of(script)
            blobs = [part["histogram"] for part in parts if "histogram" in part]
            whole = merged(blobs)
            assert whole.get_total_count() == script["succeeded"]
            if script["succeeded"] > 0:
                assert whole.equals(merged([script["histogram"]]))
                sums = sum(part["latency_ns"]["sum"] for part in parts if "latency_ns" in part)
                assert math.isclose(sums, script["latency_ns"]["sum"], rel_tol=1e-9)

    def check_log(self) -> None:
        """Asserts one log line for each ended transaction, with the right script, in the order of its client."""
        by_script = {script["script"]: script for script in self.end["scripts"]}
        assert {line.script for line in self.lines} <= set(by_script)
        for number, script in by_script.items():
            own = [line for line in self.lines if line.script == number]
            outcomes = Counter(line.outcome for line in own)
            assert outcomes["succeeded"] == script["succeeded"]
            assert outcomes["skipped"] == script["skipped"]
            assert sum(line.retries > 0 for line in own) == script["retried"]
            assert sum(line.retries for line in own) == script["retries"]
            self._check_late(own, script["late"])
            check_lag(own, script["lag_ns"])
        assert 0 <= self.ended_with_client <= self.end["clients_aborted"]
        self._check_numbers()

    def _check_numbers(self) -> None:
        warmed = self.start["warmup_s"] > 0
        for client, own in itertools.groupby(sorted(self.lines, key=lambda line: line.client), lambda x: x.client):
            numbers = [line.number for line in own]
            first = numbers[0] if warmed else 1
            assert numbers == list(range(first, first + len(numbers))), f"client {client}"
            if (most := self.start["transactions"]) is not None:
                assert len(numbers) <= most

    def _check_late(self, lines: Sequence[Line], late: int) -> None:
        limit_us = self.limit_us
        if limit_us is None:
            assert late == 0
            return
        # a latency that the log shows as the limit may have been a fraction above it
        sure = sum(line.succeeded and line.latency_us > limit_us for line in lines)
        perhaps = sum(line.succeeded and line.latency_us >= math.floor(limit_us) for line in lines)
        assert sure <= late <= perhaps

    def check_latencies(self) -> None:
        """Asserts that percentiles and moments follow from the log's lines."""
        latencies_ns = [line.latency_us * 1000 for line in self.lines if line.succeeded]
        said = self.end["latency_ns"]
        if not latencies_ns:
            assert said is None
            return
        assert merged([self.end["histogram"]]).get_total_count() == len(latencies_ns)
        for name, quantile in PERCENTILES.items():
            exact = percentile(latencies_ns, quantile)
            assert abs(said[name] - exact) <= HDR_RELATIVE * exact + 2 * LOG_RESOLUTION_NS, name
        for name, exact in (("min", min(latencies_ns)), ("max", max(latencies_ns))):
            assert exact <= said[name] < exact + LOG_RESOLUTION_NS, name
        mean = sum(latencies_ns) / len(latencies_ns)
        assert mean <= said["mean"] < mean + LOG_RESOLUTION_NS
        assert math.isclose(said["sum"], said["mean"] * len(latencies_ns), rel_tol=1e-9)
        deviation = math.sqrt(sum((value - mean) ** 2 for value in latencies_ns) / len(latencies_ns))
        assert abs(said["stddev"] - deviation) <= LOG_RESOLUTION_NS + 1e-4 * deviation

    def check_aggregates(self) -> None:
        """Asserts one line for each interval and worker without a gap, and that the lines add up to the transactions
        until the last line.

        The last interval has no line if it is incomplete; only its transactions may be missing.
        """
        counts = self.counts
        for _, own in itertools.groupby(self.aggregates, lambda line: line.worker):
            starts = [line.start_s for line in own]
            steps = {b - a for a, b in itertools.pairwise(starts)}
            assert len(steps) <= 1, starts
        for name, whole in (("count", counts.succeeded), ("skipped", counts.skipped), ("retries", counts.retries)):
            assert sum(getattr(line, name) for line in self.aggregates) <= whole, name


def check_sum(end: Event) -> None:
    """Asserts the total of every end event, for the run and for its scripts."""
    assert end["scheduled"] == end["succeeded"] + end["failed"] + end["skipped"] + end["in_flight"]
    assert total(Counts.of(script) for script in end["scripts"]) == Counts.of(end)
    assert end["late"] <= end["succeeded"]
    assert end["retried"] <= end["retries"] or end["retries"] == end["retried"] == 0
    if end["measured_s"] > 0:
        assert math.isclose(end["tps"], end["succeeded"] / end["measured_s"], rel_tol=1e-9)


def check_lag(lines: Sequence[Line], said: dict[str, float] | None) -> None:
    """Asserts that the reported schedule lag is that of the succeeded transactions in the log."""
    lags_ns = [line.lag_us * 1000 for line in lines if line.succeeded]
    if said is None:
        assert not any(lags_ns)
        return
    mean = sum(lags_ns) / len(lags_ns)
    assert mean <= said["mean"] < mean + LOG_RESOLUTION_NS
    assert max(lags_ns) <= said["max"] < max(lags_ns) + LOG_RESOLUTION_NS


@dataclass
class Running:
    """A load that is running."""

    process: subprocess.Popen[str]
    folder: Path
    aggregated: bool

    def wait_for_intervals(self, count: int) -> None:
        """Returns once it has reported that many seconds; the events file grows during the load."""
        file = self.folder / "events.jsonl"

        def have_come() -> bool:
            assert self.process.poll() is None, f"the load ended by itself: {self.process.communicate()}"
            return file.exists() and file.read_text().count('"event":"interval"') >= count

        wait_until(have_come)

    def finish(self) -> Load:
        """Waits for its end, and reads its output."""
        stdout, stderr = self.process.communicate(timeout=TIMEOUT_S)
        result = self.folder / "end.json"
        assert result.exists(), f"no load was made: {stderr}"
        events = [json.loads(line) for line in (self.folder / "events.jsonl").read_text().splitlines()]
        load = Load(self.process.returncode, stdout, stderr, self.folder, events, json.loads(result.read_text()))
        load.aggregated = self.aggregated
        prefix = self.folder / "log"
        if self.aggregated:
            load.aggregates = read_aggregates(prefix)
        else:
            start = load.start
            load.lines = read_log(prefix, lag=start["rate_per_s"] is not None, retries=start["max_tries"] != 1)
        return load


def start_load(environment: Mapping[str, str], folder: Path, *args: str, launcher: Sequence[str] = ()) -> Running:
    """Starts pgdrive with log, events and JSON in the new or empty `folder`.

    `launcher` is a command prefix.
    """
    folder.mkdir(parents=True, exist_ok=True)
    assert not any(folder.iterdir())
    written = (f"--events={folder / 'events.jsonl'}", f"--json={folder / 'end.json'}", f"--log-prefix={folder / 'log'}")
    process = subprocess.Popen(
        [*launcher, str(PGDRIVE), "-l", *written, *args], env=dict(environment), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    return Running(process, folder, any(arg.startswith("--aggregate-interval") for arg in args))


def run_load(environment: Mapping[str, str], folder: Path, *args: str) -> Load:
    return start_load(environment, folder, *args).finish()


def assert_p99_of(histogram: HdrHistogram, value_ns: float) -> None:
    """Asserts that `value_ns` is the 99th percentile of the histogram by the rule of any tool.

    Tools report different ends of a bucket, within HDR's three digits, and choose different neighbours of the rank. The
    values on both sides of the rank bound all of these results.
    """
    one = 100 / histogram.get_total_count()
    low, high = (histogram.get_value_at_percentile(min(99 + by * one, 100)) for by in (-1.5, 1.5))
    assert low * (1 - HDR_RELATIVE) <= value_ns <= high * (1 + HDR_RELATIVE)
