"""Open loop compared with closed loop: the chart, its sentence, its table, and when there is none."""

import pytest

from pgdyno.records import Point
from pgdyno.report.charts.layout import Layout
from pgdyno.report.charts.page_figures import spectrum_figure
from pgdyno.report.numbers import NOTHING
from pgdyno.report.report_content import Extras, digest
from pgdyno.report.sections.figures.latency import is_closed, loops_figure
from pgdyno.report.sections.key_figures import near, peak_numbers
from pgdyno.report.sentences import latency_title
from tests.present import present
from tests.unit.report_sample import SampleRun, add_trial, manifest, render_html, sweep
from tests.unit.test_report_html import Page


def both(rates: tuple[float, ...] = (300.0, 900.0), clients: tuple[int, ...] = (1, 4)) -> SampleRun:
    """Two trials of each rate with 8 clients, and of each of `clients` in closed loop; open loop is slower."""
    run = SampleRun(manifest())
    for repeat in (1, 2):
        for rate in rates:
            point = Point(clients=8, protocol="prepared", rate=rate)
            add_trial(run, "pg18", 8, rate, 1500, repeat=repeat, seconds=2, point=point)
        for each in clients:
            add_trial(run, "pg18", each, 230.0 * each, 800, repeat=repeat, seconds=2)
    return run


def test_both_loops_are_drawn_and_compared_where_they_meet() -> None:
    figure, table = present(loops_figure(digest(both())))
    assert figure.title.startswith("At about 900 transactions a second, p99 is ")
    assert figure.title.endswith(" ms in a closed loop")
    for layout in Layout:
        drawn = figure.drawn(layout)
        assert drawn.count("<path") >= 2
        assert "n = 938 to 3786 transactions a point" in drawn
        assert "open loop" in drawn
        assert "closed loop" in drawn
    assert [row[1:5] for row in table.rows] == [
        ("open loop", "8", "300", "300"),
        ("open loop", "8", "900", "900"),
        ("closed loop", "1", NOTHING, "230"),
        ("closed loop", "4", NOTHING, "920"),
    ]


def test_with_rates_alone_the_title_names_both_ends() -> None:
    figure, table = present(loops_figure(digest(both(clients=()))))
    assert figure.title.startswith("In an open loop, p99 is ")
    assert " at 300 transactions a second and " in figure.title
    assert len(table.rows) == 2


def test_no_throughput_in_common() -> None:
    figure, _ = present(loops_figure(digest(both(rates=(30.0,), clients=(4,)))))
    assert figure.title == "p99 in an open and in a closed loop, at different throughputs"


def test_without_an_open_loop_the_page_says_so() -> None:
    run = sweep(clients=(1, 4), repeats=1)
    of = digest(run)
    assert loops_figure(of) is None
    assert is_closed(of)
    assert "Closed loop: a client sends" in Page(render_html(run, "here")).text("p")


def test_the_page_has_the_picture_and_its_table() -> None:
    page = Page(render_html(both(), "here"))
    assert "At about 900 transactions a second" in page.text("h2")
    assert "Latency by throughput; in an open loop" in page.text("caption")
    assert "Closed loop: a client sends" not in page.text("p")


def test_runs_without_a_common_point_stand_beside_each_other_and_are_not_compared() -> None:
    run = both()
    page = Page(render_html(run, "here", Extras(apart=["20261120T101500Z-open-3f9a"])))
    assert "It has no point in common with the first run" in page.text("li")
    assert "20261120T101500Z-open-3f9a" in page.text("li")
    assert "closed loop" in page.text("td")


@pytest.mark.parametrize("rates", [(1_000.0,), (500.0, 1_000.0)])
def test_an_open_loop_has_no_peak_and_does_not_rise(rates: tuple[float, ...]) -> None:
    run = SampleRun(manifest())
    for rate in rates:
        for clients in (4, 8, 16):
            point = Point(clients=clients, protocol="prepared", rate=rate)
            add_trial(run, "pg18", clients, rate + clients / 10, 900, point=point)
    of = digest(run)
    assert "peak" not in latency_title(of)
    assert all("rising" not in each.about for each in peak_numbers(of, of.curves[0], Extras()))


def test_of_few_transactions_none_is_slower_than_the_slowest() -> None:
    run = SampleRun(manifest())
    add_trial(run, "pg18", 1, 3, 900, seconds=10, tail=1)
    figure = spectrum_figure(digest(run))
    assert figure is not None
    assert "one in 1,000" not in figure.title
    assert figure.title.endswith(", largest 2.77 ms")


def test_the_latency_below_the_peak_is_that_of_the_same_series() -> None:
    run = SampleRun(manifest())
    for protocol, tps in (("prepared", 1_000.0), ("simple", 500.0)):
        for clients, share in ((1, 0.2), (4, 1.0)):
            add_trial(run, "pg18", clients, tps * share, 900, point=Point(clients=clients, protocol=protocol))
    # 80 % of the other protocol's peak
    add_trial(run, "pg18", 4, 400, 9_000, point=Point(clients=4, protocol="prepared", rate=400.0))
    of = digest(run)
    prepared, _, simple = of.curves
    assert (near(of, prepared), near(of, simple)) == (None, None)
    add_trial(run, "pg18", 4, 405, 9_000, point=Point(clients=4, protocol="simple", rate=405.0))
    of = digest(run)
    found = near(of, next(each for each in of.curves if each.series == simple.series))
    assert found is not None
    assert (found.series.protocol, found.series.rate) == ("simple", 405)
