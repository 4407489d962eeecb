"""Charts: well formed, within their frames, labels that do not overlap, marks at the right values."""

import math
import re
from collections.abc import Callable, Sequence
from functools import cache
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
    shortened,
    squeezed,
    text,
    text_width,
    told_apart,
)
from pgdyno.report.report_content import digest
from pgdyno.report.sections.every_point import points_table
from pgdyno.report.several_runs import comparisons_of
from tests.unit.report_sample import SampleRun, add_failure, add_trial, manifest, sweep, with_knee

SVG = "{http://www.w3.org/2000/svg}"
EVIL = "<script>alert(1)</script>"
LONG = "a-very-long-target-name-that-nobody-would-choose-but-somebody-will-and-it-goes-on"
RUNS: dict[str, Callable[[], SampleRun]] = {
    "one target": sweep,
    "three targets": lambda: sweep(("pg18", "pg17", "pg16")),
    "a fitted law": with_knee,
    "one point": lambda: sweep(clients=(8,), repeats=1),
    "three targets at one point": lambda: sweep(("pg18", "pg17", "pg16"), clients=(8,)),
    "eighty clients": lambda: sweep(clients=range(1, 81), repeats=1, seconds=3),
    "hostile names": lambda: sweep((EVIL, LONG), clients=(1, 4)),
    "eight repeats": lambda: sweep(clients=(1, 2), repeats=8, seconds=3),
    "two values of a setting": lambda: with_settings(("4MB", "64MB")),
    "ten minutes": lambda: sweep(clients=(1,), repeats=2, seconds=600),
}


def figures(run: SampleRun) -> list[Figure]:
    of = digest(run)
    strips = timeline_figures(of)
    fits = {curve.series: fit_curve(curve) for curve in of.curves[:FITTED_UP_TO]}
    found = [curves_figure(of, fits), latency_figure(of), spectrum_figure(of), *strips.shown, *strips.folded]
    return [figure for figure in found if figure is not None]


def pictures(run: SampleRun) -> list[ElementTree.Element]:
    drawn = figures(run)
    rendered = "".join(figure.wide + (figure.narrow or "") for figure in drawn)
    # the first screen of one series has two charts side by side
    rendered += "".join(figure.half for figure in drawn if len(digest(run).curves) == 1)
    return list(ElementTree.fromstring(f"<all>{rendered}</all>"))


@cache
def pictures_of(name: str) -> list[ElementTree.Element]:
    return pictures(RUNS[name]())


def number(node: ElementTree.Element, name: str) -> float:
    return float(node.get(name, "nan"))


@pytest.mark.long_cases("eighty")
@pytest.mark.slow_cases("[three targets]")
@pytest.mark.parametrize("name", RUNS)
def test_pictures_are_well_formed_and_say_what_they_show(name: str) -> None:
    drawn = pictures_of(name)
    assert drawn
    for svg in drawn:
        assert svg.get("role") == "img"
        title, description = svg.find(f"{SVG}title"), svg.find(f"{SVG}desc")
        assert title is not None
        assert description is not None
        assert title.text
        assert description.text
        assert svg.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
        assert not [node for node in svg.iter() if node.tag in (f"{SVG}script", f"{SVG}image")]


@pytest.mark.slow_cases("[three targets]", "eighty")
@pytest.mark.parametrize("name", RUNS)
def test_nothing_is_drawn_outside_of_its_picture(name: str) -> None:
    for svg in pictures_of(name):
        _, _, width, height = (float(each) for each in svg.get("viewBox", "").split())
        for label in svg.iter(f"{SVG}text"):
            # the estimate of a label's width is generous, so a little over is still inside
            wide = text_width(label.text or "") * 0.85
            left = number(label, "x") - {"middle": wide / 2, "end": wide}.get(label.get("text-anchor", ""), 0)
            assert left >= -1, label.text
            assert left + wide <= width + 1, label.text
            assert 0 < number(label, "y") <= height, label.text
        for node in svg.iter(f"{SVG}path"):
            places = re.findall(r"(-?[\d.]+),(-?[\d.]+)", node.get("d", ""))
            assert places
            assert all(0 <= float(x) <= width and 0 <= float(y) <= height for x, y in places), node.get("d")


@pytest.mark.slow_cases("[three targets]", "eighty")
@pytest.mark.parametrize("name", RUNS)
def test_labels_of_a_picture_do_not_touch(name: str) -> None:
    for svg in pictures_of(name):
        taken: list[tuple[Rect, str]] = []
        for label in svg.iter(f"{SVG}text"):
            wide = text_width(label.text or "") * 0.8
            left = number(label, "x") - {"middle": wide / 2, "end": wide}.get(label.get("text-anchor", ""), 0)
            rect = Rect(left, number(label, "y") - 8, left + wide, number(label, "y"))
            for other, words in taken:
                assert not rect.meets(other), (label.text, words, svg.get("class"))
            taken.append((rect, label.text or ""))


