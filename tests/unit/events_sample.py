"""Event streams in the engine's format (docs/reference/events.md), for tests that need no server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from hdrh.histogram import HdrHistogram

Event = dict[str, Any]

HIGHEST_NS = 3_600_000_000_000
ORIGIN_US = 12_500
ERRORS_A_SECOND = 20

_SPREAD = 0.45
"""Standard deviation of the logarithm of latencies."""
_QUANTILES = 120
"""Distinct latencies in a second; each represents an equal share of the transactions."""
_SCRIPTS = (
    ("<builtin: select only>", [(1, 2, "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;")]),
    (
        "<builtin: simple update>",
        [
            (4, 5, "BEGIN;"),
            (5, 6, "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;"),
            (6, 7, "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;"),
            (8, 9, "END;"),
        ],
    ),
)


@dataclass(frozen=True, slots=True)
class SampleError:
    """An error that occurs `count` times in one second of the measured part."""

    second: int
    sqlstate: str | None = "40001"
    message: str = "could not serialize access due to concurrent update"
    count: int = 1
    script: int = 0
    consequence: str = "failed"


@dataclass(slots=True)
class _Record:
    succeeded: int = 0
    failed: int = 0
    sum_ns: float = 0.0
    sum_of_squares: float = 0.0
    min_ns: int = HIGHEST_NS
    max_ns: int = 0
    histogram: Any = field(default_factory=lambda: HdrHistogram(1, HIGHEST_NS, 3))

    def record(self, latency_ns: int, count: int) -> None:
        self.histogram.record_value(latency_ns, count)
        self.succeeded += count
        self.sum_ns += latency_ns * count
        self.sum_of_squares += float(latency_ns) ** 2 * count
        self.min_ns, self.max_ns = min(self.min_ns, latency_ns), max(self.max_ns, latency_ns)

    def add(self, other: _Record) -> None:
        self.histogram.add(other.histogram)
        self.succeeded += other.succeeded
        self.failed += other.failed
        self.sum_ns += other.sum_ns
        self.sum_of_squares += other.sum_of_squares
        self.min_ns, self.max_ns = min(self.min_ns, other.min_ns), max(self.max_ns, other.max_ns)

    def counts(self) -> Event:
        return {"succeeded": self.succeeded, "failed": self.failed, "skipped": 0, "retried": 0, "retries": 0}

    def latency(self, percentiles: dict[str, float]) -> Event:
        # HdrHistogram would look at all counts in Python
        upto = np.cumsum(np.ctypeslib.as_array(self.histogram.counts))
        at = {}
        for name, percentile in percentiles.items():
            index = int(np.searchsorted(upto, self.histogram.get_target_count_at_percentile(percentile)))
            at[name] = int(self.histogram.get_highest_equivalent_value(self.histogram.get_value_from_index(index)))
        sums = {"sum": self.sum_ns, "sum_of_squares": self.sum_of_squares}
        return {**sums, "min": self.min_ns, **at, "max": self.max_ns}

    def latency_of_all(self) -> Event | None:
        if self.succeeded == 0:
            return None
        mean = self.sum_ns / self.succeeded
        stddev = sqrt(max(self.sum_of_squares / self.succeeded - mean * mean, 0.0))
        percentiles = {"p50": 50.0, "p75": 75.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9, "p9999": 99.99}
        return {"mean": mean, "stddev": stddev, **self.latency(percentiles)}

    def blob(self) -> str:
        return bytes(self.histogram.encode()).decode("ascii")


def sample_events(
    clients: int,
    seconds: int,
    tps: float,
    p50_us: float,
    scripts: int = 1,
    seed: int = 0,
    errors: Sequence[SampleError] = (),
    *,
    warmup_s: int = 0,
) -> list[Event]:
    """Returns the complete stream of a finished trial: `seconds` of measurement at about `tps` transactions per second.

    Latencies are log-normal around `p50_us` and vary a little by second. The transactions are divided evenly over 1 or
    2 `scripts`. The same arguments return the same stream.
    """
    random = np.random.default_rng(seed)
    totals = [_Record() for _ in range(scripts)]
    events = list(_start(clients, seconds, warmup_s, scripts, seed))
    for second in range(warmup_s + seconds):
        measuring = second >= warmup_s
        now = [error for error in errors if measuring and error.second == second - warmup_s]
        records = [_second(random, tps / scripts, p50_us) for _ in range(scripts)]
        for error in now:
            records[error.script].failed += error.count
        events += _error_events(now, second, clients)
        events.append(_interval(second, 1_000_000, "measure" if measuring else "warm-up", clients, records))
        if measuring:
            for total, record in zip(totals, records, strict=True):
                total.add(record)
    drained = [_Record() for _ in range(scripts)]
    drained[0].record(round(1000 * p50_us), clients)
    events.append(_interval(warmup_s + seconds, round(p50_us), "drain", 0, drained))
    totals[0].add(drained[0])
    events.append(_end(clients, seconds + p50_us / 1e6, warmup_s, totals, errors))
    return events


def _second(random: np.random.Generator, tps: float, p50_us: float) -> _Record:
    record = _Record()
    transactions = int(random.poisson(tps)) if tps < 1000 else round(tps * random.normal(1.0, 0.01))
    shares = np.diff(np.linspace(0, transactions, _QUANTILES + 1).astype(int))
    middle_ns = 1000 * p50_us * random.normal(1.0, 0.02)
    for at, share in enumerate(shares):
        if share:
            spread = _NORMAL_QUANTILES[at]
            record.record(max(1, round(middle_ns * np.exp(_SPREAD * spread))), int(share))
    return record


_NORMAL_QUANTILES = [NormalDist().inv_cdf((at + 0.5) / _QUANTILES) for at in range(_QUANTILES)]


def _start(clients: int, seconds: int, warmup_s: int, scripts: int, seed: int) -> Iterator[Event]:
    listed = [
        {
            "id": at,
            "name": name,
            "weight": 1,
            "statements": [dict(zip(("id", "line", "text"), each, strict=True)) for each in of],
        }
        for at, (name, of) in enumerate(_SCRIPTS[:scripts])
    ]
    yield {
        "event": "start", "t_us": 3, "v": 1, "epoch_us": 1_795_169_700_000_000, "pgdrive": "0.1.0", "pid": 4711,
        "clients": clients, "workers": 1, "protocol": "prepared", "io": "epoll", "duration_s": float(seconds),
        "transactions": None, "warmup_s": float(warmup_s), "rate_per_s": None, "latency_limit_ms": None,
        "max_tries": 1, "seed": seed, "scale": 10, "scripts": listed,
    }  # fmt: skip
    yield {
        "event": "connected", "t_us": ORIGIN_US - 20, "server_version": "18.6", "address": "127.0.0.1:5432",
        "connect_us": 900 * clients, "origin_us": ORIGIN_US,
    }  # fmt: skip


def _interval(second: int, length_us: int, phase: str, clients: int, records: Sequence[_Record]) -> Event:
    percentiles = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
    scripts = []
    for script, record in enumerate(records):
        if record.succeeded + record.failed == 0:
            continue
        entry: Event = {"script": script, **record.counts()}
        if record.succeeded:
            entry |= {"latency_ns": record.latency(percentiles), "histogram": record.blob()}
        scripts.append(entry)
    from_us = second * 1_000_000
    return {
        "event": "interval", "t_us": ORIGIN_US + from_us + length_us + 150, "seq": second, "from_us": from_us,
        "to_us": from_us + length_us, "phase": phase, "clients": clients, "in_flight": clients,
        "workers": [{"cpu_us": length_us // 3, "wakeups": 5000}], "scripts": scripts,
    }  # fmt: skip


def _error_events(errors: Sequence[SampleError], second: int, clients: int) -> list[Event]:
    all_of_them = [error for error in errors for _ in range(error.count)]
    return [
        {
            "event": "error", "t_us": ORIGIN_US + second * 1_000_000 + 10_000 * (at + 1), "client": at % clients,
            "script": error.script, "command": 1, "line": 2, "sqlstate": error.sqlstate, "severity": "ERROR",
            "message": error.message, "detail": None, "hint": None, "consequence": error.consequence,
        }
        for at, error in enumerate(all_of_them[:ERRORS_A_SECOND])
    ]  # fmt: skip


def _end(
    clients: int, measured_s: float, warmup_s: int, totals: Sequence[_Record], errors: Sequence[SampleError]
) -> Event:
    total = _Record()
    for record in totals:
        total.add(record)
    aborted = sum(error.count for error in errors if error.consequence in ("client-aborted", "connection-lost"))
    return {
        "event": "end",
        "t_us": ORIGIN_US + round((warmup_s + measured_s) * 1e6) + 500,
        "outcome": "aborted" if aborted else "finished",
        "exit_code": 2 if aborted else 0,
        "message": next((e.message for e in errors if aborted), None),
        "measured_s": measured_s,
        "scheduled": total.succeeded + total.failed,
        **total.counts(),
        "in_flight": 0,
        "clients_aborted": min(aborted, clients),
        "tps": total.succeeded / measured_s,
        "latency_ns": total.latency_of_all(),
        "histogram": total.blob() if total.succeeded else None,
        "scripts": [_script_end(script, record) for script, record in enumerate(totals)],
        "errors": _error_counts(errors),
        "cpu_us": {"user": round(measured_s * 300_000), "system": round(measured_s * 200_000)},
    }


def _script_end(script: int, record: _Record) -> Event:
    latency = record.latency_of_all()
    ids = [statement[0] for statement in _SCRIPTS[script][1]]
    statements = [
        {"id": id_, "executions": record.succeeded, "failures": record.failed if id_ == ids[0] else 0}
        | {"latency_ns": _shared(latency, len(ids))}
        for id_ in ids
    ]
    entry: Event = {"script": script, **record.counts(), "latency_ns": latency, "statements": statements}
    if record.succeeded:
        entry["histogram"] = record.blob()
    return entry


def _shared(latency: Event | None, statements: int) -> Event | None:
    """Returns a statement's latency if all `statements` take an equal share of the transaction's."""
    if latency is None or statements == 1:
        return latency
    shared = {
        name: value // statements if isinstance(value, int) else value / statements for name, value in latency.items()
    }
    return {**shared, "sum_of_squares": latency["sum_of_squares"] / statements**2}


def _error_counts(errors: Sequence[SampleError]) -> list[Event]:
    counts = Counter[tuple[str | None, str]]()
    for error in errors:
        counts[error.sqlstate, error.message] += error.count
    return [{"sqlstate": state, "message": text, "count": count} for (state, text), count in counts.most_common()]
