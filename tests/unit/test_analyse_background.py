"""Which seconds of a load in the background count, and the figures that they give."""

from typing import Any

import pytest

from pgdyno.analyse.over_time.probe_series import background_figures
from tests.present import present
from tests.unit.report_sample import blob_of

SECOND = 1_000_000
START = {"event": "start", "seed": 5, "workers": 1, "epoch_us": 0}


def engine(origin_us: int, intervals: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the events of an engine whose load began at `origin_us` since 1970."""
    connected = {"event": "connected", "origin_us": origin_us - 100}
    return [{**START, "epoch_us": 100}, connected, *intervals, {"event": "end", "workers": [{}, {}]}]


def interval(second: int, latencies: list[tuple[int, int]], phase: str = "measure", failed: int = 0) -> dict[str, Any]:
    count = sum(each for _, each in latencies)
    values = [latency for latency, _ in latencies]
    script = {
        "succeeded": count,
        "failed": failed,
        "skipped": 0,
        "latency_ns": {
            "sum": sum(latency * each for latency, each in latencies),
            "sum_of_squares": sum(latency * latency * each for latency, each in latencies),
            "min": min(values, default=0),
            "max": max(values, default=0),
        }
        if count
        else None,
        "histogram": blob_of(tuple(latencies)).decode() if count else None,
    }
    times = {"from_us": second * SECOND, "to_us": (second + 1) * SECOND}
    return {"event": "interval", "phase": phase, **times, "scripts": [script]}


def main_load() -> list[dict[str, Any]]:
    """Begins at 10 s, warms up for a second, measures for three."""
    phases = ["warm-up", "measure", "measure", "measure", "drain"]
    return engine(10 * SECOND, [interval(at, [(1000, 1)], phase) for at, phase in enumerate(phases)])


def test_only_whole_seconds_within_the_measured_part_count() -> None:
    # at 8.4, 9.4, ... 15.4 s; 11.4 to 12.4 and 12.4 to 13.4 lie within 11 to 14
    replica = engine(8_400_000, [interval(at, [(1000 * (at + 1), 100)], failed=at) for at in range(8)])
    found = present(background_figures("pgdyno_1", 3, replica, main_load()))
    assert (found.name, found.clients, found.seed, found.workers) == ("pgdyno_1", 3, 5, 2)
    assert (found.measured_s, found.succeeded, found.failed, found.tps) == (2.0, 200, 7, 100.0)
    latency = present(found.latency_ns)
    assert (latency.min, latency.max, latency.mean, latency.stddev) == (4000, 5000, 4500, 500)
    assert latency.p50 == pytest.approx(4000, rel=0.001)
    assert latency.p99 == pytest.approx(5000, rel=0.001)
    assert present(latency.p9999) <= present(latency.max)


def test_a_phase_without_a_result_is_a_gap() -> None:
    phases = ["measure", "warm-up", "measure"]
    trial = engine(0, [interval(at, [(1, 1)], phase) for at, phase in enumerate(phases)])
    found = present(background_figures("a", 1, engine(0, [interval(at, [(9, 10**at)]) for at in range(3)]), trial))
    assert (found.measured_s, found.succeeded) == (2.0, 101)


def test_a_trial_too_short_for_a_whole_second_has_no_background_figures() -> None:
    trial = engine(0, [interval(0, [(1, 1)])])
    found = present(background_figures("a", 1, engine(500_000, [interval(0, [(1, 1)])]), trial))
    assert (found.measured_s, found.tps, found.latency_ns) == (0, None, None)


def test_a_standstill_is_no_throughput_and_no_latency() -> None:
    found = present(background_figures("a", 1, engine(0, [interval(0, [])]), engine(0, [interval(0, [(1, 1)])])))
    assert (found.tps, found.latency_ns) == (0, None)


def test_an_engine_that_never_began_has_none() -> None:
    assert background_figures("a", 1, [], main_load()) is None
    assert background_figures("a", 1, [START, {"event": "end"}], main_load()) is None
