import numpy as np

from pgdyno.analyse.scaling import ScalingCurve, knee, scaling
from pgdyno.analyse.series import Series, label, varying
from pgdyno.analyse.summary import summarise
from tests.unit.report_sample import SampleRun, add_failure, add_trial, manifest


def curve(points: dict[int, list[float]]) -> ScalingCurve:
    run = SampleRun(manifest())
    for clients, rates in points.items():
        for repeat, tps in enumerate(rates, start=1):
            add_trial(run, "pg18", clients, tps, 900, repeat=repeat, seconds=2)
    return scaling(summarise(run))[0]


def test_the_knee_is_the_fewest_clients_shown_to_have_95_percent_of_the_peak() -> None:
    found = curve({4: [500, 501, 502], 8: [978, 980, 982], 16: [998, 1000, 1002], 32: [940, 945, 950]})
    assert found.peak.clients == 16
    assert found.knee is not None
    assert (found.knee.clients, found.warnings) == (8, ())


def test_a_knee_that_noise_may_have_made_is_not_determined() -> None:
    # 8 clients have 96 % of the peak, and 16 may have less than 95 % of what 32 have
    found = curve({4: [450, 500, 550], 8: [890, 960, 1030], 16: [940, 1000, 1060], 32: [880, 970, 1060]})
    assert (found.peak.clients, found.knee) == (16, None)
    (warning,) = found.warnings
    assert warning.id == "knee-not-determined"


def test_a_point_under_95_percent_is_the_knee_in_at_most_one_of_twenty() -> None:
    """16 clients have 94 % of the peak, which is the highest of four equal points: choosing it must not help."""
    random = np.random.default_rng(1)
    shares = (0.5, 0.94, 1.0, 1.0, 1.0, 1.0)
    places = [knee([list(share * np.exp(random.normal(0, 0.01, 3))) for share in shares]) for _ in range(600)]
    assert sum(place is not None and place < 2 for place in places) <= 600 * 0.05
    assert sum(place is not None for place in places) > 600 * 0.9


def test_without_points_near_it_the_knee_is_the_peak() -> None:
    found = curve({1: [100, 101], 2: [200, 201], 4: [150, 151]})
    assert found.knee is found.peak


def test_of_two_alike_the_fewer_clients_are_the_peak() -> None:
    assert curve({4: [100, 100], 2: [100, 100], 8: [90, 90]}).peak.clients == 2


def test_a_peak_at_the_edge_is_a_warning() -> None:
    found = curve({1: [100, 101], 2: [200, 201]})
    assert [warning.id for warning in found.warnings] == ["peak-at-edge"]
    assert "(2)" in str(found.warnings[0])


def test_one_trial_a_point_gives_no_knee() -> None:
    found = curve({1: [100], 2: [200], 4: [150]})
    assert found.knee is None
    assert [warning.id for warning in found.warnings] == ["knee-without-intervals"]


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
