"""Sections of the report: their content for a known run."""

import json
import re
import tomllib

import pytest

from pgdyno import records
from pgdyno.analyse.comparison import compare
from pgdyno.analyse.over_time.dips import Cause, Coincidence, Dip, ExplainedDip
from pgdyno.analyse.pairs import Metric, within
from pgdyno.analyse.price import PriceList
from pgdyno.audit import RULES, Evidence, Finding, Severity
from pgdyno.errors import UsageError
from pgdyno.report.export import markdown_of
from pgdyno.report.numbers import NOTHING
from pgdyno.report.report_content import Extras, ProbeSamples, digest
from pgdyno.report.run_notes import background_table, pooler_table, replica_table
from pgdyno.report.sections.environment import generator_table
from pgdyno.report.sections.figures.comparison import published_blocks
from pgdyno.report.sections.figures.validity import validity
from pgdyno.report.sections.key_figures import peak_numbers
from pgdyno.report.sections.over_seconds.dips import TRIES, UNEXPLAINED, dip_section
from pgdyno.report.sections.over_seconds.timelines import BYTES, Steps, timeline_data, timeline_json
from pgdyno.report.sentences import conditions
from pgdyno.report.several_runs import unite_runs
from pgdyno.report.table import MOST_ROWS, Table, first_rows
from pgdyno.report.terminal.block_lines import table_lines
from pgdyno.report.terminal.summary_file import Layout
from pgdyno.store.probe_queries import ProbeAverages, ProcessSum, SeriesStep, WaitStep
from pgdyno.store.trial_tables import StatementRow
from tests.present import present
from tests.unit.events_sample import latency_of
from tests.unit.report_answer_sample import arms, invalid
from tests.unit.report_sample import SampleRun, add_trial, manifest, plain_lines, render_html, sweep
from tests.unit.store_sample import trial_record, trial_summary
from tests.unit.test_report_html import Page

EVIL = "</script><script>alert('1')</script>"
PRICES = PriceList.model_validate(
    {
        "currency": "EUR", "date": "2026-11-01", "years": 3, "left_out": ["power"],
        "target": {"pg18": {"purchase": [{"name": "server", "amount": 10_000}]}, "pg17": {"hourly": [{"amount": 0.5}]}},
    }
)  # fmt: skip


def two_arms(gain: float = 1.06, repeats: int = 8) -> SampleRun:
    return arms(("pg17", "pg18"), (1.0, gain), repeats)


def extras_of(run: SampleRun, **changes: object) -> Extras:
    return Extras(comparisons=compare(within(run, "target", Metric.TPS)), **changes)  # type: ignore[arg-type]


def finding(severity: Severity, rule: str = "littles-law", message: str = "the load was another") -> Finding:
    evidence = [Evidence(at=f"trial {at}", figures={"tps": 100.0 * at}) for at in range(1, 7)]
    told = {"rule": rule, "id": rule, "severity": severity, "message": message, "evidence": evidence}
    return invalid().model_copy(update=told)


MIXED = [finding(Severity.INVALID), finding(Severity.CAUTION, "clock"), finding(Severity.NOTE, "errors")]


def page_of(run: SampleRun, extras: Extras) -> Page:
    return Page(render_html(run, "here", extras))


def test_the_first_screen_has_the_comparison_and_its_price_or_what_would_settle_it() -> None:
    run = two_arms()
    page = page_of(run, extras_of(run, findings=[]))
    text = page.text("table")
    assert re.search(r"16 clients faster 5,0\d0 5,\d\d0 \+[56]\.\d \+\d\.\d to \+\d\.\d 8", text)
    assert "all points faster" in text
    assert "±1.0 %: counts as no difference" in page.text("title")
    assert not page.all("s")
    # a comparison of few points has all of them on the first screen
    ids = [each["id"] for each in page.all("figure")]
    assert (ids[0], ids.count("forest-0")) == ("forest-0", 1)
    priced = page_of(run, extras_of(run, prices=PRICES, arms={each: each.target for each in digest(run).named}))
    # 10,000 EUR over three years of 5,300 transactions a second, 0.5 EUR an hour of 5,000
    price = r"a million transactions cost 0\.0\d+ EUR \(pg18\), 0\.02\d+ EUR \(pg17\)"
    assert re.search(rf"8 pairs; {price}$", priced.text("h1"))
    page = page_of(run, extras_of(run, prices=PRICES))
    assert "a million" not in page.text("h1")
    assert "Prices as of 2026-11-01, in EUR, over 3 years. Left out: power." in page.text("p")
    assert "pg18 server once 10,000 1" in page.text("table")
    assert "pg17 instance per hour 0.5 1" in page.text("table")
    assert "No prices given" in page_of(run, Extras()).text("p")
    # an inconclusive one has no price, and says what would settle it
    run = two_arms(1.05, repeats=2)
    page = page_of(run, extras_of(run, prices=PRICES, arms={each: each.target for each in digest(run).named}))
    assert "a million" not in page.text("h1")
    assert re.search(r"(?i)a new run of about \d+ pairs, analysed without these, would reach a verdict", page.text("p"))
    assert "Fewer than 6 pairs: too few for a claim" in page.text("p")


