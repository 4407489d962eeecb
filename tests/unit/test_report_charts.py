"""Charts: well formed, within their frames, labels that do not overlap, marks at the right values."""

import math
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.analyse.scaling import fit_curve
from pgdyno.records import Point
from pgdyno.report.charts import palette
from pgdyno.report.charts.interval_bars import forest_chart
from pgdyno.report.charts.labels import Placer, Rect, spread
from pgdyno.report.charts.layout import Layout
from pgdyno.report.charts.page_figures import (
    FITTED_UP_TO,
    Figure,
    curves_figure,
    latency_figure,
    spectrum_figure,
    timeline_figures,
)
from pgdyno.report.charts.palette import Look, Theme
from pgdyno.report.charts.svg import (
    Drawing,
    Scale,
    client_ticks,
    element,
    in_lines,
    linear_ticks,
    log_ticks,
    shorten_end,
    shorten_middle,
    text,
    text_width,
    told_apart,
)
from pgdyno.report.numbers import NOTHING
from pgdyno.report.report_content import Digest, Extras, digest
from pgdyno.report.sections.every_point import points_table
from pgdyno.report.sections.figures.latency import is_closed, loops_figure
from pgdyno.report.sections.key_figures import near, peak_numbers
from pgdyno.report.sentences import latency_title
from pgdyno.report.several_runs import comparisons_of
from tests.present import present
from tests.unit.report_sample import (
    SampleRun,
    add_failure,
    add_repeats,
    add_trial,
    manifest,
    render_html,
    sweep,
    with_knee,
)
from tests.unit.test_report_html import Page

SVG = "{http://www.w3.org/2000/svg}"
EVIL = "<script>alert(1)</script>"
LONG = "a-very-long-target-name-that-nobody-would-choose-but-somebody-will-and-it-goes-on"


def with_settings() -> SampleRun:
    run = SampleRun(manifest())
    for tps, value in ((26.0, "4MB"), (27.0, "64MB")):
        point = Point(clients=2, settings={"work_mem": value})
        add_repeats(run, 2, [tps + 0.1 * repeat for repeat in range(1, 7)], point=point)
    return run


RUNS: dict[str, Callable[[], SampleRun]] = {
    "one target": sweep,
    "three targets": lambda: sweep(("pg18", "pg17", "pg16")),
    "a fitted law": with_knee,
    "one point": lambda: sweep(clients=(8,), repeats=1),
    "three targets at one point": lambda: sweep(("pg18", "pg17", "pg16"), clients=(8,)),
    "eighty clients": lambda: sweep(clients=range(1, 81), repeats=1, seconds=3),
    "hostile names": lambda: sweep((EVIL, LONG), clients=(1, 4)),
    "eight repeats": lambda: sweep(clients=(1, 2), repeats=8, seconds=3),
    "two values of a setting": with_settings,
    "ten minutes": lambda: sweep(clients=(1,), repeats=2, seconds=600),
}


def figures(of: Digest) -> list[Figure]:
    strips = timeline_figures(of)
    fits = {curve.series: fit_curve(curve) for curve in of.curves[:FITTED_UP_TO]}
    found = [curves_figure(of, fits), latency_figure(of), spectrum_figure(of), *strips.shown, *strips.folded]
    return [figure for figure in found if figure is not None]


def pictures(run: SampleRun) -> list[ElementTree.Element]:
    of = digest(run)
    drawn = figures(of)
    rendered = "".join(figure.wide + (figure.narrow or "") for figure in drawn)
    if len(of.curves) == 1:
        # the first screen has two charts side by side
        rendered += "".join(figure.half for figure in drawn)
    return list(ElementTree.fromstring(f"<all>{rendered}</all>"))


def first_strip(run: SampleRun) -> ElementTree.Element:
    return ElementTree.fromstring(timeline_figures(digest(run)).shown[0].wide)


def number(node: ElementTree.Element, name: str) -> float:
    return float(node.get(name, "nan"))


def place_of(label: ElementTree.Element, share: float) -> Rect:
    """Returns the place of a text whose width is `share` of the estimate, which is generous."""
    wide = text_width(label.text or "") * share
    left = number(label, "x") - {"middle": wide / 2, "end": wide}.get(label.get("text-anchor", ""), 0)
    return Rect(left, number(label, "y") - 8, left + wide, number(label, "y"))


