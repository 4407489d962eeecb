import pytest

from pgdyno.analyse.over_time.timeline import trial_timeline
from pgdyno.analyse.summary import PointSummary, summarise
from pgdyno.records import ErrorCount, Outcome, Point
from pgdyno.store.seconds import MEASURE, WARM_UP
from pgdyno.store.trial_tables import TOTAL, HistogramRow
from tests.present import present
from tests.unit.events_sample import blob_of
from tests.unit.report_sample import SampleRun, add_failure, add_trial, interval_row, manifest


def codes(point: PointSummary) -> set[str]:
    return {warning.id for warning in point.warnings}


def test_trials_of_a_point_become_a_mean_with_an_interval_by_their_transactions() -> None:
    run = SampleRun(manifest())
    for repeat, tps in enumerate((990.0, 1000.0, 1010.0), start=1):
        add_trial(run, "pg18", 4, tps, 900, repeat=repeat)
    (point,) = summarise(run)
    assert present(point.tps).mean == pytest.approx(1000)
    # s = 10, t = 4.3027
    assert present(point.tps).half == pytest.approx(4.3027 * 10 / 3**0.5, abs=1e-2)
    assert (point.clients, point.finished, point.failed) == (4, (1, 2, 3), ())
    assert point.warnings == ()
    run = SampleRun(manifest())
    small = add_trial(run, "pg18", 1, 10, 1000, tail=1, seconds=10)
    large = add_trial(run, "pg18", 1, 1000, 4000, repeat=2, tail=1, seconds=10)
    (point,) = summarise(run)
    means = [present(present(present(trial.summary).latency_ns).mean) for trial in (small, large)]
    assert present(point.latency).mean == pytest.approx((means[0] * 100 + means[1] * 10_000) / 10_100)


def test_percentiles_are_those_of_the_merged_histogram_of_all_scripts() -> None:
    run = SampleRun(manifest())
    add_trial(run, "pg18", 1, 100, 900, repeat=1)
    add_trial(run, "pg18", 1, 100, 900, repeat=2)
    run.blobs[1] = [HistogramRow(1, TOTAL, MEASURE, 0, blob_of(((1_000_000, 990), (2_000_000, 10))))]
    run.blobs[2] = [HistogramRow(2, TOTAL, MEASURE, 0, blob_of(((50_000_000, 100),)))]
    for at, trial in enumerate(run.trials):
        summary = present(trial.summary)
        latency = present(summary.latency_ns).model_copy(update={"min": 1_000_000, "max": 50_000_000})
        update = {"summary": summary.model_copy(update={"latency_ns": latency})}
        run.trials[at] = trial.model_copy(update=update)
    (point,) = summarise(run)
    assert codes(point) == {"few-trials"}
    assert point.latency is not None
    assert point.latency.p50 == pytest.approx(1_000_000, rel=1e-3)
    # the end of its bucket is above the largest latency
    assert point.latency.p99 == point.latency.p999 == point.latency.max == 50_000_000
    assert present(point.histogram).percentile_ns(99.99) == 50_000_000
    run = SampleRun(manifest())
    add_trial(run, "pg18", 1, 100, 900)
    run.blobs[1] = [
        HistogramRow(1, TOTAL, MEASURE, 0, blob_of(((1_000_000, 5),))),
        HistogramRow(1, TOTAL, MEASURE, 1, blob_of(((2_000_000, 7),))),
        HistogramRow(1, 3, MEASURE, 0, blob_of(((9_000_000, 1000),))),
    ]
    (point,) = summarise(run)
    assert present(point.histogram).count == 12


def test_failed_and_interrupted_trials_count_for_nothing_but_are_named() -> None:
    run = SampleRun(manifest())
    add_trial(run, "pg18", 4, 1000, 900)
    add_failure(run, "pg18", 4, repeat=2)
    add_failure(run, "pg18", 4, repeat=3, outcome=Outcome.INTERRUPTED)
    (point,) = summarise(run)
    assert (present(point.tps).mean, present(point.tps).half, point.failed) == (1000, None, (2, 3))
    assert codes(point) == {"failed-trials", "interrupted-trials", "one-trial"}
    assert "1 of 3 trials failed and does not count" in [str(warning) for warning in point.warnings]
    run = SampleRun(manifest())
    add_failure(run, "pg18", 4)
    (point,) = summarise(run)
    assert (point.tps, point.latency, point.histogram, point.seconds) == (None, None, None, ())
    assert codes(point) == {"failed-trials", "no-trials"}


def test_losses_and_errors_add_up_over_trials() -> None:
    run = SampleRun(manifest())
    deadlock = ErrorCount(sqlstate="40P01", message="deadlock detected", count=2)
    serial = ErrorCount(sqlstate="40001", message="could not serialize", count=5)
    add_trial(run, "pg18", 1, 100, 900, repeat=1, failed=7, retries=3, errors=[serial, deadlock])
    add_trial(run, "pg18", 1, 100, 900, repeat=2, skipped=1, errors=[deadlock.model_copy(update={"count": 4})])
    (point,) = summarise(run)
    assert (point.losses.failed, point.losses.skipped, point.losses.retries, point.losses.errors) == (7, 1, 3, 8)
    assert [(error.sqlstate, error.count) for error in point.errors] == [("40P01", 6), ("40001", 5)]
    assert "errors: 7 failed, 1 skipped" in [str(warning) for warning in point.warnings]


