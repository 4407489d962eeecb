"""The answer to the plan's question: its content for each kind of run, and its place in reports."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from rich.cells import cell_len

from pgdyno.analyse.comparison import compare
from pgdyno.analyse.pairs import Confounder, within
from pgdyno.audit import Finding
from pgdyno.messages import Message
from pgdyno.records import ConfirmedDifference, KeptMessage, Point, SearchRecord, SettingLine
from pgdyno.report.answers.answer import answer
from pgdyno.report.answers.comparison import comparison_lines, comparison_sentence
from pgdyno.report.charts.page_figures import curves_figure
from pgdyno.report.export import markdown_of, to_json
from pgdyno.report.report_content import Extras, digest
from pgdyno.report.sentences import conditions
from pgdyno.report.several_runs import comparisons_of
from pgdyno.report.terminal.text_drawing import wrapped
from pgdyno.report.translation import Language, use_language
from pgdyno.report.translation import sentence as text_of
from tests.unit.report_answer_sample import RUNS, answered, arms, at_rates, extras_of, in_phases, invalid, page, shown
from tests.unit.report_sample import SampleRun, add_failure, add_trial, manifest, render_html, sweep, with_knee


@pytest.mark.parametrize("name", RUNS)
def test_the_terminal_ends_and_the_page_and_markdown_begin_with_the_same_answer(name: str) -> None:
    run = RUNS[name]()
    said = answered(run)
    ends = " ".join(shown(run, 200)[-1 - len(said.details) :])
    assert ends.startswith(said.text)
    made = page(run)
    assert made.text("h1") == said.text
    source = render_html(run, "here", extras_of(run))
    places = [
        source.index(text) for text in ("<h1>", *['<p class="detail">'][: len(said.details)], 'class="conditions"')
    ]
    assert all(first < second for first, second in pairwise(places))
    text = " ".join(markdown_of(digest(run), extras_of(run)).split()).replace("\\", "")
    assert text.startswith(f"**{said.text}**")


@pytest.mark.parametrize("name", RUNS)
def test_no_line_of_the_answer_is_wider_than_the_terminal(name: str) -> None:
    run = RUNS[name]()
    for width in (40, 80, 200):
        assert max(cell_len(line) for line in shown(run, width)) <= width


def test_no_line_begins_with_a_percent_sign() -> None:
    (compared,) = comparisons_of(digest(arms(("pg17", "pg18"), (1.0, 1.01), repeats=3, shake=0.03)))
    for width in range(40, 100):
        assert not any(line.startswith("%") for each in comparison_lines(compared) for line in wrapped(each, width))


def test_two_arms_that_differ_get_the_verdict_of_compare() -> None:
    run = arms(("pg17", "pg18"), (1.0, 1.06))
    said = answered(run)
    (compared,) = compare(within(run, "target", comparisons_of(digest(run))[0].metric))
    assert said.text == comparison_sentence(compared)
    assert said.text.startswith("pg18 is faster than pg17 by throughput: +")
    assert said.details == ("Of 3 points: faster at 3",)


def test_arms_that_cannot_be_told_apart_have_no_highest_peak() -> None:
    run = arms(("pg17", "pg18"), (1.0, 1.01), repeats=6, shake=0.03)
    said = answered(run)
    assert said.text.startswith("Inconclusive: pg18 vs pg17 by throughput: ")
    assert any(each.startswith("Smallest detectable difference: ") for each in said.details)
    made = page(run)
    assert "highest peak" not in "\n".join([*shown(run), render_html(run, "here", extras_of(run))]).lower()
    assert "peak throughput" not in made.text("dl")


def test_of_three_arms_every_verdict_is_told_the_largest_settled_first() -> None:
    said = answered(RUNS["three arms"]())
    assert said.text.startswith("pg18 is faster than pg16 by throughput")
    assert said.details[-1].startswith("pg17 is the same as pg16 by throughput")


def test_one_pair_is_not_enough_for_an_interval_and_no_peak_takes_its_place() -> None:
    said = answered(arms(("pg17", "pg18"), (1.0, 1.06), repeats=1))
    assert said.text == "pg18 vs pg17 by throughput: too few finished trials for an interval"
    assert "An interval needs at least two pairs, a claim six" in said.details


def at_one_number_of_clients(gains: Sequence[float], repeats: int = 8, shake: float = 0.004) -> SampleRun:
    names = [f"pg{14 + at}" for at in range(len(gains))]
    run = SampleRun(manifest(names, trials_planned=len(names) * repeats))
    for repeat in range(1, repeats + 1):
        for name, gain in zip(names, gains, strict=True):
            noise = 1 + shake * math.sin(7 * repeat + 50 * gain)
            add_trial(run, name, 8, 1000 * gain * noise, 900, repeat=repeat, seconds=2)
    return run


def test_a_title_names_the_most_only_where_the_comparison_settles_it() -> None:
    def title(gains: Sequence[float], repeats: int = 8, shake: float = 0.004) -> str:
        run = at_one_number_of_clients(gains, repeats, shake)
        figure = curves_figure(digest(run), extras=extras_of(run))
        assert figure is not None
        return figure.title

    assert title((1.0, 1.06)) == (
        "At 8 clients, pg15 has the most with 1,060 transactions a second, pg14 the least with 1,000"
    )
    # too few pairs, a difference of nothing, and one that was not tested: pg15 and pg16 are each compared with pg14
    for unsettled in (title((1.0, 1.06), repeats=3), title((1.0, 1.001)), title((1.03, 1.0, 1.06))):
        assert re.fullmatch(r"At 8 clients, throughput lies between [\d,]+ and [\d,]+ transactions a second", unsettled)


def test_a_title_names_no_common_number_of_clients_if_there_is_none() -> None:
    run = SampleRun(manifest(("pg18", "pg17")))
    add_trial(run, "pg18", 8, 900, 900)
    add_failure(run, "pg18", 4)
    add_trial(run, "pg17", 4, 500, 900)
    add_failure(run, "pg17", 8)
    figure = curves_figure(digest(run))
    assert figure is not None
    assert "900 transactions a second with 8 clients" in figure.title
    assert "500 with 4 clients" in figure.title


def test_the_ends_of_many_curves_are_named_only_where_the_comparison_settles_it() -> None:
    names = ("pg14", "pg15", "pg16", "pg17")
    for gains, repeats, named in (((1.0, 1.02, 1.03, 1.06), 8, True), ((1.0, 1.02, 1.03, 1.06), 2, False)):
        run = arms(names, gains, repeats)
        figure = curves_figure(digest(run), extras=extras_of(run))
        assert figure is not None
        assert figure.title.startswith("Peaks lie between ")
        assert ("pg17" in figure.title) is named
        assert figure.title in " ".join(shown(run, 200))


def as_json(run: SampleRun, findings: Sequence[Finding] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(to_json(digest(run), extras_of(run, findings)))["answer"]
    return found


def test_json_has_the_answer_with_names_and_figures() -> None:
    found = as_json(arms(("pg17", "pg18"), (1.0, 1.06)))
    assert (found["kind"], found["verdict"], found["valid"]) == ("comparison", "faster", True)
    assert found["text"].startswith("pg18 is faster than pg17 by throughput: +")
    (compared,) = found["comparisons"]
    assert (compared["base"], compared["other"], compared["metric"]) == ("pg17", "pg18", "tps")
    assert compared["overall"]["change"] == pytest.approx(0.06, abs=0.01)
    assert [peak["target"] for peak in found["peaks"]] == ["pg17", "pg18"]
    assert found["peaks"][0]["tps"]["mean"] == pytest.approx(5000, rel=0.01)


@pytest.mark.parametrize("name", RUNS)
def test_the_answer_in_json_is_that_of_the_terminal(name: str) -> None:
    run = RUNS[name]()
    said, found = answered(run), as_json(run)
    assert found["text"] == text_of(said.text)
    assert found["details"] == [text_of(each) for each in said.details]
    chief = said.chief.chief if said.chief is not None else None
    assert found["verdict"] == (chief.verdict.value if chief is not None else None)


def test_the_answer_in_json_says_why_it_does_not_hold() -> None:
    found = as_json(with_knee(), [invalid()])
    assert (found["kind"], found["valid"]) == ("peak", False)
    assert found["invalid"] == [{"rule": "littles-law", "trials": [1], "message": "the load was another"}]


def test_the_answer_in_json_has_rates_and_phases() -> None:
    run = at_rates([500.0])
    at_rates([4000.0], served=0.8, run=run)
    found = as_json(run)
    assert found["kind"] == "rates"
    assert [(each["rate"], each["kept_up"]) for each in found["rates"]] == [(500, True), (4000, False)]
    assert found["rates"][1]["served"] == pytest.approx(0.8)
    phases = as_json(in_phases())
    assert phases["kind"] == "phases"
    assert [each["phase"] for each in phases["phases"]] == ["rise", "hold", "settle"]


def test_many_arms_are_judged_together_as_compare_does_and_the_first_are_told() -> None:
    names = [f"pg{number}" for number in range(10, 22)]
    run = arms(names, [1.0, *(1.0 + 0.01 * number for number in range(1, 12))])
    found = comparisons_of(digest(run))
    assert found == compare(within(run, "target", found[0].metric))
    said = answered(run)
    assert said.details[-1] == "and 2 more"
    assert len(said.details) == 1 + 8 + 1


def test_of_many_arms_without_an_interval_the_others_share_a_line() -> None:
    said = answered(arms(("pg15", "pg16", "pg17", "pg18"), (1.0, 1.0, 1.0, 1.0), repeats=1))
    assert said.details[-1] == "pg17 and pg18: too few finished trials for an interval"


def test_an_arm_without_a_result_is_named() -> None:
    run = arms(("pg17",), (1.0,))
    run.manifest = manifest(("pg17", "pg18"))
    for clients in (1, 4, 16):
        add_failure(run, "pg18", clients, message="no such setting: io_method")
    said = answered(run)
    assert said.text == "Nothing to compare: pg18 has no finished trial"
    assert said.details == ("trial 25: no such setting: io_method",)


def test_one_arm_is_answered_by_its_peak_with_interval_and_noise() -> None:
    said = answered(with_knee())
    assert said.text == "PostgreSQL 18.6 reaches 1,000 transactions a second at 4 clients (95 %: 990 to 1,010, n = 3)"
    assert any(each.startswith("peak not reached: ") for each in said.details)
    assert "noise: the trials there lie between 995.0 and 1,005.0, 1.0 % apart" in said.details


def test_a_peak_that_was_passed_has_its_knee() -> None:
    run = with_knee()
    for repeat in (1, 2, 3):
        add_trial(run, "pg18", 8, 700.0 + repeat, 900, repeat=repeat, seconds=2)
    said = answered(run)
    assert said.details[0] == "the knee is at 2 clients, the fewest shown to reach 95 % of the peak"
    assert not any(each.startswith("peak not reached") for each in said.details)


def test_one_trial_tells_nothing_of_noise() -> None:
    said = answered(sweep(clients=(1, 4), repeats=1))
    assert said.text.endswith("(one trial, no interval)")
    assert "one trial does not show the spread between trials" in said.details


def test_curves_that_are_no_arms_are_not_ranked() -> None:
    run = SampleRun(manifest())
    for repeat in range(1, 4):
        for scale, tps in ((10, 4000.0), (100, 3900.0)):
            add_trial(run, "pg18", 4, tps + repeat, 900, repeat=repeat, seconds=2, point=Point(clients=4, scale=scale))
    said = answered(run)
    assert said.text.startswith("Peaks lie between 3,9")
    assert [each.partition(":")[0] for each in said.details] == ["scale 10", "scale 100"]


def test_a_search_is_answered_by_what_it_found() -> None:
    run = with_knee()
    message = Message(
        "search-capacity",
        "capacity at {target}: from {low} to {high} {unit} a second (95 % interval)",
        unit=Message("unit", "transactions"),
        target="p99 < 10ms",
        low="2,100",
        high="2,200",
    )
    found = SearchRecord(
        find="capacity", target="pg18", point=Point(clients=4, rate=2100.0), trials=9,
        words=str(message), messages=[KeptMessage.of(message)],
    )  # fmt: skip
    run.manifest.search.append(found)
    assert answered(run).text == f"PostgreSQL 18.6: {message} (9 trials)"
    with use_language(Language.JAPANESE):
        assert "capacity" not in answered(run).text
        # an older record has only the sentence, which no code parses
        run.manifest.search[0] = found.model_copy(update={"messages": []})
        assert str(message) in answered(run).text


def test_a_run_of_failures_says_why() -> None:
    run = SampleRun(manifest())
    for clients in (1, 4):
        add_failure(run, "pg18", clients, message="no room left on the disk")
    said = answered(run)
    assert said.text == "No trial finished: 2 trials failed or were interrupted"
    assert said.details == ("trial 1: no room left on the disk",)


def test_an_imported_figure_without_clients_is_an_answer() -> None:
    run = SampleRun(manifest())
    add_trial(run, "pg18", 0, 4321.0, 900, point=Point(clients=0))
    assert answered(run).text == (
        "PostgreSQL 18.6 reaches 4,320 transactions a second (one trial, no interval); clients unknown"
    )


def test_trials_that_the_audit_calls_invalid_are_left_out_of_the_answer() -> None:
    run = arms(("pg17", "pg18"), (1.0, 1.06))
    first = run.trials[0].number
    said = answered(run, [invalid().model_copy(update={"trials": [first]})])
    assert said.invalid == ()
    assert said.text.startswith("pg18 is faster than pg17 by throughput: +")
    assert said.details[0] == f"1 of {len(run.trials)} trials is left out, because the audit found it invalid"
    said = answered(run, [invalid().model_copy(update={"trials": [first, first + 1]})])
    assert said.details[0] == f"2 of {len(run.trials)} trials are left out, because the audit found them invalid"
    everything = invalid().model_copy(update={"trials": [trial.number for trial in run.trials]})
    said = answered(run, [everything])
    assert said.invalid == (everything.message,)
    assert said.text.startswith("pg18 is faster than pg17 by throughput: +")


def test_other_differences_follow_the_verdict() -> None:
    run = arms(("pg17", "pg18"), (1.0, 1.06))
    extras = extras_of(run)
    (only,) = extras.comparisons
    confounded = replace(
        only, confounders=(Confounder("hardware", "host.cpu", Message("other-processor", "another processor")),)
    )
    said = answer(digest(run), replace(extras, comparisons=[confounded]))
    assert said.details[0] == "Confounded by hardware: the difference may be caused by that"


def test_the_chart_of_a_search_for_settings_leaves_out_proposals_that_were_measured_once() -> None:
    run = SampleRun(manifest(plan={"search": {"find": "settings"}}))
    for settings, tps, repeats in (({}, 1000.0, 8), ({"work_mem": "9MB"}, 1200.0, 8), ({"jit": "off"}, 3000.0, 1)):
        point = Point(clients=4, settings=settings)
        for repeat in range(1, repeats + 1):
            add_trial(run, "pg18", 4, tps + repeat, 900, repeat=repeat, seconds=2, point=point)
    figure = curves_figure(digest(run))
    assert figure is not None
    assert figure.title == "At 4 clients, throughput lies between 1,004 and 1,204 transactions a second"
    assert "starting configuration" in figure.wide
    assert "work_mem 9MB" in figure.wide
    assert "jit" not in figure.wide


FASTER = ConfirmedDifference(verdict="faster", pairs=8, change=3.34, low=1.6, high=6.22)
WORSE = ConfirmedDifference(verdict="slower", pairs=8, change=-0.1, low=-0.12, high=-0.08)


def settings_search(lines: Sequence[SettingLine], confirmed: ConfirmedDifference = FASTER) -> SampleRun:
    """Returns a run with trials of the start, the confirmed configuration and a proposal; `lines` are the result's."""
    run = SampleRun(manifest(plan={"search": {"find": "settings"}}))
    kept = {line.name: line.value for line in lines if line.kept}
    for settings, tps, repeats in (({}, 450.0, 8), (kept, 1990.0, 8), ({"jit": "off"}, 3000.0, 1)):
        for repeat in range(1, repeats + 1):
            point = Point(clients=2, settings=settings)
            add_trial(run, "pg18", 2, tps + repeat, 900, repeat=repeat, seconds=2, point=point)
    message = Message(
        "search-settings", "confirmed difference from the starting configuration: {change}", change="+334 %"
    )
    found = SearchRecord(
        find="settings", target="pg18", point=Point(clients=2), trials=17, words=str(message), goal="tps",
        messages=[KeptMessage.of(message)], settings=kept, confirmed=confirmed, lines=list(lines),
    )  # fmt: skip
    run.manifest.search.append(found)
    return run


