"""Which points belong to one curve, and how curves and points are told apart."""

from pgdyno.analyse.scaling import scaling
from pgdyno.analyse.series import Series, following, heading, label, varying
from pgdyno.analyse.summary import summarise
from pgdyno.records import Point
from tests.unit.report_sample import swept

SETTINGS = [
    Point(clients=clients, settings=settings)
    for settings in ({"work_mem": "4MB"}, {"work_mem": "8MB"}, {})
    for clients in (1, 2)
]


def test_settings_rates_and_variables_split_series() -> None:
    curves = scaling(summarise(swept(SETTINGS)))
    assert [dict(curve.series.settings) for curve in curves] == [{"work_mem": "4MB"}, {"work_mem": "8MB"}, {}]
    assert all([point.clients for point in curve.points] == [1, 2] for curve in curves)
    for further in ({"rate": 50.0}, {"variables": {"range": "5"}}):
        points = [Point(clients=1), Point.model_validate({"clients": 1, **further})]
        assert len(summarise(swept(points))) == 2


def test_labels_name_what_varies() -> None:
    series = [
        Series("pg18", rate=None, settings=(("work_mem", "4MB"),)),
        Series("pg18", rate=1500.0, variables=(("range", "10"),)),
    ]
    names = varying(series)
    assert names == ["rate", "settings.work_mem", "variables.range"]
    assert [label(each, names) for each in series] == [
        "closed loop, work_mem 4MB, range by default",
        "rate 1,500, work_mem unchanged, range 10",
    ]
    assert series[1].parameters() == {"protocol": "simple", "rate": "1500", "variables.range": "10"}
    assert heading("settings.auto_explain.log_min_duration") == "auto_explain.log_min_duration"


def test_parameters_computed_from_the_clients_do_not_split_a_curve() -> None:
    sweep = {"clients": [2, 4], "workers": ["clients / 2"], "settings": {"max_connections": ["clients + 9"]}}
    points = [
        Point(clients=clients, workers=clients // 2, settings={"max_connections": str(clients + 9)})
        for clients in (2, 4)
    ]
    assert following({"sweep": sweep}, points) == {"workers", "settings.max_connections"}
    (curve,) = scaling(summarise(swept(points, sweep)))
    assert [(point.clients, point.summary.point.workers) for point in curve.points] == [(2, 1), (4, 2)]


def test_points_that_would_become_one_stay_apart() -> None:
    plan = {"sweep": {"clients": [4], "workers": ["clients / 2"]}}
    points = [Point(clients=4, workers=2), Point(clients=4, workers=4)]
    assert following(plan, points) == frozenset()
    assert len(summarise(swept(points, {"workers": ["clients / 2"]}))) == 2


def test_values_that_are_listed_split_also_where_each_has_clients_of_its_own() -> None:
    plan = {"sweep": {"clients": [1], "scale": [10], "settings": {"work_mem": ["4MB"]}}}
    points = [
        Point(clients=1, scale=10, settings={"work_mem": "4MB"}),
        Point(clients=2, scale=20, settings={"work_mem": "8MB"}),
    ]
    assert following(plan, points) == frozenset()


def test_runs_without_a_plan_have_nothing_that_follows() -> None:
    assert following({}, [Point(clients=1)]) == frozenset()
    assert following({"sweep": {"clients": [1], "workers": None}}, [Point(clients=1)]) == frozenset()


def test_an_open_loop_has_no_peak_that_more_clients_would_reach() -> None:
    (closed,) = scaling(summarise(swept([Point(clients=1), Point(clients=2)])))
    (rated,) = scaling(summarise(swept([Point(clients=1, rate=9.0), Point(clients=2, rate=9.0)])))
    assert [warning.id for warning in closed.warnings] == ["peak-at-edge"]
    assert rated.warnings == ()