def test_red_strikes_the_claim_through_and_a_line_names_what_is_worse_than_a_note() -> None:
    run = two_arms()
    page = page_of(run, extras_of(run, findings=MIXED))
    assert page.text("s").startswith("pg18 is faster")
    assert "Not valid: the load was another." in page.text("p")
    strip = page.text("li")
    for words in ("✕ littles-law invalid", "◐ clock caution", "○ errors note", "● durability passed"):
        assert words in strip
    assert "trial 4: tps 400" in strip
    assert "and 2 more" in strip
    assert f"{len(RULES)} rules: 1 invalid, 1 caution, 1 note, {len(RULES) - 3} passed; n = 48 trials" in page.text("p")
    # a rule that could not look is not called passed
    unchecked = finding(Severity.NOTE, "clock", "not checked: nobody told the time")
    page = page_of(run, Extras(findings=[unchecked.model_copy(update={"id": "clock-not-checked"})]))
    assert "clock not checked" in page.text("li")
    assert "1 not checked" in page.text("summary")
    rules = [rule.id for rule in RULES if rule.id not in ("littles-law", "clock", "errors")]
    assert validity(MIXED).line == f"{len(rules)} passed, 1 invalid: littles-law, 1 caution: clock"
    many = validity([finding(Severity.CAUTION, rule) for rule in rules[:6]])
    assert many.line == f"{len(RULES) - 6} passed, 6 cautions: {', '.join(rules[:4])}, 2 more"


def test_a_comparison_of_many_points_has_its_first_on_the_first_screen() -> None:
    run = sweep(("pg17", "pg18"), clients=range(1, 13), repeats=2, seconds=3)
    page = page_of(run, extras_of(run, findings=[]))
    assert "The first 9 of 12 points" in page.text("h2")
    ids = [each["id"] for each in page.all("figure")]
    assert ids[0] == "forest"
    assert "forest-0" in ids


def peaks(rates: dict[int, float]) -> SampleRun:
    run = SampleRun(manifest())
    for clients, tps in rates.items():
        for repeat, share in enumerate((0.995, 1.0, 1.005), start=1):
            add_trial(run, "pg18", clients, tps * share, 10.0 * clients, repeat=repeat, seconds=2)
    return run


def test_the_numbers_of_the_highest_peak_and_p99_nearest_to_four_fifths_of_it() -> None:
    run = peaks({1: 1000.0, 16: 56_000.0, 32: 71_300.0, 64: 60_000.0})
    peak = next(trial.number for trial in run.trials if trial.point.clients == 32 and trial.repeat == 2)
    waited = (("CPU", "", 14.0), ("IO", "DataFileRead", 4.0))
    seen = {peak: ProbeAverages(peak, "", 0.97, 0.0, waited, None, None, None)}
    of = digest(run)
    peak_tps, p99, limit, price = peak_numbers(of, of.curves[0], Extras(prices=PRICES, limits=seen))
    assert (peak_tps.figure, peak_tps.unit) == ("71,300", "tps")
    assert (p99.name, p99.about) == ("p99 at 79 % of the peak", "at 16 clients")
    assert len(peak_numbers(of, of.curves[0], Extras(limits=seen))) == 3
    # 10,000 EUR over 3 years of 71,300 transactions a second
    assert price.figure == "0.00148"
    assert (limit.figure, limit.about) == ("CPU", "78 % of active sessions on CPU, host 97 % busy")
    assert page_of(run, Extras(prices=PRICES)).text("h1").endswith("; a million transactions cost 0.00148 EUR")
    for rates, name, about in (
        # the nearest to 80 %, with its own share
        ({8: 68_000.0, 32: 100_000.0}, "p99 at 68 % of the peak", "at 8 clients"),
        ({4: 68_000.0, 8: 89_000.0, 32: 100_000.0}, "p99 at 89 % of the peak", "at 8 clients"),
        ({4: 68_000.0, 8: 93_000.0, 32: 100_000.0}, "p99 at 68 % of the peak", "at 4 clients"),
        ({4: 60_000.0, 8: 93_000.0, 32: 100_000.0}, "p99 at the peak", "no point between 65 and 90 % of it"),
        # more clients than at the peak only wait longer
        ({8: 60_000.0, 32: 100_000.0, 64: 80_000.0}, "p99 at the peak", "no point between 65 and 90 % of it"),
    ):
        of = digest(peaks(rates))
        _, p99, *_ = peak_numbers(of, of.curves[0], Extras())
        assert (p99.name, p99.about) == (name, about)


