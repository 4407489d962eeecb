"""Event streams in the engine's format (docs/reference/events.md), for tests that need no server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
from hdrh.histogram import HdrHistogram

from pgdyno.records import Latency

Event = dict[str, Any]
Pairs = tuple[tuple[int, int], ...]
"""Latencies in nanoseconds, and how many transactions had each, in ascending order."""

HIGHEST_NS = 3_600_000_000_000
ORIGIN_US = 12_500
ERRORS_A_SECOND = 20

_FACTORS = np.exp([0.4 * NormalDist().inv_cdf((at + 0.5) / 200) for at in range(200)])
"""Latencies of a log-normal distribution, as multiples of its median."""
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


# samples repeat the same few medians and counts: each is worked out once


@cache
def latencies_of(p50_us: float, count: int, tail: float = 1.0) -> Pairs:
    """Returns (nanoseconds, count) in ascending order: log-normal around `p50_us`, with a tail up to 4 `tail` times the
    median.
    """
    shares = np.diff(np.linspace(0, count, len(_FACTORS) + 1).astype(int))
    latencies_ns = np.maximum(1, np.round(1000 * p50_us * _FACTORS)).astype(int)
    pairs = [each for each in zip(latencies_ns.tolist(), shares.tolist(), strict=True) if each[1]]
    for step in range(40 if tail > 1 else 0):
        rare = int(count / 150 * 0.8**step)
        if rare:
            pairs.append((round(1000 * p50_us * 2.5 * (1.6 * tail) ** (step / 39)), rare))
    return tuple(sorted(pairs))


@cache
def blob_of(pairs: Pairs) -> bytes:
    """Returns the pairs as an HDR V2 histogram in base64."""
    histogram = HdrHistogram(1, 3_600_000_000_000, 3)
    for latency_ns, count in pairs:
        histogram.record_value(latency_ns, count)
    return bytes(histogram.encode())


@cache
def latency_of(pairs: Pairs) -> Latency:
    values, counts = np.array(pairs).T
    reached = np.cumsum(counts)
    names = {"p50": 50.0, "p75": 75.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9, "p9999": 99.99}
    places = np.searchsorted(reached, np.ceil(np.array(list(names.values())) / 100 * reached[-1]))
    mean = float(np.average(values, weights=counts))
    stddev = float(np.sqrt(np.average((values - mean) ** 2, weights=counts)))
    percentiles = {name: int(values[at]) for name, at in zip(names, places, strict=True)}
    return Latency(mean=mean, stddev=stddev, min=int(values[0]), max=int(values[-1]), **percentiles)


def _counts(pairs: Pairs, failed: int) -> Event:
    counts = {"succeeded": sum(count for _, count in pairs), "failed": failed}
    return {**counts, **dict.fromkeys(("skipped", "retried", "retries"), 0)}


def _figures(pairs: Pairs, *names: str) -> Event | None:
    """Returns these figures of the latencies, and what a reader needs to merge them with others."""
    if not pairs:
        return None
    of = latency_of(pairs)
    sums = {"sum": float(sum(ns * count for ns, count in pairs))}
    sums["sum_of_squares"] = float(sum(float(ns) ** 2 * count for ns, count in pairs))
    return {**sums, **{name: getattr(of, name) for name in ("min", "max", *names)}}


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
    totals: list[Pairs] = [()] * scripts
    failed = Counter(dict.fromkeys(range(scripts), 0))
    events = list(_start(clients, seconds, warmup_s, scripts, seed))
    for second in range(warmup_s + seconds):
        measuring = second >= warmup_s
        now = [error for error in errors if measuring and error.second == second - warmup_s]
        records = [_second(random, tps / scripts, p50_us) for _ in range(scripts)]
        fails = Counter[int]()
        for error in now:
            fails[error.script] += error.count
        events += _error_events(now, second, clients)
        events.append(_interval(second, 1_000_000, "measure" if measuring else "warm-up", clients, records, fails))
        if measuring:
            totals = [total + record for total, record in zip(totals, records, strict=True)]
            failed += fails
    drained = ((round(1000 * p50_us), clients),)
    last = _interval(warmup_s + seconds, round(p50_us), "drain", 0, [drained, *[()] * (scripts - 1)], Counter())
    totals[0] += drained
    totals = [tuple(sorted(total)) for total in totals]
    return [*events, last, _end(seconds + p50_us / 1e6, warmup_s, totals, failed, errors)]


def _second(random: np.random.Generator, tps: float, p50_us: float) -> Pairs:
    transactions = int(random.poisson(tps)) if tps < 1000 else round(tps * random.normal(1.0, 0.01))
    return latencies_of(p50_us * random.normal(1.0, 0.02), transactions)


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


def _interval(
    second: int, length_us: int, phase: str, clients: int, records: Sequence[Pairs], failed: Counter[int]
) -> Event:
    scripts = []
    for script, pairs in enumerate(records):
        if not pairs and not failed[script]:
            continue
        entry: Event = {"script": script, **_counts(pairs, failed[script])}
        if pairs:
            figures = _figures(pairs, "p50", "p95", "p99", "p999")
            entry |= {"latency_ns": figures, "histogram": blob_of(pairs).decode("ascii")}
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
    measured_s: float, warmup_s: int, totals: Sequence[Pairs], failed: Counter[int], errors: Sequence[SampleError]
) -> Event:
    total = tuple(sorted(pair for pairs in totals for pair in pairs))
    counts = _counts(total, failed.total())
    return {
        "event": "end",
        "t_us": ORIGIN_US + round((warmup_s + measured_s) * 1e6) + 500,
        "outcome": "finished",
        "exit_code": 0,
        "message": None,
        "measured_s": measured_s,
        "scheduled": counts["succeeded"] + counts["failed"],
        **counts,
        "in_flight": 0,
        "clients_aborted": 0,
        "tps": counts["succeeded"] / measured_s,
        "latency_ns": _all_figures(total),
        "histogram": blob_of(total).decode("ascii"),
        "scripts": [_script_end(script, pairs, failed[script]) for script, pairs in enumerate(totals)],
        "errors": _error_counts(errors),
        "cpu_us": {"user": round(measured_s * 300_000), "system": round(measured_s * 200_000)},
    }


def _all_figures(pairs: Pairs) -> Event | None:
    return _figures(pairs, "mean", "stddev", "p50", "p75", "p90", "p95", "p99", "p999", "p9999")


def _script_end(script: int, pairs: Pairs, failed: int) -> Event:
    latency, counts = _all_figures(pairs), _counts(pairs, failed)
    ids = [statement[0] for statement in _SCRIPTS[script][1]]
    statements = [
        {"id": id_, "executions": counts["succeeded"], "failures": failed if id_ == ids[0] else 0}
        | {"latency_ns": latency}
        for id_ in ids
    ]
    entry: Event = {"script": script, **counts, "latency_ns": latency, "statements": statements}
    return entry | ({"histogram": blob_of(pairs).decode("ascii")} if pairs else {})


def _error_counts(errors: Sequence[SampleError]) -> list[Event]:
    counts = Counter[tuple[str | None, str]]()
    for error in errors:
        counts[error.sqlstate, error.message] += error.count
    return [{"sqlstate": state, "message": text, "count": count} for (state, text), count in counts.most_common()]
