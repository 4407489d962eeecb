"""Sections of the report: their content for a known run."""

import json
import re
import tomllib
from collections.abc import Sequence

import pytest

from pgdyno.analyse.comparison import compare
from pgdyno.analyse.over_time.dips import Cause, Coincidence, Dip, ExplainedDip
from pgdyno.analyse.pairs import Metric, within
from pgdyno.analyse.price import PriceList
from pgdyno.audit import RULES, Evidence, Finding, Severity
from pgdyno.errors import UsageError
from pgdyno.records import Point
from pgdyno.report.export import markdown_of
from pgdyno.report.report_content import Extras, ProbeSamples, digest
from pgdyno.report.sections.figures.validity import validity
from pgdyno.report.sections.key_figures import peak_numbers
from pgdyno.report.sections.over_seconds.dips import TRIES, UNEXPLAINED, dip_section
from pgdyno.report.sections.over_seconds.timelines import BYTES, Steps, timeline_data, timeline_json
from pgdyno.report.several_runs import unite_runs
from pgdyno.store.probe_queries import ProbeAverages, ProcessSum, SeriesStep, WaitStep
from pgdyno.store.trial_tables import StatementRow
from tests.present import present
from tests.unit.report_answer_sample import arms, invalid
from tests.unit.report_sample import SampleRun, add_trial, manifest, render_html, sweep
from tests.unit.test_report_html import Page

EVIL = "</script><script>alert('1')</script>"
PRICES = PriceList.model_validate(
    {
        "currency": "EUR",
        "date": "2026-11-01",
        "years": 3,
        "left_out": ["power"],
        "target": {"pg18": {"purchase": [{"name": "server", "amount": 10_000}]}, "pg17": {"hourly": [{"amount": 0.5}]}},
    }
)


def two_arms(gain: float = 1.06, repeats: int = 8) -> SampleRun:
    return arms(("pg17", "pg18"), (1.0, gain), repeats)


def extras_of(run: SampleRun, **changes: object) -> Extras:
    return Extras(comparisons=compare(within(run, "target", Metric.TPS)), **changes)  # type: ignore[arg-type]


def finding(severity: Severity, rule: str = "littles-law", message: str = "the load was another") -> Finding:
    evidence = [Evidence(at=f"trial {at}", figures={"tps": 100.0 * at}) for at in range(1, 7)]
    told = {"rule": rule, "id": rule, "severity": severity, "message": message, "evidence": evidence}
    return invalid().model_copy(update=told)


def page_of(run: SampleRun, extras: Extras) -> Page:
    return Page(render_html(run, "here", extras))


def test_the_verdict_is_the_comparison_with_its_interval() -> None:
    run = two_arms()
    page = page_of(run, extras_of(run, findings=[]))
    assert re.fullmatch(
        r"pg18 is faster than pg17 by throughput: \+[56]\.\d %"
        r" \(95 % interval \+\d\.\d to \+\d\.\d %\) over 3 points, 8 pairs",
        page.text("h1"),
    )
    text = page.text("table")
    assert re.search(r"16 clients faster 5,0\d0 5,\d\d0 \+[56]\.\d \+\d\.\d to \+\d\.\d 8", text)
    assert "all points faster" in text
    assert "±1.0 %: counts as no difference" in page.text("title")
    assert not page.all("s")


def test_the_verdict_has_the_price_of_each_arm() -> None:
    run = two_arms()
    arms = {series: series.target for series in digest(run).named}
    page = page_of(run, extras_of(run, prices=PRICES, arms=arms))
    # 10,000 EUR over three years of 5,300 transactions a second, 0.5 EUR an hour of 5,000
    price = r"a million transactions cost 0\.0\d+ EUR \(pg18\), 0\.02\d+ EUR \(pg17\)"
    assert re.search(rf"8 pairs; {price}$", page.text("h1"))
    assert "a million" not in page_of(run, extras_of(run, prices=PRICES)).text("h1")


def test_the_peak_of_one_target_has_its_price() -> None:
    run = sweep(clients=(1, 4), repeats=2)
    assert page_of(run, Extras(prices=PRICES)).text("h1").endswith("; a million transactions cost 0.00300 EUR")


def test_an_inconclusive_comparison_says_what_would_settle_it() -> None:
    run = two_arms(1.05, repeats=2)
    arms = {series: series.target for series in digest(run).named}
    page = page_of(run, extras_of(run, prices=PRICES, arms=arms))
    assert "a million" not in page.text("h1")
    assert page.text("h1").startswith("Inconclusive: pg18 vs pg17 by throughput: +")
    assert re.search(r"(?i)a new run of about \d+ pairs, analysed without these, would reach a verdict", page.text("p"))
    assert "Fewer than 6 pairs: too few for a claim" in page.text("p")