BUSY = [SeriesStep(1, step, "cpu", "user", "", 0.25) for step in range(20)]


def test_the_timeline_s_data_are_bounded_and_cannot_end_their_element() -> None:
    run = sweep((EVIL, "b"), clients=(1, 4), repeats=1)
    source = render_html(run, "here")
    data = re.findall(r'<script type="application/json" id="times">(.*?)</script>', source, re.DOTALL)
    found = json.loads(data[0])
    assert len(data) == 1
    assert "<" not in data[0]
    assert found["trials"][0]["name"] == f"{EVIL}, 1 client, repeat 1"
    assert len(found["trials"][0]["tps"]) == 12
    assert (found["trials"][0]["begin"], found["trials"][0]["warm"]) == (-2, 0)
    # they are bounded, however many trials there are
    assert Steps.for_trials(10, probed=True).most == 240
    run = SampleRun(manifest())
    add_trial(run, "pg18", 4, 50_000, seconds=3600)
    for trials, probed in ((100, True), (1280, False)):
        steps = Steps.for_trials(trials, probed=probed)
        text = timeline_json(timeline_data(digest(run), {}, {}, 1, steps))
        assert len(json.loads(text)["trials"][0]["tps"]) <= steps.most
        assert trials * len(text) <= 1.5 * BYTES


def test_events_during_a_trial_are_in_its_timeline_and_of_tpch_no_throughput() -> None:
    run = SampleRun(manifest())
    add_trial(run, "pg18", 4, 1000)
    series = [
        SeriesStep(1, 2, "checkpoints", "requested", "", 1.0),
        SeriesStep(1, 3, "wal_position", "inserted", "", 25e6),
        SeriesStep(1, 3, "disk", "utilisation", "data wal, sda", 0.5),
        *BUSY,
    ]
    locks = (("tuple", 2.0), ("transactionid", 1.0))
    waits = [WaitStep(1, step, "Lock", *lock) for step in range(20) for lock in locks]
    samples = ProbeSamples(1.0, series, waits)
    dips = {1: [Dip(4.0, 6.0, 0.5, 900.0)]}
    data = timeline_data(digest(run), {1: samples}, dips, 1, Steps(240))
    (trial,) = json.loads(timeline_json(data))["trials"]
    # the third step is the first that is measured
    assert (trial["begin"], trial["warm"]) == (-2, 0)
    assert trial["marks"] == [[0.0, "checkpoint (WAL or command)"]]
    assert trial["waits"] == {"Lock": [3] * 12}
    assert trial["cpu"]["user"][3] == 25
    assert trial["disk"] == {"data wal, sda: busy, %": [None, None, None, 50, *[None] * 8]}
    assert trial["wal"][3] == 25
    assert trial["dips"] == [[4.0, 6.0]]
    # a trial of tpch has no throughput over time
    plan = {**manifest().plan, "workload": {"name": "tpch", "scale_factor": 0.1}}
    run = SampleRun(manifest(plan=plan))
    add_trial(run, "pg18", 2, 1)
    data = timeline_data(digest(run), {1: ProbeSamples(1.0, BUSY, [])}, {}, 1, Steps(240))
    (trial,) = json.loads(timeline_json(data))["trials"]
    assert trial["tps"] == trial["p99"] == [None] * 12
    assert trial["cpu"]["user"][3] == 25
    # without the probe there is nothing to show
    assert timeline_data(digest(run), {}, {}, 1, Steps(240))["trials"] == []