def test_a_higher_throughput_is_drawn_higher() -> None:
    (svg, *_) = pictures(sweep(repeats=1, tps=lambda _, clients: 1000.0 * clients))
    heights = [number(node, "cy") for node in svg.iter(f"{SVG}circle") if node.get("class") == "f0"]
    assert len(heights) == 7
    assert heights == sorted(heights, reverse=True)


def test_intervals_are_drawn_where_there_are_any() -> None:
    def whiskers(run: SampleRun) -> int:
        return sum(node.get("class") == "w t0" for node in pictures(run)[0].iter(f"{SVG}line"))

    assert whiskers(sweep(repeats=3)) == 7 * 3
    assert whiskers(sweep(repeats=1)) == 0


def test_peak_and_knee_stand_beside_their_points() -> None:
    words = [label.text for label in pictures(with_knee())[0].iter(f"{SVG}text")]
    assert "knee: 2 clients" in words
    assert "peak 1,000" in words


def test_warm_up_is_shaded_and_a_failed_trial_is_named() -> None:
    run = sweep(clients=(4,), repeats=2)
    add_failure(run, "pg18", 4, repeat=3)
    svg = ElementTree.fromstring(timeline_figures(digest(run)).shown[0].wide)
    assert any(node.get("class") == "shade" for node in svg.iter(f"{SVG}rect"))
    assert "trial 3: failed" in [label.text for label in svg.iter(f"{SVG}text")]


def test_a_short_dip_of_a_long_trial_stays_visible() -> None:
    run = SampleRun(manifest())
    for repeat, dips in ((1, []), (2, [300])):
        add_trial(run, "pg18", 16, 1000, 900, repeat=repeat, seconds=600, dips=dips)
    svg = ElementTree.fromstring(timeline_figures(digest(run)).shown[0].wide)
    bands = [node.get("d", "") for node in svg.iter(f"{SVG}path") if node.get("class") == "f0 area"]
    lowest = [max(float(y) for _, y in re.findall(r"([\d.]+),([\d.]+)", band)[20:-20]) for band in bands]
    # the second trial has one second of half the throughput; further down is a larger y
    assert lowest[1] > lowest[0] + 20


def test_points_without_any_second_have_no_strip() -> None:
    run = sweep(clients=(4,), repeats=1)
    add_failure(run, "pg18", 8)
    strips = timeline_figures(digest(run))
    assert len(strips.shown) + len(strips.folded) == 1


def test_elements_escape_text_and_attributes() -> None:
    made = element("text", EVIL, class_='a"b', data_x=1.25, left_out=None)
    assert made == '<text class="a&#34;b" data-x="1.2">&lt;script&gt;alert(1)&lt;/script&gt;</text>'


def test_a_drawing_can_carry_its_own_colours() -> None:
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
    assert ticks[-1] >= high * (1 - 1e-9)
    assert ticks[-2] < high
    assert len(ticks) <= 7


@given(st.floats(1e-5, 1e5), st.floats(1, 1e6))
def test_log_ticks_cover_and_are_few(low: float, times: float) -> None:
    ticks = log_ticks(low, low * times)
    assert ticks[0] <= low * (1 + 1e-9)
    assert ticks[-1] >= low * times * (1 - 1e-9)
    assert 2 <= len(ticks) <= 9


@given(st.sets(st.integers(1, 5000), min_size=1, max_size=100))
def test_client_ticks_have_room_and_keep_the_ends(clients: set[int]) -> None:
    scale = Scale(min(clients), max(clients), 50, 900, math.log2)
    ticks = client_ticks(sorted(clients), scale, lambda each: text_width(f"{each:,}") + 12)
    assert set(ticks) <= clients
    assert min(clients) in ticks
    for one, other in pairwise(ticks):
        assert scale(other) - scale(one) >= (text_width(f"{one:,}") + text_width(f"{other:,}")) / 2


def test_many_clients_that_are_no_powers_of_two_have_labels_too() -> None:
    clients = [1, 2, 3, 5, *range(9, 192, 7)]
    scale = Scale(1, 191, 50, 900, math.log2)
    ticks = client_ticks(clients, scale, lambda each: text_width(f"{each:,}") + 12)
    assert len(ticks) >= 8
    assert max(scale(other) - scale(one) for one, other in pairwise(ticks)) < 250