def setting(name: str, without: ConfirmedDifference | None = None, *, kept: bool = True) -> SettingLine:
    return SettingLine(name=name, value="1", kept=kept, without=without)


@pytest.mark.parametrize(
    ("lines", "results", "caption", "file"),
    [
        (
            [setting("jit"), setting("work_mem")],
            ["not tested", "not tested"],
            "Lines of the best configuration; importance is ",
            "no time was left to test each alone",
        ),
        (
            [setting("jit", WORSE, kept=False), setting("work_mem", WORSE), setting("geqo")],
            ["back at its start", "stays", "not tested"],
            "Lines of the best configuration, the unimportant ones put back together; importance is ",
            "not confirmed alone as comments",
        ),
        (
            [setting("jit")],
            ["stays"],
            "Lines of the best configuration; importance is ",
            "has these lines with the difference that each makes",
        ),
    ],
    ids=["none tested", "some tested", "only one line"],
)
def test_a_line_of_a_configuration_that_was_not_tested_alone_is_said_to_be_so(
    lines: list[SettingLine], results: list[str], caption: str, file: str
) -> None:
    said = answered(settings_search(lines))
    assert said.table is not None
    assert [row[2] for row in said.table.rows] == results
    has_pairs = "n, pairs" in said.table.headings
    assert has_pairs is any(line.without is not None for line in lines)
    assert said.table.caption.startswith(caption)
    assert file in said.details[-1]