def test_dips_have_evidence_and_a_next_experiment_which_is_part_of_a_plan() -> None:
    run = SampleRun(manifest())
    for repeat in (1, 2, 3):
        add_trial(run, "pg18", 4, 1000, repeat=repeat, seconds=20)
    dip = Dip(8.0, 11.0, 0.4, 1200.0)
    causes: tuple[list[Coincidence], ...] = (
        [Coincidence(Cause.CHECKPOINT, 0.8, 0.0, "sessions")],
        [Coincidence(Cause.COMMIT, 6.0, 0.5, "sessions"), Coincidence(Cause.VACUUM, 1.0, 0.1, "share")],
        [],
    )
    explained = {trial: [ExplainedDip(dip, tuple(found))] for trial, found in enumerate(causes, start=1)}
    found = dip_section(digest(run), {1: [dip], 2: [dip], 3: [dip]}, explained)
    rows = present(found.table).rows
    assert [row[2] for row in rows] == ["a checkpoint's sync", "writing and syncing WAL", "unexplained"]
    assert rows[0][3] == "0.80 sessions, 0 in quiet seconds"
    assert "writing and syncing WAL: 6.0 sessions, 0.50 in quiet" in rows[1][3]
    assert "vacuum: 100 % of the time, 10 % in quiet seconds" in rows[1][3]
    assert "3,600 transactions lost" in found.summary
    assert len(found.tries) == 3
    (blind,) = present(dip_section(digest(run), {1: [dip]}, {}).table).rows
    assert blind[2:4] == ("unknown", "no probe sampled the server")
    for each in (*TRIES.values(), UNEXPLAINED):
        assert tomllib.loads(getattr(each, "fragment", "")).keys() <= {"sweep", "trial", "workload"}


def test_processes_stand_by_their_io() -> None:
    run = sweep(clients=(1, 4))
    sums = [ProcessSum("checkpointer", 2e6, 0.0, 75e6), ProcessSum("walwriter", 1e6, 0.0, 25e6)]
    text = page_of(run, Extras(processes={1: sums})).text("table")
    assert "checkpointer 0 75.0 75 2.00" in text
    for trial in run.trials:
        run.of_statements[trial.number] = [StatementRow(trial.number, 0, 1, 1, "SELECT 1", 5, 0, 1.0, 1, 1, 1, 1)]
    assert "Processes by I/O: no probe" in page_of(run, Extras()).text("p")


def published_run(data: str, point: records.Point) -> SampleRun:
    run = SampleRun(manifest(plan={**manifest().plan, "published": {"data": data}, "workload": {"scale": point.scale}}))
    for repeat in (1, 2):
        add_trial(run, "pg18", point.planned_clients, 30_000 + repeat, repeat=repeat, point=point)
    return run


def test_published_figures_stand_beside_measured_ones_and_many_are_cut() -> None:
    run = published_run("graviton-pgbench", records.Point(clients=64, workers=64, protocol="extended", scale=100))
    text = page_of(run, Extras()).text("table")
    assert "64 clients graviton2 30,0" in text
    assert "15,500" in text
    (table,) = published_blocks(digest(run))
    assert isinstance(table, Table)
    assert table.caption == (
        "This run vs “PostgreSQL on EC2: Graviton2 against x86-64, by pgbench” "
        "(gnosia93/postgres-terraform, 2021-03, PostgreSQL 11.5)"
    )
    graviton, x86 = table.rows
    assert graviton[:3] == ("64 clients", "graviton2", "30,002")
    assert graviton[3].endswith(" to 15,500")
    assert x86[1] == "x86-64"
    assert "graviton2" in "\n".join(plain_lines(run))
    # points that nobody published
    run = published_run("graviton-pgbench", records.Point(clients=8, workers=1, protocol="extended", scale=10))
    (line,) = published_blocks(digest(run))
    assert str(line).endswith("has no figure for these points: it has scale 100, clients 64")
    # many rows are cut
    run = published_run("aurora-sysbench", records.Point(clients=2, workers=1, protocol="simple"))
    for clients in (4, 8, 16):
        add_trial(run, "pg18", clients, 30_000, point=records.Point(clients=clients, workers=1, protocol="simple"))
    table, more = published_blocks(digest(run))
    assert isinstance(table, Table)
    assert len(table.rows) == MOST_ROWS
    assert more == f"and {4 * 8 - MOST_ROWS} more in the HTML report"
    assert published_blocks(digest(sweep())) == []


