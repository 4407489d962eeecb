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
from pgdyno.report.several_runs import comparisons_of
from pgdyno.report.terminal.text_drawing import wrap_text
from pgdyno.report.translation import Language, use_language
from pgdyno.report.translation import sentence as text_of
from tests.present import present
from tests.unit.report_answer_sample import (
    RUNS,
    answered,
    arms,
    at_rates,
    curves_title,
    extras_of,
    in_phases,
    invalid,
    page,
    shown,
)
from tests.unit.report_sample import SampleRun, add_failure, add_repeats, add_trial, manifest, render_html, with_knee


def as_json(run: SampleRun, findings: Sequence[Finding] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(to_json(digest(run), extras_of(run, findings)))["answer"]
    return found


@pytest.mark.parametrize("name", RUNS)
def test_every_form_has_the_same_answer_where_it_belongs(name: str) -> None:
    run = RUNS[name]()
    said = answered(run)
    assert " ".join(shown(run, 200)[-1 - len(said.details) :]).startswith(said.text)
    for width in (40, 80, 200):
        assert max(cell_len(line) for line in shown(run, width)) <= width
    made = page(run)
    assert made.text("h1") == said.text
    for form in (" ".join(shown(run, 2000)).casefold(), made.text().casefold()):
        assert [each for each in said.details if each.casefold() not in form] == []
    below = ("<h1>", *['<p class="detail">'][: len(said.details)], 'class="conditions"')
    assert all(first < second for first, second in pairwise(made.source.index(text) for text in below))
    text = " ".join(markdown_of(digest(run), extras_of(run)).split()).replace("\\", "")
    assert text.startswith(f"**{said.text}**")
    found = as_json(run)
    assert found["text"] == text_of(said.text)
    assert found["details"] == [text_of(each) for each in said.details]
    assert found["verdict"] == (said.chief.chief.verdict.value if said.chief and said.chief.chief else None)
    with use_language(Language.JAPANESE):
        other = answered(run)
    assert other.text != said.text
    assert all(one != another for one, another in zip(said.details, other.details, strict=True))


def test_arms_that_cannot_be_told_apart_have_no_highest_peak_and_no_line_begins_with_a_percent_sign() -> None:
    run = arms(("pg17", "pg18"), (1.0, 1.01), repeats=6, shake=0.03)
    said = answered(run)
    assert said.text.startswith("Inconclusive: pg18 vs pg17 by throughput: ")
    assert any(each.startswith("Smallest detectable difference: ") for each in said.details)
    made = page(run)
    assert "highest peak" not in "\n".join([*shown(run), made.source]).lower()
    assert "peak throughput" not in made.text("dl")
    (compared,) = comparisons_of(digest(RUNS["two arms alike"]()))
    for width in range(40, 100):
        assert not any(line.startswith("%") for each in comparison_lines(compared) for line in wrap_text(each, width))


def test_two_arms_that_differ_get_the_verdict_of_compare_without_invalid_trials() -> None:
    run = RUNS["two arms"]()
    said = answered(run)
    (compared,) = compare(within(run, "target", comparisons_of(digest(run))[0].metric))
    assert said.text == comparison_sentence(compared)
    assert said.text.startswith("pg18 is faster than pg17 by throughput: +")
    assert said.details == ("Of 3 points: faster at 3",)
    found = as_json(run)
    assert (found["kind"], found["verdict"], found["valid"]) == ("comparison", "faster", True)
    (told,) = found["comparisons"]
    assert (told["base"], told["other"], told["metric"]) == ("pg17", "pg18", "tps")
    assert told["overall"]["change"] == pytest.approx(0.06, abs=0.01)
    assert [peak["target"] for peak in found["peaks"]] == ["pg17", "pg18"]
    assert found["peaks"][0]["tps"]["mean"] == pytest.approx(5000, rel=0.01)
    hardware = Confounder("hardware", "host.cpu", Message("other-processor", "another processor"))
    (only,) = extras_of(run).comparisons
    said = answer(digest(run), replace(extras_of(run), comparisons=[replace(only, confounders=(hardware,))]))
    assert said.details[0] == "Confounded by hardware: the difference may be caused by that"
    # trials that the audit calls invalid are left out
    run = RUNS["two arms"]()
    for trials, left_out, invalid_text in (
        ([1], "1 of 48 trials is left out, because the audit found it invalid", ()),
        ([1, 2], "2 of 48 trials are left out, because the audit found them invalid", ()),
        ([trial.number for trial in run.trials], "", ("the load was another",)),
    ):
        said = answered(run, [invalid().model_copy(update={"trials": trials})])
        assert said.invalid == invalid_text
        assert said.text.startswith("pg18 is faster than pg17 by throughput: +")
        assert said.details[0].startswith(left_out)


def test_every_arm_is_told_and_one_pair_is_not_enough() -> None:
    said = answered(RUNS["three arms"]())
    assert said.text.startswith("pg18 is faster than pg16 by throughput")
    assert said.details[-1].startswith("pg17 is the same as pg16 by throughput")
    # many are judged together, as compare does, and the first are told
    run = arms([f"pg{number}" for number in range(10, 22)], [1.0, *(1.0 + 0.01 * number for number in range(1, 12))])
    found = comparisons_of(digest(run))
    assert found == compare(within(run, "target", found[0].metric))
    details = answered(run).details
    assert (len(details), details[-1]) == (1 + 8 + 1, "and 2 more")
    # one pair is not enough for an interval, and no peak takes its place
    said = answered(RUNS["too few pairs"]())
    assert said.text == "pg18 vs pg17 by throughput: too few finished trials for an interval"
    assert "An interval needs at least two pairs, a claim six" in said.details
    # other arms share a line
    said = answered(arms(("pg15", "pg16", "pg17", "pg18"), (1.0, 1.0, 1.0, 1.0), repeats=1))
    assert said.details[-1] == "pg17 and pg18: too few finished trials for an interval"


def at_one_number_of_clients(gains: Sequence[float], repeats: int = 8) -> SampleRun:
    names = [f"pg{14 + at}" for at in range(len(gains))]
    run = SampleRun(manifest(names, trials_planned=len(names) * repeats))
    for repeat in range(1, repeats + 1):
        for name, gain in zip(names, gains, strict=True):
            noise = 1 + 0.004 * math.sin(7 * repeat + 50 * gain)
            add_trial(run, name, 8, 1000 * gain * noise, repeat=repeat, seconds=2)
    return run


def test_a_title_names_the_most_only_where_the_comparison_settles_it() -> None:
    assert curves_title(at_one_number_of_clients((1.0, 1.06))) == (
        "At 8 clients, pg15 has the most with 1,060 transactions a second, pg14 the least with 1,000"
    )
    # too few pairs, a difference of nothing, and one that was not tested: pg15 and pg16 are each compared with pg14
    untested = at_one_number_of_clients((1.03, 1.0, 1.06))
    for run in (at_one_number_of_clients((1.0, 1.06), 3), at_one_number_of_clients((1.0, 1.001)), untested):
        title = r"At 8 clients, throughput lies between [\d,]+ and [\d,]+ transactions a second"
        assert re.fullmatch(title, curves_title(run))
    with use_language(Language.JAPANESE):
        assert re.search("[a-z]{2}", curves_title(untested)) is None
    for repeats, named in ((8, True), (2, False)):
        run = arms(("pg14", "pg15", "pg16", "pg17"), (1.0, 1.02, 1.03, 1.06), repeats)
        title = curves_title(run)
        assert title.startswith("Peaks lie between ")
        assert ("pg17" in title) is named
        assert title in " ".join(shown(run, 200))


def test_titles_and_tables_of_charts_without_a_common_number_of_clients_or_of_proposals() -> None:
    run = SampleRun(manifest(("pg18", "pg17")))
    for target, clients, failing, tps in (("pg18", 8, 4, 900.0), ("pg17", 4, 8, 500.0)):
        add_trial(run, target, clients, tps)
        add_failure(run, target, failing)
    title = present(curves_figure(digest(run))).title
    assert "900 transactions a second with 8 clients" in title
    assert "500 with 4 clients" in title
    # a search for settings leaves out proposals that were measured once
    run = SampleRun(manifest(plan={"search": {"find": "settings"}}))
    for settings, tps, repeats in (({}, 1000.0, 8), ({"work_mem": "9MB"}, 1200.0, 8), ({"jit": "off"}, 3000.0, 1)):
        add_repeats(run, 4, [tps + at for at in range(1, repeats + 1)], point=Point(clients=4, settings=settings))
    figure = present(curves_figure(digest(run)))
    assert figure.title == "At 4 clients, throughput lies between 1,004 and 1,204 transactions a second"
    assert "starting configuration" in figure.wide
    assert "work_mem 9MB" in figure.wide
    assert "jit" not in figure.wide
    # the table of a chart on the first screen says where the chart is
    one_point = SampleRun(manifest())
    add_repeats(one_point, 8, [900.0])
    for run, count in ((one_point, 1), (with_knee(), 0)):
        assert render_html(run, "a-run").count("Data of the chart under the headline") == count


def test_the_answer_in_json_has_rates_and_phases() -> None:
    found = as_json(at_rates([4000.0], served=0.8, of=at_rates([500.0])))
    assert found["kind"] == "rates"
    assert [(each["rate"], each["kept_up"]) for each in found["rates"]] == [(500, True), (4000, False)]
    assert found["rates"][1]["served"] == pytest.approx(0.8)
    phases = as_json(in_phases())
    assert phases["kind"] == "phases"
    assert [each["phase"] for each in phases["phases"]] == ["rise", "hold", "settle"]


def test_without_a_result_the_answer_says_why() -> None:
    run = arms(("pg17",), (1.0,))
    run.manifest = manifest(("pg17", "pg18"))
    for clients in (1, 4, 16):
        add_failure(run, "pg18", clients, message="no such setting: io_method")
    said = answered(run)
    assert said.text == "Nothing to compare: pg18 has no finished trial"
    assert said.details == ("trial 25: no such setting: io_method",)
    run = SampleRun(manifest())
    for clients in (1, 4):
        add_failure(run, "pg18", clients, message="no room left on the disk")
    said = answered(run)
    assert said.text == "No trial finished: 2 trials failed or were interrupted"
    assert said.details == ("trial 1: no room left on the disk",)


def test_one_arm_is_answered_by_its_peak_with_interval_and_noise() -> None:
    run = with_knee()
    said = answered(run)
    assert said.text == "PostgreSQL 18.6 reaches 1,000 transactions a second at 4 clients (95 %: 990 to 1,010, n = 3)"
    assert any(each.startswith("peak not reached: ") for each in said.details)
    assert "noise: the trials there lie between 995.0 and 1,005.0, 1.0 % apart" in said.details
    _, _, after = "\n".join(shown(run, 200, [invalid()])).partition("\nNot valid: the load was another")
    assert after.split("\n")[1].startswith("PostgreSQL 18.6 reaches ")
    found = as_json(run, [invalid()])
    assert (found["kind"], found["valid"]) == ("peak", False)
    assert found["invalid"] == [{"rule": "littles-law", "trials": [1], "message": "the load was another"}]
    # a peak that was passed has its knee
    add_repeats(run, 8, [701.0, 702.0, 703.0])
    said = answered(run)
    assert said.details[0] == "the knee is at 2 clients, the fewest shown to reach 95 % of the peak"
    assert not any(each.startswith("peak not reached") for each in said.details)


def test_one_trial_tells_nothing_of_noise_and_curves_that_are_no_arms_are_not_ranked() -> None:
    said = answered(RUNS["one arm once"]())
    assert said.text.endswith("(one trial, no interval)")
    assert "one trial does not show the spread between trials" in said.details
    run = SampleRun(manifest())
    add_trial(run, "pg18", 0, 4321.0, point=Point(clients=0))
    assert answered(run).text == (
        "PostgreSQL 18.6 reaches 4,320 transactions a second (one trial, no interval); clients unknown"
    )
    run = SampleRun(manifest())
    for scale, tps in ((10, 4000.0), (100, 3900.0)):
        add_repeats(run, 4, [tps + 1, tps + 2, tps + 3], point=Point(clients=4, scale=scale))
    said = answered(run)
    assert said.text.startswith("Peaks lie between 3,9")
    assert [each.partition(":")[0] for each in said.details] == ["scale 10", "scale 100"]


def test_a_search_is_answered_by_what_it_found() -> None:
    run = with_knee()
    template = "capacity at {target}: from {low} to {high} {unit} a second (95 % interval)"
    unit = Message("unit", "transactions")
    message = Message("search-capacity", template, unit=unit, target="p99 < 10ms", low="2,100", high="2,200")
    found = SearchRecord(
        find="capacity", target="pg18", point=Point(clients=4, rate=2100.0), trials=9,
        words=str(message), messages=[KeptMessage.from_message(message)],
    )  # fmt: skip
    run.manifest.search.append(found)
    assert answered(run).text == f"PostgreSQL 18.6: {message} (9 trials)"
    with use_language(Language.JAPANESE):
        assert "capacity" not in answered(run).text
        # an older record has only the sentence, which no code parses
        run.manifest.search[0] = found.model_copy(update={"messages": []})
        assert str(message) in answered(run).text


FASTER = ConfirmedDifference(verdict="faster", pairs=8, change=3.34, low=1.6, high=6.22)
WORSE = ConfirmedDifference(verdict="slower", pairs=8, change=-0.1, low=-0.12, high=-0.08)
UNCLEAR = ConfirmedDifference(verdict="inconclusive", pairs=8, change=0.02, low=-0.03, high=0.07)


def settings_search(*lines: SettingLine, confirmed: ConfirmedDifference = FASTER) -> SampleRun:
    """Returns a run with trials of the start, the confirmed configuration and a proposal; `lines` are the result's."""
    run = SampleRun(manifest(plan={"search": {"find": "settings"}}))
    kept = {line.name: line.value for line in lines if line.kept}
    for settings, tps, repeats in (({}, 450.0, 8), (kept, 1990.0, 8), ({"jit": "off"}, 3000.0, 1)):
        add_repeats(run, 2, [tps + at for at in range(1, repeats + 1)], point=Point(clients=2, settings=settings))
    message = Message("search-settings", "confirmed difference from the starting configuration: +334 %")
    found = SearchRecord(
        find="settings", target="pg18", point=Point(clients=2), trials=17, words=str(message), goal="tps",
        messages=[KeptMessage.from_message(message)], settings=kept, confirmed=confirmed, lines=list(lines),
    )  # fmt: skip
    run.manifest.search.append(found)
    return run


def setting(name: str, without: ConfirmedDifference | None = None, *, kept: bool = True) -> SettingLine:
    return SettingLine(name=name, value="1", kept=kept, without=without)


BACK = [setting("jit", WORSE, kept=False), setting("work_mem", WORSE), setting("geqo")]


def test_a_line_of_a_configuration_that_was_not_tested_alone_is_said_to_be_so() -> None:
    for lines, results, caption, file in (
        ([setting("jit"), setting("work_mem")], "not tested, not tested", "", "no time was left to test each alone"),
        (
            BACK, "back at its start, stays, not tested", ", the unimportant ones put back together",
            "not confirmed alone as comments",
        ),
        ([setting("jit")], "stays", "", "has these lines with the difference that each makes"),
    ):  # fmt: skip
        said = answered(settings_search(*lines))
        table = present(said.table)
        assert ", ".join(row[2] for row in table.rows) == results
        assert ("n, pairs" in table.headings) is (lines == BACK)
        assert table.caption.startswith(f"Lines of the best configuration{caption}; importance is ")
        assert file in said.details[-1]


def test_a_search_for_settings_shows_only_what_was_measured_in_pairs() -> None:
    run = settings_search(setting("work_mem"), setting("geqo"))
    figure = present(curves_figure(digest(run)))
    assert figure.title == "The configuration found is better: the interval is outside the band"
    for drawn in (figure.wide, figure.narrow or ""):
        texts = re.findall("<text[^>]*>([^<]*)<", drawn)
        assert {"found", "n = 8"} <= set(texts)
        assert "change of throughput in %, vs starting configuration" in " ".join(texts)
        assert "work_mem" not in drawn
    assert "+334 % (+160 to +622 %)" in figure.wide
    made = page(run)
    assert made.all("figure")[0]["id"] == "confirmed"
    for text in ("Comparison: none", "throughput lies between", "Bars at a point are"):
        assert text not in made.text()
    for text in ("\n".join(shown(run)), markdown_of(digest(run), Extras())):
        assert "jit off" not in text
        assert "and 1 more in the HTML report" in text
        assert "starting configuration" in text
    unclear = curves_figure(digest(settings_search(confirmed=UNCLEAR)))
    assert present(unclear).title.startswith("No configuration is confirmed: ")
