from __future__ import annotations

from pgdyno.analyse.scaling import ScalingCurve, scaling
from pgdyno.analyse.series import Series, label, varying
from pgdyno.analyse.summary import summarise
from pgdyno.analyse.warning import WarningCode
from tests.unit.report_sample import SampleRun, add_failure, add_trial, manifest


def curve(points: dict[int, list[float]]) -> ScalingCurve:
    run = SampleRun(manifest())
    for clients, rates in points.items():
        for repeat, tps in enumerate(rates, start=1):
            add_trial(run, "pg18", clients, tps, 900, repeat=repeat, seconds=2)
    return scaling(summarise(run))[0]


def test_the_peak_is_the_highest_mean_and_the_knee_the_fewest_clients_within_its_interval() -> None:
    found = curve({4: [500, 501, 502], 8: [900, 950, 1000], 16: [960, 1000, 1010], 32: [940, 945, 950]})
    assert (found.peak.clients, found.knee.clients) == (16, 8)
    assert found.warnings == ()


def test_without_overlap_the_knee_is_the_peak() -> None:
    found = curve({1: [100, 101], 2: [200, 201], 4: [150, 151]})
    assert found.knee is found.peak


def test_of_two_alike_the_fewer_clients_are_the_peak() -> None:
    assert curve({4: [100, 100], 2: [100, 100], 8: [90, 90]}).peak.clients == 2


def test_a_peak_at_the_edge_is_a_warning() -> None:
    found = curve({1: [100, 101], 2: [200, 201]})
    assert [warning.code for warning in found.warnings] == [WarningCode.PEAK_AT_EDGE]
    assert "(2)" in found.warnings[0].message


def test_one_trial_gives_a_knee_that_says_little() -> None:
    found = curve({1: [100], 2: [200], 4: [150]})
    assert found.knee is found.peak
    assert [warning.code for warning in found.warnings] == [WarningCode.KNEE_WITHOUT_INTERVALS]


def test_a_single_point_is_a_curve_without_warnings() -> None:
    assert curve({8: [100]}).warnings == ()


def test_points_without_a_finished_trial_are_not_on_the_curve() -> None:
    run = SampleRun(manifest(("pg18", "pg17")))
    add_trial(run, "pg18", 1, 100, 900)
    add_failure(run, "pg18", 2)
    add_failure(run, "pg17", 1)
    (found,) = scaling(summarise(run))
    assert [point.clients for point in found.points] == [1]


def test_series_are_told_apart_by_what_varies() -> None:
    one, other = Series("pg18", 1, "simple", 10), Series("pg18", 2, "prepared", 10)
    assert varying([one, other]) == ["protocol", "workers"]
    assert label(one, varying([one, other])) == "simple, 1 worker"
    assert label(other, varying([one, other])) == "prepared, 2 workers"
    assert label(Series("pg18"), []) == "pg18"
    assert (
        label(Series("pg18", None, "simple", 10), ["target", "scale", "workers"])
        == "pg18, scale 10, workers by default"
    )