def test_each_generator_has_a_row() -> None:
    lost = records.GeneratorHost(
        name="generator-2", host="load1", cores=2, cpu_model="a processor", pgdyno="0.1.0", pgdrive="0.1.0",
        clients=None, clock_ahead_us=-84, clock_ahead_after_us=None, clock_round_trip_us=811, report_delay_us=32_934,
    )  # fmt: skip
    seen = {"name": "generator-1", "clients": 2, "tps": 7701.8, "cpu_us": {"user": 200_000, "system": 0}}
    whole = lost.model_copy(update={**seen, "busiest_cpu_share": 0.0717, "start_late_us": 1658})
    run = sweep(clients=(1,))
    assert generator_table(digest(run)) is None
    assert "generators" not in conditions(digest(run))
    for at, trial in enumerate(run.trials):
        generator = present(trial.generator).model_copy(update={"hosts": [whole, lost]})
        run.trials[at] = trial.model_copy(update={"generator": generator})
    clock = "-0.084 ± 0.41"
    assert present(generator_table(digest(run))).rows == (
        ("generator-1", "load1", "2", "7,700", "0.20", "7.2", NOTHING, "1.7", clock, "33"),
        ("generator-2", "load1", *[NOTHING] * 6, clock, "33"),
    )
    assert "2 generators; " in conditions(digest(run))
    assert "generator-2" in render_html(run, "a-run")


LOAD = records.BackgroundFigures(
    name="pgdyno_1", clients=2, measured_s=4, succeeded=8000, failed=3, skipped=0, tps=2000,
    latency_ns=latency_of(((500_000, 99), (2_000_000, 1))), seed=1, workers=1,
)  # fmt: skip
LAG = records.ReplicaLag(
    name="pgdyno_1", sync_state="async", samples=5, bytes_last=10, bytes_max=12_300,
    write_lag_max_s=None, flush_lag_max_s=None, replay_lag_max_s=0.0045, replay_lag_last_s=None,
)  # fmt: skip


def test_rows_of_standbys_and_of_loads_in_the_background() -> None:
    quiet = LAG.model_copy(update={"name": "pgdyno_2", "bytes_max": None, "replay_lag_max_s": None})
    waits = {"startup: CPU": 2.0, "IO:DataFileRead": 1.25}
    probe = records.ProbeRecord(standbys=[records.StandbyProbeRecord(name="pgdyno_1", active=1.25, waits=waits)])
    table = present(replica_table([trial_record(3, replication=[LAG, quiet], probe=probe)]))
    assert table.rows == (
        ("3", "pgdyno_1", "12.3", "4.50", "1.2", "startup: CPU 2.0"),
        ("3", "pgdyno_2", *[NOTHING] * 4),
    )
    lines = table_lines(table, Layout(80))
    assert len(lines) == 4
    assert max(map(len, lines)) <= 80
    assert replica_table([trial_record(1)]) is None
    # a terminal gets the first of many
    table = present(replica_table([trial_record(number, replication=[LAG]) for number in range(1, 31)]))
    shown, more = first_rows(table, 12)
    assert isinstance(shown, Table)
    assert (len(shown.rows), more) == (12, "and 18 more in the HTML report")
    # a row has what ran in the background
    idle = LOAD.model_copy(update={"name": "idle", "tps": 0.0, "latency_ns": None, "failed": 0})
    # an earlier version called it by the standby
    older = trial_record(3, background=[LOAD, idle]).model_dump(mode="json")
    older["replica_load"] = older.pop("background")
    assert present(background_table([records.TrialRecord.model_validate(older)])).rows == (
        ("3", "pgdyno_1", "2", "2,000", "0.500", "0.500", "3"),
        ("3", "idle", "2", "0", NOTHING, NOTHING, "0"),
    )
    assert background_table([trial_record(1, replication=[LAG])]) is None


def test_a_row_of_a_pooler_has_the_parts_of_the_mean_latency() -> None:
    pooler = records.PoolerRecord(
        name="PgBouncer", pool=4, clients_waiting=3.0, servers_active=4.0, servers_idle=0.0, queue_ms=0.2, server_ms=0.1
    )
    trial = trial_record(
        2, probe=records.ProbeRecord(pooler=pooler), summary=trial_summary(latency_ns=latency_of(((500_000, 1),)))
    )
    assert present(pooler_table([trial, trial_record(1)])).rows == (
        ("2", "pool of 4", "0.500", "0.200", "0.100", "0.200", "3.00", "4.00", "0"),
    )


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
    assert "- Peak throughput: 5,3" in text
    assert "- caution: littles-law: " in text
    assert "pgdyno audit shows the evidence." in text
    assert "|pg17  |" in text
    struck = markdown_of(digest(run), extras_of(run, findings=[finding(Severity.INVALID)]))
    assert struck.startswith("**NOT VALID:** ~~pg18 is faster")
    evil = sweep((EVIL, "a|b<i>"), clients=(1, 4), repeats=2)
    text = markdown_of(digest(evil), extras_of(evil))
    assert "<script>" not in text.replace("\\<", "")
    assert "a\\|b\\<i\\>" in text