@pytest.mark.slow_cases("[three targets]", "eighty")
@pytest.mark.parametrize("name", RUNS)
def test_pictures_say_what_they_show_within_their_frame_and_no_labels_touch(name: str) -> None:
    drawn = pictures(RUNS[name]())
    assert drawn
    for svg in drawn:
        assert svg.get("role") == "img"
        title, description = present(svg.find(f"{SVG}title")), present(svg.find(f"{SVG}desc"))
        assert title.text
        assert description.text
        assert svg.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
        assert not [node for node in svg.iter() if node.tag in (f"{SVG}script", f"{SVG}image")]
        _, _, width, height = (float(each) for each in svg.get("viewBox", "").split())
        taken: list[tuple[Rect, str]] = []
        for label in svg.iter(f"{SVG}text"):
            place = place_of(label, 0.85)
            assert place.left >= -1, label.text
            assert place.right <= width + 1, label.text
            assert 0 < place.bottom <= height, label.text
            rect = place_of(label, 0.8)
            for other, words in taken:
                is_apart = rect.right <= other.left or other.right <= rect.left
                is_apart |= rect.bottom <= other.top or other.bottom <= rect.top
                assert is_apart, (label.text, words, svg.get("class"))
            taken.append((rect, label.text or ""))
        for node in svg.iter(f"{SVG}path"):
            places = re.findall(r"(-?[\d.]+),(-?[\d.]+)", node.get("d", ""))
            assert places
            assert all(0 <= float(x) <= width and 0 <= float(y) <= height for x, y in places), node.get("d")


def test_a_higher_throughput_is_drawn_higher_and_peak_and_knee_stand_beside_their_points() -> None:
    (svg, *_) = pictures(sweep(repeats=1, tps=lambda _, clients: 1000.0 * clients))
    heights = [number(node, "cy") for node in svg.iter(f"{SVG}circle") if node.get("class") == "f0"]
    assert len(heights) == 7
    assert heights == sorted(heights, reverse=True)
    for run, whiskers in ((sweep(repeats=3), 7 * 3), (sweep(repeats=1), 0)):
        assert sum(node.get("class") == "w t0" for node in pictures(run)[0].iter(f"{SVG}line")) == whiskers
    words = {label.text for label in pictures(with_knee())[0].iter(f"{SVG}text")}
    assert {"knee: 2 clients", "peak 1,000"} <= words


def test_warm_up_failed_trials_and_short_dips_are_visible() -> None:
    run = sweep(clients=(4,), repeats=2)
    add_failure(run, "pg18", 4, repeat=3)
    svg = first_strip(run)
    assert any(node.get("class") == "shade" for node in svg.iter(f"{SVG}rect"))
    assert "trial 3: failed" in [label.text for label in svg.iter(f"{SVG}text")]
    # points without any second have no strip
    add_failure(run, "pg18", 8)
    strips = timeline_figures(digest(run))
    assert len(strips.shown) + len(strips.folded) == 1
    # a short dip of a long trial stays visible
    run = SampleRun(manifest())
    for repeat, dips in ((1, []), (2, [300])):
        add_trial(run, "pg18", 16, 1000, repeat=repeat, seconds=600, dips=dips)
    bands = [node.get("d", "") for node in first_strip(run).iter(f"{SVG}path") if node.get("class") == "f0 area"]
    lowest = [max(float(y) for _, y in re.findall(r"([\d.]+),([\d.]+)", band)[20:-20]) for band in bands]
    # the second trial has one second of half the throughput; further down is a larger y
    assert lowest[1] > lowest[0] + 20


def test_elements_escape_text_and_a_drawing_can_carry_its_own_colours() -> None:
    made = element("text", EVIL, class_='a"b', data_x=1.25, left_out=None)
    assert made == '<text class="a&#34;b" data-x="1.2">&lt;script&gt;alert(1)&lt;/script&gt;</text>'
    drawing = Drawing(10, 10, "t", "d")
    drawing.add(text(1, 2, "x"))
    rendered = drawing.render("x", style=palette.chart_css(Theme.LIGHT))
    assert "var(" not in rendered
    assert palette.TARGETS[Theme.LIGHT][0] in rendered
    ElementTree.fromstring(rendered)


@pytest.mark.parametrize("theme", Theme)
@pytest.mark.parametrize("ink", ["ink", "quiet", "good", "amber", "bad"])
def test_text_has_contrast_aa(theme: Theme, ink: str) -> None:
    def luminance(colour: str) -> float:
        channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for ground in ("ground", "wash"):
        pair = sorted(luminance(palette.INK[theme][name]) for name in (ground, ink))
        assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5


@given(st.floats(1e-6, 1e9))
def test_linear_ticks_begin_at_zero_and_cover(high: float) -> None:
    ticks = linear_ticks(high)
    assert ticks[0] == 0
    assert ticks[-2] < high
    assert ticks[-1] >= high * (1 - 1e-9)
    assert len(ticks) <= 7


@given(st.floats(1e-5, 1e5), st.floats(1, 1e6))
def test_log_ticks_cover_and_are_few(low: float, times: float) -> None:
    ticks = log_ticks(low, low * times)
    assert ticks[0] <= low * (1 + 1e-9)
    assert ticks[-1] >= low * times * (1 - 1e-9)
    assert 2 <= len(ticks) <= 9


