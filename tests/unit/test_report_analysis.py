"""Sentences about unsteady trials, dips and curves; comparisons as people and programs read them."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from xml.etree import ElementTree

import numpy as np
import pytest

from pgdyno.analyse.comparison import compare
from pgdyno.analyse.gate import gate
from pgdyno.analyse.intervals import paired_interval
from pgdyno.analyse.noise_floor import noise_floor
from pgdyno.analyse.over_time.steady_state import SteadyClass
from pgdyno.analyse.pairs import Arms, Metric
from pgdyno.messages import Message
from pgdyno.records.base import FEWEST_PAIRS
from pgdyno.records.promise import parse_latency
from pgdyno.report.analysis import analyse_run, analysis_json, analysis_lines, meets_latency
from pgdyno.report.answers.comparison import comparison_lines, comparison_sentence, new_run_words, noise_blocks, percent
from pgdyno.report.answers.comparison_export import comparison_json, noise_json
from pgdyno.report.answers.gate_export import gate_json, gate_junit, gate_markdown
from pgdyno.report.sections.figures.comparison import TITLES, TITLES_OF_ONE, compared_table
from pgdyno.report.terminal.block_lines import block_lines, table_lines
from pgdyno.report.terminal.forest_plot import Forest
from pgdyno.report.terminal.summary_file import Layout
from pgdyno.report.translation import Language, use_language
from tests.present import present
from tests.unit.comparison_sample import arms_of
from tests.unit.report_sample import SampleRun, add_repeats, add_trial, manifest, sweep


def lines_of(run: SampleRun) -> list[str]:
    return list(analysis_lines(analyse_run(run)))


def test_slowdowns_dips_levels_and_cycles_are_named_with_their_trial() -> None:
    run = SampleRun(manifest(trials_planned=2))
    add_trial(run, "pg18", 4, 1_000, seconds=60)
    add_trial(run, "pg18", 4, 1_000, repeat=2, seconds=60, dips=[40, 41, 42])
    lines = lines_of(run)
    assert lines[0] == "steady state: 2 flat"
    assert re.fullmatch(r"  flat: a drift of .+ % would show in 80 % of such trials", lines[1])
    assert lines[2].startswith("dips: 1, ")
    assert lines[3].startswith("  trial 2, pg18, 4 clients: 40 to 43 s, down by 5")
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


def test_a_capacity_has_the_interval_of_the_report_and_a_curve_meets_a_latency_target_or_not() -> None:
    for rates, said in (
        ((900.0, 1100.0), "1,000 tps (95 %: 0 to 2,270) at"),
        ((71_280.0, 71_290.0), "71,280 tps (95 %: 71,220 to 71,350) at"),
    ):
        found = analyse_run(at_four_clients(rates), latency=parse_latency("p99 < 10ms"))
        assert said in "\n".join(analysis_lines(found))
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


def grid(metric: Metric = Metric.TPS) -> Arms:
    """Faster at one point, the same at another, unclear at the third."""
    random = np.random.default_rng(2)
    base = [list(random.normal(1000, 2, 8)) for _ in range(3)]
    other = [[value * 1.05 for value in base[0]], list(base[1]), list(random.normal(1040, 60, 8))]
    return arms_of(*zip(base, other, strict=True), names=("pg17", "pg18"), metric=metric)


def test_the_sentence_names_the_setting_whose_values_are_the_arms_and_no_title_a_side() -> None:
    arms = arms_of(([1000.0] * 6, [1050.0] * 6), names=("on", "off"))
    for by, other in (("settings.jit", "jit off"), ("scale", "scale off"), ("target", "off"), (None, "off")):
        (found,) = compare([replace(arms, by=by)])
        assert comparison_sentence(found) == (
            f"{other} is faster than on by throughput: +5.0 % (95 % interval +5.0 to +5.0 %) at 1 clients, 6 pairs"
        )
    # a title names no side, as less latency is left of the band
    for title in (*TITLES.values(), *TITLES_OF_ONE.values()):
        assert not {"left", "right"} & set(title.split())


def test_the_table_fits_has_a_line_a_point_and_json_relative_differences() -> None:
    (found,) = compare([grid()])
    for width, unicode in product((60, 80, 120), (True, False)):
        table = [line.plain for line in table_lines(compared_table(found, plots=True), Layout(width, unicode))]
        assert max(map(len, table)) <= width
        assert len([line for line in table if "clients" in line]) == 3
        assert ("●" in "".join(table)) == (unicode and width > 60)
    # an inconclusive point says how many pairs it needs
    detectable = [line for line in comparison_lines(found) if "smallest detectable difference" in line]
    assert "would reach a verdict" in "".join(detectable)
    # figures stand beside where there is room
    (found,) = compare([grid(Metric.P99)])
    assert compared_table(found).headings[2:4] == ("pg17, ms", "pg18, ms")
    (found,) = compare([grid()])
    answer = json.loads(json.dumps(comparison_json(found)))
    assert [point["verdict"] for point in answer["points"]] == ["faster", "same", "inconclusive"]
    low = math.expm1(present(found.points[0].interval).low)
    assert answer["points"][0]["interval"]["low"] == pytest.approx(low)
    assert answer["delta"] == 0.01
    # without a finished pair there is no table
    (found,) = compare([replace(grid(), points=())])
    assert comparison_lines(found) == [comparison_sentence(found)]


NEW_RUN = {
    Language.ENGLISH: ("new run", "analysed without these"),
    Language.KOREAN: ("새로 실행", "합치지 않고"),
    Language.JAPANESE: ("新しい実行", "合わせずに"),
    Language.CHINESE: ("新做", "不与这些数据合并"),
}


@pytest.mark.parametrize("paired", [True, False])
def test_pairs_to_settle_it_are_those_of_a_new_run(paired: bool) -> None:
    """Adding pairs until a difference shows raises the share of wrong claims: no sentence may suggest it."""
    (found,) = compare([arms_of(([100.0] * 3, [102.0, 103.0, 104.0]))])
    for language in Language:
        with use_language(language):
            words = new_run_words(found.points[0], 47, None, paired=paired)
        assert all(each in words for each in (*NEW_RUN[language], "47"))
    # the spread is why no number of pairs settles a difference beyond the margin
    random = np.random.default_rng(2)
    base, other = ([1000 * math.exp(each) for each in random.normal(0, 0.3, 6)] for _ in range(2))
    (found,) = compare([arms_of((base, other))], delta=0.01)
    point = found.points[0]
    assert (abs(point.change) > 0.02, point.new_run_pairs) == (True, None)
    words = new_run_words(point, None, None, paired=paired)
    assert "the trials vary too much to tell the difference from the largest that counts as none" in words


def test_a_gate_in_junit_and_markdown() -> None:
    found = gate(grid(Metric.P99), 0.03)
    suite = ElementTree.fromstring(gate_junit(found))
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")
    assert [len(case) for case in suite.findall("testcase")] == [1, 0, 1]
    assert gate_json(found)["gate"] == "regression"
    # Markdown has a row a point and no open bars
    arms = grid()
    found = gate(Arms("a|b", arms.other, arms.metric, arms.paired, arms.points), 0.03)
    page = gate_markdown(found)
    assert page.startswith("### pgdyno gate: inconclusive\n")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert [row.count("|") for row in rows] == [6] * 4
    assert "a\\|b" in page
    # both say the pairs of a new run
    found = gate(grid(), 0.05)
    for text in (gate_markdown(found), gate_junit(found)):
        assert re.search(r"a new run of about \d+ pairs, analysed without these, would reach a verdict", text)
        assert "more pairs" not in text
    assert gate_json(found)["points"][2]["new_run_pairs"] > FEWEST_PAIRS


def test_percent_and_a_forest_with_zero_and_means_where_they_are() -> None:
    ratios = (0.042, -0.0042, 1.5, 0.00999, 0.0, 100.0, 2.7e6)
    shown = ["+4.2 %", "-0.42 %", "+150 %", "+1.0 %", "+0.00 %", "+10,000 %", ">10,000 %"]
    assert [percent(ratio) for ratio in ratios] == shown
    interval = present(paired_interval([0.1, 0.1, 0.1], 0.95))
    forest = Forest(low=-0.1, high=0.1, edge=0.05)
    assert forest.line(interval, 21) == "     ┊    │    ┊    ●"
    assert forest.line(None, 21) == "     ┊    │    ┊     "


def test_a_noise_floor_says_how_many_pairs_a_difference_takes() -> None:
    random = np.random.default_rng(1)
    arms = arms_of((list(random.normal(1000, 5, 8)), list(random.normal(1000, 5, 8))))
    found = noise_floor(arms)
    first, _, last = noise_blocks(found)
    assert str(first).startswith("Noise floor: two equal arms differ by at most ")
    assert "Pairs needed" in str(last)
    label = Message("point", "work_mem 64MB, shared_buffers 8GB, 1,024 clients")
    noisy = replace(found.points[0], label=label, spread=0.123, spread_low=0.101, spread_high=0.234)
    lines = [line.plain for line in block_lines(noise_blocks(replace(found, points=(noisy,))), Layout(80))]
    (row,) = (line for line in lines if line.startswith("work_mem"))
    assert len(row) == 80
    assert row.startswith("work_mem 64MB, sh")
    assert noise_json(found)["delta"] == found.delta
