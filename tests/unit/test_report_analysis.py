"""Sentences about unsteady trials, dips and curves."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from pgdyno.analyse.over_time.steady_state import SteadyClass
from pgdyno.records.promise import parse_latency
from pgdyno.report.analysis import analyse_run, analysis_json, analysis_lines, meets_latency
from tests.unit.report_sample import SampleRun, add_repeats, add_trial, manifest, sweep


def lines_of(run: SampleRun) -> list[str]:
    return list(analysis_lines(analyse_run(run)))


def test_a_slowdown_and_a_dip_are_named_with_their_trial() -> None:
    run = SampleRun(manifest(trials_planned=2))
    add_trial(run, "pg18", 4, 1_000, seconds=60)
    add_trial(run, "pg18", 4, 1_000, repeat=2, seconds=60, dips=[40, 41, 42])
    lines = lines_of(run)
    assert lines[0] == "steady state: 2 flat"
    assert re.fullmatch(r"  flat: a drift of .+ % would show in 80 % of such trials", lines[1])
    assert lines[2].startswith("dips: 1, ")
    assert lines[3].startswith("  trial 2, pg18, 4 clients: 40 to 43 s, down by 5")


def test_a_trial_has_the_times_of_its_levels_or_a_cycle() -> None:
    run = SampleRun(manifest(trials_planned=1))
    add_trial(run, "pg18", 4, 1_000, seconds=120, warmup_s=10)
    run.rows[1] = [replace(row, succeeded=500) if 10 <= row.second < 50 else row for row in run.rows[1]]
    lines = lines_of(run)
    assert lines[1].startswith("  trial 1, pg18, 4 clients: warm-up, 500 tps from 0 to 40 s, ")
    assert lines[1].endswith(" tps from 40 to 120 s")
    run = SampleRun(manifest(trials_planned=1))
    add_trial(run, "pg18", 4, 1_000, seconds=120)
    run.rows[1] = [replace(row, succeeded=900 + 10 * (row.second % 20)) for row in run.rows[1]]
    assert lines_of(run)[:2] == ["steady state: 1 periodic", "  trial 1, pg18, 4 clients: periodic, a cycle of 20 s"]


def at_four_clients(rates: Sequence[float]) -> SampleRun:
    run = SampleRun(manifest(trials_planned=2))
    add_repeats(run, 4, rates)
    return run


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ((900.0, 1100.0), "1,000 tps (95 %: 0 to 2,270) at"),
        ((71_280.0, 71_290.0), "71,280 tps (95 %: 71,220 to 71,350) at"),
    ],
)
def test_the_interval_of_a_capacity_is_that_of_the_report(rates: tuple[float, float], said: str) -> None:
    found = analyse_run(at_four_clients(rates), latency=parse_latency("p99 < 10ms"))
    assert said in "\n".join(analysis_lines(found))


def test_a_curve_meets_a_latency_target_at_a_point_or_not() -> None:
    run = at_four_clients((1_000.0, 1_000.0))
    for limit, meets in (("p99 < 10s", True), ("p99 < 1us", False)):
        assert meets_latency(analyse_run(run, latency=parse_latency(limit))) is meets
    found = analyse_run(SampleRun(manifest()), latency=parse_latency("p99 < 10s"))
    assert "no finished trial: nothing shows whether p99 < 10s" in list(analysis_lines(found))
    assert not meets_latency(found)


def test_a_whole_curve_has_its_law() -> None:
    found = analyse_run(sweep(clients=(1, 2, 4, 8, 16, 32, 64, 128), seconds=25))
    (line,) = [line for line in analysis_lines(found) if "scalability law" in line]
    assert "peak at" in line
    answer = json.loads(json.dumps(analysis_json(found)))
    (curve,) = answer["curves"]
    assert curve["usl"]["contention"]["low"] <= curve["usl"]["contention"]["fitted"]
    assert {trial["steady"]["kind"] for trial in answer["trials"]} <= set(SteadyClass)
    assert np.isfinite(curve["usl"]["largest_error"])