def test_without_a_histogram_there_is_no_latency_and_a_warning() -> None:
    found = []
    for tps, blobs in ((0, None), (100, []), (100, [HistogramRow(1, TOTAL, MEASURE, 0, b"rubbish")])):
        run = SampleRun(manifest())
        add_trial(run, "pg18", 1, tps, 900, with_latency=tps > 0)
        run.blobs[1] = run.blobs[1] if blobs is None else blobs
        (point,) = summarise(run)
        assert point.latency is None
        assert point.tps is not None
        found.append(codes(point) - {"one-trial", "few-trials"})
    assert found == [{"no-latency"}, {"histogram-missing"}, {"histogram-broken"}]


def test_points_come_by_target_series_and_clients_of_the_plan() -> None:
    run = SampleRun(manifest(("pg18", "pg17")))
    for target, clients in (("pg17", 4), ("pg18", 16), ("pg17", 1), ("pg18", 2)):
        add_trial(run, target, clients, 100, 900)
    assert [(point.series.target, point.clients) for point in summarise(run)] == [
        ("pg18", 2), ("pg18", 16), ("pg17", 1), ("pg17", 4),
    ]  # fmt: skip
    sweep = {"protocol": ["simple", "prepared"], "settings": {"jit": ["on", "off"]}}
    run = SampleRun(manifest().model_copy(update={"plan": {"sweep": sweep}}))
    order = [("simple", "on"), ("simple", "off"), ("prepared", "on"), ("prepared", "off")]
    # an order of trials is often random; a value that the plan does not have comes last
    for protocol, jit in [*reversed(order), ("extended", "on")]:
        point = Point(clients=1, protocol=protocol, settings={"jit": jit})
        add_trial(run, "pg18", 1, 100, 900, point=point)
    series = [point.series for point in summarise(run)]
    assert [(each.protocol, each.parameter("settings.jit")) for each in series] == [*order, ("extended", "on")]
    run = SampleRun(manifest())
    for scale in (10, 100):
        add_trial(run, "pg18", 1, 100, 900, point=Point(clients=1, scale=scale))
    assert [point.series.scale for point in summarise(run)] == [10, 100]


def test_seconds_are_sums_over_scripts_and_means_over_trials_of_the_measured_part() -> None:
    run = SampleRun(manifest())
    for repeat, tps in ((1, 100), (2, 200)):
        trial = add_trial(run, "pg18", 1, tps, 900, repeat=repeat)
        run.rows[trial.number] = [
            interval_row(trial.number, 0, WARM_UP, 1),
            interval_row(trial.number, 1, MEASURE, tps),
            *([interval_row(trial.number, 2, MEASURE, 7)] if repeat == 1 else []),
        ]
    assert summarise(run)[0].seconds == (150, 7)
    run = SampleRun(manifest())
    add_trial(run, "pg18", 1, 100, 900)
    run.rows[1] = [
        interval_row(1, 0, WARM_UP, 10),
        interval_row(1, 1, MEASURE, 30, script=0),
        interval_row(1, 1, MEASURE, 12, script=1),
        interval_row(1, 2, MEASURE, 40, to_us=2_500_000),
        interval_row(1, 3, MEASURE, 40, to_us=3_100_000),
        interval_row(1, 4, "drain", 3),
    ]
    timeline = trial_timeline(run, 1)
    assert [(second.phase, second.tps) for second in timeline.seconds] == [(WARM_UP, 10), (MEASURE, 42), (MEASURE, 80)]
    assert timeline.warmup_end_s == 1
    # a phase that does not count is no warm-up later
    run.rows[2] = [interval_row(2, at, phase, 10) for at, phase in enumerate((WARM_UP, WARM_UP, MEASURE, WARM_UP))]
    timeline = trial_timeline(run, 2)
    assert (timeline.warmup_end_s, len(timeline.measured_seconds())) == (2, 1)


def test_the_p99_of_a_second_is_that_of_its_scripts_together() -> None:
    run = SampleRun(manifest())
    add_trial(run, "pg18", 1, 100, 900)
    each_script = ((1_000_000, 99), (8_000_000, 3))
    run.rows[1] = [interval_row(1, 0, MEASURE, n, script=at, p99_ns=at + 1) for at, (_, n) in enumerate(each_script)]
    run.blobs[1] = [HistogramRow(1, 0, MEASURE, at, blob_of((latency,))) for at, latency in enumerate(each_script)]
    (second,) = trial_timeline(run, 1, percentiles=True).seconds
    assert second.p99_ns == pytest.approx(8_000_000, rel=1e-3)
    # of one script, it is the recorded one
    run.rows[2] = [interval_row(2, 0, MEASURE, 99, p99_ns=1234), interval_row(2, 1, MEASURE, 0)]
    assert [second.p99_ns for second in trial_timeline(run, 2, percentiles=True).seconds] == [1234, None]