@given(st.lists(st.floats(0, 200), max_size=10))
def test_spread_labels_keep_their_order_their_distance_and_the_bounds(wanted: list[float]) -> None:
    heights = spread(wanted, 0, 200)
    assert len(heights) == len(wanted)
    ordered = sorted(zip(wanted, heights, strict=True))
    for (wish, height), (next_wish, next_height) in pairwise(ordered):
        assert wish <= next_wish
        assert abs(next_height - height) >= 15 - 1e-6
    assert all(-1e-6 <= height <= 200 + 1e-6 for height in heights)


def test_spread_leaves_labels_where_there_is_room() -> None:
    assert spread([10.0, 60.0, 120.0], 0, 200) == [10, 60, 120]


def test_a_placer_gives_up_where_there_is_no_room() -> None:
    assert Placer(Rect(0, 0, 30, 30)).place("peak and knee", 15, 15) is None


def test_long_names_are_cut_to_fit() -> None:
    assert shortened("pg18", 100) == "pg18"
    cut = shortened(LONG, 100)
    assert cut.endswith("…")
    assert text_width(cut) <= 100


def test_a_long_name_keeps_its_end() -> None:
    assert squeezed("pg18 (rates-172f), rate 200", 180) == "pg18 (rates…f), rate 200"
    assert squeezed("pg18", 180) == "pg18"
    assert text_width(squeezed("a" * 80, 180)) <= 180


@pytest.mark.parametrize(
    ("names", "width", "shown"),
    [
        (["work_mem 4MB", "work_mem 64MB"], 200, ["work_mem 4MB", "work_mem 64MB"]),
        (["work_mem 4MB", "work_mem 64MB"], 98, ["4MB", "64MB"]),
        (["work_mem 4MB, 2 clients", "work_mem 64MB, 2 clients"], 150, ["4MB", "64MB"]),
        (["work_mem 4MB, 2 clients", "work_mem 64MB, 4 clients"], 170, ["4MB, 2 clients", "64MB, 4 clients"]),
        (
            ["pg17, work_mem 4MB", "pg18, work_mem 4MB", "pg18, work_mem 8MB"],
            120,
            ["pg17, 4MB", "pg18, 4MB", "pg18, 8MB"],
        ),
        (["a long name", "another long name"], 60, ["a l…ame", "an…ame"]),
        (["the only name of all"], 60, ["the…all"]),
    ],
)
def test_labels_without_room_keep_what_differs(names: list[str], width: float, shown: list[str]) -> None:
    assert told_apart(names, width) == shown


def test_a_title_is_broken_into_lines_where_it_has_no_room() -> None:
    title = "change of throughput in %, vs work_mem 4MB"
    lines = in_lines(title, 250)
    assert len(lines) == 2
    assert " ".join(lines) == title
    assert all(text_width(each) <= 250 for each in lines)
    assert "".join(in_lines("スループットの変化率" * 3, 150)) == "スループットの変化率" * 3
    assert in_lines(title, 500) == [title]


def with_settings(values: Sequence[str]) -> SampleRun:
    run = SampleRun(manifest())
    for repeat in range(1, 7):
        for at, value in enumerate(values):
            point = Point(clients=2, settings={"work_mem": value})
            add_trial(run, "pg18", 2, 26.0 + at + 0.1 * repeat, 900, repeat=repeat, seconds=2, point=point)
    return run


def labels(drawn: str) -> list[str]:
    return re.findall("<text[^>]*>([^<]*)<", drawn)


def slow() -> SampleRun:
    """Returns two points of less than a transaction a second, with equal trials."""
    run = SampleRun(manifest())
    for repeat in (1, 2, 3):
        for clients, tps in ((1, 0.4), (2, 0.05)):
            add_trial(run, "pg18", clients, tps, 9e6, repeat=repeat, seconds=20)
    return run


def test_axes_of_less_than_a_transaction_a_second_have_their_digits() -> None:
    curves = figures(slow())[0]
    assert {"0.1", "0.2", "0.3", "0.4"} <= set(labels(curves.wide))
    table = points_table(digest(slow()))
    at = table.headings.index("tps")
    # 0.05 has no exact float: the mean of three is a little off, and no interval
    assert [row[at : at + 2] for row in table.rows] == [("0.400", "0"), ("0.0500", "0")]


def test_charts_of_values_of_a_setting_name_each_value() -> None:
    run = with_settings(("4MB", "64MB"))
    of = digest(run)
    points, latency = curves_figure(of), spectrum_figure(of)
    assert points is not None
    assert latency is not None
    assert {"work_mem 4MB", "work_mem 64MB"} <= set(labels(points.wide)) & set(labels(latency.wide))
    assert {"4MB", "64MB"} <= set(labels(points.narrow or ""))
    (comparison,) = comparisons_of(of)
    narrow = forest_chart(comparison, Look(0, 0), "title", Layout.NARROW).render("forest")
    assert "change of throughput in %, vs work_mem 4MB" in " ".join(labels(narrow))