def test_red_strikes_the_claim_through() -> None:
    run = two_arms()
    findings = [finding(Severity.INVALID), finding(Severity.CAUTION, "clock"), finding(Severity.NOTE, "errors")]
    page = page_of(run, extras_of(run, findings=findings))
    assert page.text("s").startswith("pg18 is faster")
    assert "Not valid: the load was another." in page.text("p")
    strip = page.text("li")
    assert "✕ littles-law invalid" in strip
    assert "◐ clock caution" in strip
    assert "○ errors note" in strip
    assert "● durability passed" in strip
    assert "trial 4: tps 400" in strip
    assert "and 2 more" in strip
    assert f"{len(RULES)} rules: 1 invalid, 1 caution, 1 note, {len(RULES) - 3} passed; n = 48 trials" in page.text("p")


def test_the_line_of_validity_names_what_is_worse_than_a_note() -> None:
    rules = [rule.id for rule in RULES if rule.id not in ("littles-law", "clock", "errors")]
    found = [finding(Severity.INVALID), finding(Severity.CAUTION, "clock"), finding(Severity.NOTE, "errors")]
    told_of = validity(found)
    assert told_of.line == f"{len(rules)} passed, 1 invalid: littles-law, 1 caution: clock"
    many = validity([finding(Severity.CAUTION, rule) for rule in rules[:6]])
    assert many.line == f"{len(RULES) - 6} passed, 6 cautions: {', '.join(rules[:4])}, 2 more"


def test_a_comparison_of_many_points_has_its_first_on_the_first_screen() -> None:
    run = sweep(("pg17", "pg18"), clients=range(1, 13), repeats=2, seconds=3)
    page = page_of(run, extras_of(run, findings=[]))
    assert "The first 9 of 12 points" in page.text("h2")
    ids = [each["id"] for each in page.all("figure")]
    assert ids[0] == "forest"
    assert "forest-0" in ids
    few = page_of(two_arms(), extras_of(two_arms(), findings=[]))
    assert next(each["id"] for each in few.all("figure")) == "forest-0"
    assert [each["id"] for each in few.all("figure")].count("forest-0") == 1


def test_a_rule_that_could_not_look_is_not_called_passed() -> None:
    run = sweep(clients=(1, 4))
    unchecked = finding(Severity.NOTE, "clock", "not checked: nobody told the time")
    unchecked = unchecked.model_copy(update={"id": "clock-not-checked"})
    page = page_of(run, Extras(findings=[unchecked]))
    assert "clock not checked" in page.text("li")
    assert "1 not checked" in page.text("summary")


def test_the_numbers_of_the_highest_peak() -> None:
    rates = {1: 1000.0, 16: 56_000.0, 32: 71_300.0, 64: 60_000.0}
    run = SampleRun(manifest())
    for clients, tps in rates.items():
        for repeat, share in enumerate((0.995, 1.0, 1.005), start=1):
            add_trial(run, "pg18", clients, tps * share, 10.0 * clients, repeat=repeat, seconds=2)
    peak = next(trial.number for trial in run.trials if trial.point.clients == 32 and trial.repeat == 2)
    waited = (("CPU", "", 14.0), ("IO", "DataFileRead", 4.0))
    seen = ProbeAverages(peak, "", 0.97, 0.0, waited, None, None, None)
    of = digest(run)
    peak_tps, p99, limit, price = peak_numbers(of, of.curves[0], Extras(prices=PRICES, limits={peak: seen}))
    assert (peak_tps.figure, peak_tps.unit) == ("71,300", "tps")
    assert (p99.name, p99.about) == ("p99 at 79 % of the peak", "at 16 clients")
    assert len(peak_numbers(of, of.curves[0], Extras(limits={peak: seen}))) == 3
    # 10,000 EUR over 3 years of 71,300 transactions a second
    assert price.figure == "0.00148"
    assert (limit.figure, limit.about) == ("CPU", "78 % of active sessions on CPU, host 97 % busy")


@pytest.mark.parametrize(
    ("rates", "name", "about"),
    [
        # the nearest to 80 %, with its own share
        ({8: 68_000.0, 32: 100_000.0}, "p99 at 68 % of the peak", "at 8 clients"),
        ({4: 68_000.0, 8: 89_000.0, 32: 100_000.0}, "p99 at 89 % of the peak", "at 8 clients"),
        ({4: 68_000.0, 8: 93_000.0, 32: 100_000.0}, "p99 at 68 % of the peak", "at 4 clients"),
        ({4: 60_000.0, 8: 93_000.0, 32: 100_000.0}, "p99 at the peak", "no point between 65 and 90 % of it"),
        # more clients than at the peak only wait longer
        ({8: 60_000.0, 32: 100_000.0, 64: 80_000.0}, "p99 at the peak", "no point between 65 and 90 % of it"),
    ],
)
def test_p99_is_that_of_the_load_nearest_to_four_fifths(rates: dict[int, float], name: str, about: str) -> None:
    run = SampleRun(manifest())
    for clients, tps in rates.items():
        for repeat in (1, 2, 3):
            add_trial(run, "pg18", clients, tps, 10.0 * clients, repeat=repeat, seconds=2)
    of = digest(run)
    _, p99, *_ = peak_numbers(of, of.curves[0], Extras())
    assert (p99.name, p99.about) == (name, about)