def ticks_of(clients: list[int], scale: Scale) -> list[int]:
    return list(client_ticks(clients, scale, lambda each: text_width(f"{each:,}") + 12))


@given(st.sets(st.integers(1, 5000), min_size=1, max_size=100))
def test_client_ticks_have_room_and_keep_the_ends(clients: set[int]) -> None:
    scale = Scale(min(clients), max(clients), 50, 900, math.log2)
    ticks = ticks_of(sorted(clients), scale)
    assert set(ticks) <= clients
    assert min(clients) in ticks
    for one, other in pairwise(ticks):
        assert scale(other) - scale(one) >= (text_width(f"{one:,}") + text_width(f"{other:,}")) / 2


def test_many_clients_that_are_no_powers_of_two_have_labels_too() -> None:
    scale = Scale(1, 191, 50, 900, math.log2)
    ticks = ticks_of([1, 2, 3, 5, *range(9, 192, 7)], scale)
    assert len(ticks) >= 8
    assert max(scale(other) - scale(one) for one, other in pairwise(ticks)) < 250


@given(st.lists(st.floats(0, 200), max_size=10))
def test_spread_labels_keep_their_order_their_distance_and_the_bounds(wanted: list[float]) -> None:
    heights = spread(wanted, 0, 200)
    assert len(heights) == len(wanted)
    for (wish, height), (next_wish, next_height) in pairwise(sorted(zip(wanted, heights, strict=True))):
        assert wish <= next_wish
        assert abs(next_height - height) >= 15 - 1e-6
    assert all(-1e-6 <= height <= 200 + 1e-6 for height in heights)


def test_labels_without_room_are_cut_left_out_broken_or_keep_what_differs() -> None:
    assert spread([10.0, 60.0, 120.0], 0, 200) == [10, 60, 120]
    assert Placer(Rect(0, 0, 30, 30)).place("peak and knee", 15, 15) is None
    placer = Placer(Rect(0, 0, 300, 100))
    assert placer.place("peak", 150, 50) != placer.place("knee", 150, 50)
    assert shorten_end("pg18", 100) == shorten_middle("pg18", 180) == "pg18"
    cut = shorten_end(LONG, 100)
    assert cut.endswith("…")
    assert text_width(cut) <= 100
    # or keep their end
    assert shorten_middle("pg18 (rates-172f), rate 200", 180) == "pg18 (rates…f), rate 200"
    assert text_width(shorten_middle("a" * 80, 180)) <= 180
    for names, width, shown in (
        ("work_mem 4MB|work_mem 64MB", 200, "work_mem 4MB|work_mem 64MB"),
        ("work_mem 4MB|work_mem 64MB", 98, "4MB|64MB"),
        ("work_mem 4MB, 2 clients|work_mem 64MB, 2 clients", 150, "4MB|64MB"),
        ("work_mem 4MB, 2 clients|work_mem 64MB, 4 clients", 170, "4MB, 2 clients|64MB, 4 clients"),
        ("pg17, work_mem 4MB|pg18, work_mem 4MB|pg18, work_mem 8MB", 120, "pg17, 4MB|pg18, 4MB|pg18, 8MB"),
        ("a long name|another long name", 60, "a l…ame|an…ame"),
        ("the only name of all", 60, "the…all"),
    ):
        assert "|".join(told_apart(names.split("|"), width)) == shown
    # a title is broken into lines
    title = "change of throughput in %, vs work_mem 4MB"
    lines = in_lines(title, 250)
    assert len(lines) == 2
    assert " ".join(lines) == title
    assert all(text_width(each) <= 250 for each in lines)
    assert "".join(in_lines("スループットの変化率" * 3, 150)) == "スループットの変化率" * 3
    assert in_lines(title, 500) == [title]


def labels(drawn: str) -> set[str]:
    return set(re.findall("<text[^>]*>([^<]*)<", drawn))


def test_axes_of_less_than_a_transaction_a_second_have_their_digits() -> None:
    run = SampleRun(manifest())
    for repeat in (1, 2, 3):
        for clients, tps in ((1, 0.4), (2, 0.05)):
            add_trial(run, "pg18", clients, tps, 9e6, repeat=repeat, seconds=20)
    assert {"0.1", "0.2", "0.3", "0.4"} <= labels(figures(digest(run))[0].wide)
    table = points_table(digest(run))
    at = table.headings.index("tps")
    # 0.05 has no exact float: the mean of three is a little off, and no interval
    assert [row[at : at + 2] for row in table.rows] == [("0.400", "0"), ("0.0500", "0")]