def test_the_picture_of_a_search_for_settings_is_the_interval_of_its_pairs() -> None:
    run = settings_search([setting("work_mem"), setting("geqo")])
    figure = curves_figure(digest(run))
    assert figure is not None
    assert figure.title == "The configuration found is better: the interval is outside the band"
    for drawn in (figure.wide, figure.narrow or ""):
        texts = re.findall("<text[^>]*>([^<]*)<", drawn)
        assert {"found", "n = 8"} <= set(texts)
        assert "change of throughput in %, vs starting configuration" in " ".join(texts)
        assert "work_mem" not in drawn
    assert "+334 % (+160 to +622 %)" in figure.wide
    shown = page(run)
    assert next(each["id"] for each in shown.all("figure")) == "confirmed"
    assert "Comparison: none" not in shown.text()
    assert "throughput lies between" not in shown.text()
    assert "Bars at a point are" not in shown.text()


def test_a_search_whose_pairs_show_nothing_says_so_in_its_picture() -> None:
    confirmed = ConfirmedDifference(verdict="inconclusive", pairs=8, change=0.02, low=-0.03, high=0.07)
    figure = curves_figure(digest(settings_search([], confirmed)))
    assert figure is not None
    assert figure.title.startswith("No configuration is confirmed: ")


def test_the_title_at_one_number_of_clients_is_translated() -> None:
    run = at_one_number_of_clients((1.03, 1.0, 1.06))
    with use_language(Language.JAPANESE):
        figure = curves_figure(digest(run), extras=extras_of(run))
    assert figure is not None
    assert re.search("[a-z]{2}", figure.title) is None