def busy(share: float) -> list[SeriesStep]:
    return [SeriesStep(1, step, "cpu", "user", "", share) for step in range(20)]


def waits(*each: tuple[str, str, float], steps: Sequence[int] = tuple(range(20))) -> list[WaitStep]:
    return [WaitStep(1, step, kind, wait, sessions) for step in steps for kind, wait, sessions in each]


def test_the_timeline_s_data_cannot_end_their_element() -> None:
    run = sweep((EVIL, "b"), clients=(1, 4), repeats=1)
    source = render_html(run, "here")
    data = re.findall(r'<script type="application/json" id="times">(.*?)</script>', source, re.DOTALL)
    found = json.loads(data[0])
    assert len(data) == 1
    assert "<" not in data[0]
    assert found["trials"][0]["name"] == f"{EVIL}, 1 client, repeat 1"
    assert len(found["trials"][0]["tps"]) == 12
    assert (found["trials"][0]["begin"], found["trials"][0]["warm"]) == (-2, 0)


def test_the_timeline_s_data_are_bounded_however_many_trials_there_are() -> None:
    assert Steps.of(10, probed=True).most == 240
    run = SampleRun(manifest())
    trial = add_trial(run, "pg18", 4, 50_000, 900, seconds=3600)
    for trials, probed in ((100, True), (1280, False)):
        steps = Steps.of(trials, probed=probed)
        text = timeline_json(timeline_data(digest(run), {}, {}, trial.number, steps))
        assert len(json.loads(text)["trials"][0]["tps"]) <= steps.most
        assert trials * len(text) <= 1.5 * BYTES


def test_events_during_a_trial_are_in_its_timeline() -> None:
    run = SampleRun(manifest())
    number = add_trial(run, "pg18", 4, 1000, 900).number
    series = [
        SeriesStep(number, 2, "checkpoints", "requested", "", 1.0),
        SeriesStep(number, 3, "wal_position", "inserted", "", 25e6),
        SeriesStep(number, 3, "disk", "utilisation", "data wal, sda", 0.5),
        *busy(0.25),
    ]
    samples = ProbeSamples(1.0, series, waits(("Lock", "tuple", 2.0), ("Lock", "transactionid", 1.0)))
    dips = {number: [Dip(4.0, 6.0, 0.5, 900.0)]}
    data = timeline_data(digest(run), {number: samples}, dips, number, Steps(240))
    (trial,) = json.loads(timeline_json(data))["trials"]
    # the third step is the first that is measured
    assert (trial["begin"], trial["warm"]) == (-2, 0)
    assert trial["marks"] == [[0.0, "checkpoint (WAL or command)"]]
    assert trial["waits"] == {"Lock": [3] * 12}
    assert trial["cpu"]["user"][3] == 25
    assert trial["disk"] == {"data wal, sda: busy, %": [None, None, None, 50, *[None] * 8]}
    assert trial["wal"][3] == 25
    assert trial["dips"] == [[4.0, 6.0]]


def test_a_trial_of_tpch_has_no_throughput_over_time() -> None:
    plan = {**manifest().plan, "workload": {"name": "tpch", "scale_factor": 0.1}}
    run = SampleRun(manifest(plan=plan))
    number = add_trial(run, "pg18", 2, 1, 900).number
    samples = ProbeSamples(1.0, busy(0.25), [])
    data = timeline_data(digest(run), {number: samples}, {}, number, Steps(240))
    (trial,) = json.loads(timeline_json(data))["trials"]
    assert trial["tps"] == trial["p99"] == [None] * 12
    assert trial["cpu"]["user"][3] == 25
    # without the probe there is nothing to show
    assert timeline_data(digest(run), {}, {}, number, Steps(240))["trials"] == []