def test_charts_of_values_of_a_setting_name_each_value() -> None:
    of = digest(with_settings())
    points, latency = present(curves_figure(of)), present(spectrum_figure(of))
    assert {"work_mem 4MB", "work_mem 64MB"} <= labels(points.wide) & labels(latency.wide)
    assert {"4MB", "64MB"} <= labels(points.narrow or "")
    (comparison,) = comparisons_of(of)
    narrow = forest_chart(comparison, Look(0, 0), "title", Layout.NARROW).render("forest")
    assert "change of throughput in %, vs work_mem 4MB" in " ".join(re.findall("<text[^>]*>([^<]*)<", narrow))


def two_loops(rates: Sequence[float] = (300.0, 900.0), clients: Sequence[int] = (1, 4)) -> SampleRun:
    """Two trials of each rate with 8 clients, and of each of `clients` in closed loop; open loop is slower."""
    run = SampleRun(manifest())
    for repeat in (1, 2):
        for rate in rates:
            point = Point(clients=8, protocol="prepared", rate=rate)
            add_trial(run, "pg18", 8, rate, 1500, repeat=repeat, seconds=2, point=point)
        for each in clients:
            add_trial(run, "pg18", each, 230.0 * each, 800, repeat=repeat, seconds=2)
    return run


def test_open_and_closed_loops_are_drawn_and_compared_where_they_meet() -> None:
    run = two_loops()
    figure, table = present(loops_figure(digest(run)))
    assert figure.title.startswith("At about 900 transactions a second, p99 is ")
    assert figure.title.endswith(" ms in a closed loop")
    for layout in Layout:
        drawn = figure.drawn(layout)
        assert drawn.count("<path") >= 2
        for words in ("n = 938 to 3786 transactions a point", "open loop", "closed loop"):
            assert words in drawn
    assert [row[1:5] for row in table.rows] == [
        ("open loop", "8", "300", "300"),
        ("open loop", "8", "900", "900"),
        ("closed loop", "1", NOTHING, "230"),
        ("closed loop", "4", NOTHING, "920"),
    ]
    # a run without a point in common stands beside it and is not compared
    page = Page(render_html(run, "here", Extras(not_compared=["20261120T101500Z-open-3f9a"])))
    assert "At about 900 transactions a second" in page.text("h2")
    assert "Latency by throughput; in an open loop" in page.text("caption")
    assert "Closed loop: a client sends" not in page.text("p")
    assert "It has no point in common with the first run" in page.text("li")
    assert "20261120T101500Z-open-3f9a" in page.text("li")
    assert "closed loop" in page.text("td")
    # loops that do not meet, or are all closed
    figure, table = present(loops_figure(digest(two_loops(clients=()))))
    assert figure.title.startswith("In an open loop, p99 is ")
    assert " at 300 transactions a second and " in figure.title
    assert len(table.rows) == 2
    figure, _ = present(loops_figure(digest(two_loops(rates=(30.0,), clients=(4,)))))
    assert figure.title == "p99 in an open and in a closed loop, at different throughputs"
    # without an open loop the page says so
    run = sweep(clients=(1, 4), repeats=1)
    assert loops_figure(digest(run)) is None
    assert is_closed(digest(run))
    assert "Closed loop: a client sends" in Page(render_html(run, "here")).text("p")


@pytest.mark.parametrize("rates", [(1_000.0,), (500.0, 1_000.0)])
def test_an_open_loop_has_no_peak_and_does_not_rise(rates: Sequence[float]) -> None:
    run = SampleRun(manifest())
    for rate in rates:
        for clients in (4, 8, 16):
            point = Point(clients=clients, protocol="prepared", rate=rate)
            add_trial(run, "pg18", clients, rate + clients / 10, point=point)
    of = digest(run)
    assert "peak" not in latency_title(of)
    assert all("rising" not in each.about for each in peak_numbers(of, of.curves[0], Extras()))


def test_latency_of_few_transactions_and_below_the_peak_of_the_same_series() -> None:
    run = SampleRun(manifest())
    add_trial(run, "pg18", 1, 3, tail=1)
    title = present(spectrum_figure(digest(run))).title
    assert "one in 1,000" not in title
    assert title.endswith(", largest 2.77 ms")
    run = SampleRun(manifest())
    for protocol, tps in (("prepared", 1_000.0), ("simple", 500.0)):
        for clients, share in ((1, 0.2), (4, 1.0)):
            add_trial(run, "pg18", clients, tps * share, point=Point(clients=clients, protocol=protocol))
    # 80 % of the other protocol's peak
    add_trial(run, "pg18", 4, 400, 9_000, point=Point(clients=4, protocol="prepared", rate=400.0))
    of = digest(run)
    prepared, _, simple = of.curves
    assert (near(of, prepared), near(of, simple)) == (None, None)
    add_trial(run, "pg18", 4, 405, 9_000, point=Point(clients=4, protocol="simple", rate=405.0))
    of = digest(run)
    found = present(near(of, next(each for each in of.curves if each.series == simple.series)))
    assert (found.series.protocol, found.series.rate) == ("simple", 405)