def test_findings_of_invalid_trials_precede_the_answer() -> None:
    run = with_knee()
    lines = shown(run, 200, [invalid()])
    at = next(number for number, line in enumerate(lines) if line.startswith("Not valid: the load was another"))
    assert lines[at + 1].startswith("PostgreSQL 18.6 reaches ")


@pytest.mark.parametrize("name", RUNS)
def test_answers_are_translated(name: str) -> None:
    english = answered(RUNS[name]())
    with use_language(Language.JAPANESE):
        other = answered(RUNS[name]())
    assert other.text != english.text
    assert len(other.details) == len(english.details)
    assert all(one != another for one, another in zip(english.details, other.details, strict=True))


def test_own_scripts_without_a_dataset_have_no_scale() -> None:
    run = sweep()
    run.trials = [
        trial.model_copy(update={"point": trial.point.model_copy(update={"scale": 1})}) for trial in run.trials
    ]
    assert "scale 1" in conditions(digest(run))
    run.manifest.plan["workload"] = {"scripts": ["q.sql"], "dataset": "none", "scale": 1}
    assert "scale" not in conditions(digest(run))


def test_the_table_of_a_chart_on_the_first_screen_says_where_the_chart_is() -> None:
    page = render_html(sweep(clients=(8,)), "a-run", Extras())
    assert page.count("Data of the chart under the headline") == 1
    assert "Data of the chart under the headline" not in render_html(sweep(), "a-run", Extras())


def test_a_terminal_has_of_a_search_for_settings_only_what_was_measured_in_pairs() -> None:
    run = settings_search([setting("work_mem"), setting("geqo")])
    for text in ("\n".join(shown(run)), markdown_of(digest(run), Extras())):
        assert "jit off" not in text
        assert "and 1 more in the HTML report" in text
        assert "starting configuration" in text