def test_dips_have_evidence_and_a_next_experiment() -> None:
    run = SampleRun(manifest())
    first, second, third = (add_trial(run, "pg18", 4, 1000, 900, repeat=at, seconds=20).number for at in (1, 2, 3))
    dip = Dip(8.0, 11.0, 0.4, 1200.0)
    found = dip_section(
        digest(run),
        {first: [dip], second: [dip], third: [dip]},
        {
            first: [ExplainedDip(dip, (Coincidence(Cause.CHECKPOINT, 0.8, 0.0, "sessions"),))],
            second: [
                ExplainedDip(
                    dip, (Coincidence(Cause.COMMIT, 6.0, 0.5, "sessions"), Coincidence(Cause.VACUUM, 1.0, 0.1, "share"))
                )
            ],
            third: [ExplainedDip(dip, ())],
        },
    )
    rows = present(found.table).rows
    assert [row[2] for row in rows] == ["a checkpoint's sync", "writing and syncing WAL", "unexplained"]
    assert rows[0][3] == "0.80 sessions, 0 in quiet seconds"
    assert "writing and syncing WAL: 6.0 sessions, 0.50 in quiet" in rows[1][3]
    assert "vacuum: 100 % of the time, 10 % in quiet seconds" in rows[1][3]
    assert "3,600 transactions lost" in found.summary
    assert len(found.tries) == 3
    (blind,) = present(dip_section(digest(run), {first: [dip]}, {}).table).rows
    assert blind[2:4] == ("unknown", "no probe sampled the server")


@pytest.mark.parametrize("each", [*TRIES.values(), UNEXPLAINED])
def test_a_plan_fragment_is_a_plan_s(each: object) -> None:
    fragment = tomllib.loads(getattr(each, "fragment", ""))
    assert fragment.keys() <= {"sweep", "trial", "workload"}


def test_a_price_names_its_rates_its_date_and_what_is_left_out() -> None:
    run = two_arms()
    page = page_of(run, extras_of(run, prices=PRICES))
    assert "Prices as of 2026-11-01, in EUR, over 3 years. Left out: power." in page.text("p")
    assert "pg18 server once 10,000 1" in page.text("table")
    assert "pg17 instance per hour 0.5 1" in page.text("table")
    assert "No prices given" in page_of(run, Extras()).text("p")


def test_processes_stand_by_their_io() -> None:
    run = sweep(clients=(1, 4))
    sums = [ProcessSum("checkpointer", 2e6, 0.0, 75e6), ProcessSum("walwriter", 1e6, 0.0, 25e6)]
    text = page_of(run, Extras(processes={1: sums})).text("table")
    assert "checkpointer 0 75.0 75 2.00" in text
    for trial in run.trials:
        run.of_statements[trial.number] = [StatementRow(trial.number, 0, 1, 1, "SELECT 1", 5, 0, 1.0, 1, 1, 1, 1)]
    assert "Processes by I/O: no probe" in page_of(run, Extras()).text("p")


def test_published_figures_stand_beside_measured_ones() -> None:
    run = SampleRun(manifest())
    point = Point(clients=64, workers=64, protocol="extended", scale=100)
    for repeat in (1, 2):
        add_trial(run, "pg18", 64, 30_000 + repeat, 900, repeat=repeat, point=point)
    run.manifest.plan["published"] = {"data": "graviton-pgbench"}
    text = page_of(run, Extras()).text("table")
    assert "64 clients graviton2 30,0" in text
    assert "15,500" in text


def test_runs_stand_beside_each_other_as_one() -> None:
    first, second = sweep(clients=(1, 4), repeats=2), sweep(clients=(1, 4), repeats=2)
    second.manifest = manifest(run="20261121T101500Z-quick-77aa", trials_planned=4)
    both = unite_runs([first, second])
    assert [trial.number for trial in both.trials] == list(range(1, 9))
    assert [target.name for target in both.manifest.targets] == ["pg18 (quick-3f9a)", "pg18 (quick-77aa)"]
    assert both.intervals(5)[0].trial == 5
    assert both.intervals(5)[0].succeeded == second.intervals(1)[0].succeeded
    assert len(digest(both).curves) == 2
    with pytest.raises(UsageError, match="named twice"):
        unite_runs([first, first])


def test_markdown_fits_80_columns_and_its_names_break_nothing() -> None:
    run = two_arms()
    text = markdown_of(digest(run), extras_of(run, findings=[finding(Severity.CAUTION, message="x" * 30 + " y" * 60)]))
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith("**pg18 is faster than pg17 by throughput")
    assert "- Peak throughput: 5,3" in text
    assert "- caution: littles-law: " in text
    assert "pgdyno audit shows the evidence." in text
    assert "|pg17  |" in text
    struck = markdown_of(digest(run), extras_of(run, findings=[finding(Severity.INVALID)]))
    assert struck.startswith("**NOT VALID:** ~~pg18 is faster")
    evil = sweep((EVIL, "b"), clients=(1, 4), repeats=2)
    assert "<script>" not in markdown_of(digest(evil), extras_of(evil)).replace("\\<", "")


def test_arms_without_an_interval_say_what_they_want() -> None:
    run = two_arms(repeats=1)
    page = page_of(run, extras_of(run))
    assert page.text("h1") == "pg18 vs pg17 by throughput: too few finished trials for an interval"
    assert "An interval needs at least two pairs, a claim six." in page.text("p")
