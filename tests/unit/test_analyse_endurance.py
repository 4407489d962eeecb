"""Endurance: slopes of long trials, with planted declines, autocorrelated noise, and checkpoints."""

from dataclasses import replace

import numpy as np
import pytest
from simulations.endurance import verdicts_of

from pgdyno.analyse.over_time.endurance import Endurance, EnduranceVerdict, trend, trial_endurance
from pgdyno.audit import Severity
from pgdyno.report.answers.endurance import endurance_json, endurance_lines
from pgdyno.report.report_content import Extras, LongTrial, digest
from pgdyno.store.probe_queries import TableSum
from pgdyno.store.trial_tables import IntervalRow
from tests.present import present
from tests.unit.audit_sample import of, own
from tests.unit.endurance_sample import minutes_of, rows_of, seconds_of
from tests.unit.report_sample import SampleRun, add_trial, interval_row, manifest

HOLDS, DECLINES, CANNOT_TELL = EnduranceVerdict.HOLDS, EnduranceVerdict.DECLINES, EnduranceVerdict.CANNOT_TELL


@pytest.mark.long_cases("[0-0.3]", "[5-0.0]", "[20-0.0]")
@pytest.mark.parametrize(("memory_s", "saw"), [(0, 0.0), (5, 0.0), (0, 0.3), (5, 0.3), (20, 0.0), (20, 0.3)])
def test_a_stationary_hour_is_no_decline(memory_s: float, saw: float) -> None:
    told = verdicts_of(60, 1, memory_s=memory_s, saw=saw)
    assert told[DECLINES] <= 2
    assert told[HOLDS] >= 20


def test_slow_noise_is_cannot_tell_rather_than_a_decline() -> None:
    """Swings of minutes look like slopes of an hour."""
    told = verdicts_of(60, 1, memory_s=100)
    assert told[DECLINES] <= 4
    assert told[CANNOT_TELL] >= 30


def test_a_planted_decline_is_found_and_within_its_interval() -> None:
    for slope, saw, hours in ((-0.05, 0.0, 1), (-0.1, 0.3, 1), (-0.03, 0.3, 4)):
        assert verdicts_of(30, hours, memory_s=5, saw=saw, slope=slope)[DECLINES] >= 28
    random = np.random.default_rng(4)
    found = [trend(minutes_of(seconds_of(random, 1, memory_s=20, slope=-0.2)), 1) for _ in range(100)]
    assert sum(each is not None and each.low <= -0.2 <= each.high for each in found) >= 88


def test_latency_that_rises_is_a_decline_of_a_load_that_keeps_up() -> None:
    random = np.random.default_rng(1)
    noise = np.exp(random.normal(0, 0.1, 3_600))
    latency = 4 * np.exp(np.log(3) * np.arange(3_600) / 3_600) * noise
    found = present(of_rows(rows_of([50.0] * 3_600, list(latency))))
    assert (found.tps.verdict, present(found.latency).verdict, found.verdict) == (HOLDS, DECLINES, DECLINES)
    assert present(found.latency).per_hour == pytest.approx(2.0, rel=0.1)


def of_rows(rows: list[IntervalRow]) -> Endurance | None:
    return trial_endurance(SampleRun(manifest(), rows={1: rows}), 1)


def test_an_hour_has_a_verdict() -> None:
    for length in (0, 600, 3_500):
        assert of_rows(rows_of([100.0] * length, [5.0] * length)) is None, "less than an hour"
    # several scripts are one load
    one = rows_of([100.0] * 3_600, [5.0] * 3_600)
    found = present(of_rows([row for each in one for row in (each, replace(each, script=1))]))
    assert found.hours == pytest.approx(1.0)
    # an import without latencies has throughput only, and a trial without a transaction no trend
    found = present(of_rows([interval_row(1, second, "measure", 100) for second in range(3_600)]))
    assert (found.latency, found.verdict) == (None, HOLDS)
    assert of_rows([interval_row(1, second, "measure", 0) for second in range(3_600)]) is None
    seconds = [100.0] * 3_600
    seconds[600:690] = [0.0] * 90
    assert present(of_rows(rows_of(seconds, [5.0] * 3_600))).verdict is not DECLINES


def test_the_report_and_the_audit_name_a_decline() -> None:
    run = SampleRun(manifest())
    add_trial(run, "pg18", 4, 1_000, 5_000)
    random = np.random.default_rng(1)
    run.rows[1] = rows_of(list(seconds_of(random, 1, memory_s=5, slope=-0.2)), [5.0] * 3_600)
    endurance = present(trial_endurance(run, 1))
    tables = [TableSum("branches", 30e6, 29e6, 19_500, 10, 0, 19_500, 100, 0, 3)]
    extras = Extras(long_trials=[LongTrial(1, endurance, tables)])
    (line,) = endurance_lines(digest(run), extras)
    assert "throughput declines by 1" in line
    assert "latency holds" in line
    assert line.endswith(
        "tables and indexes grew by 29.0 MB to 30.0 MB, 19,500 dead rows at the end "
        "(most in branches: 19,500 for 10 live)"
    )
    (said,) = endurance_json(extras)
    assert said["verdict"] == "declines"
    assert said["tps"]["low"] < said["tps"]["per_hour"] < -0.15
    assert said["tables"][0]["dead_rows"] == 19_500
    falling = own(seconds=list(np.linspace(10_000, 8_000, 3_600)), length_s=3_600, repeats=1)
    (finding,) = of("declines", falling)
    assert finding.severity is Severity.CAUTION
    assert "by up to 19.7 % an hour" in finding.message
