"""Tables of sysbench's sweep, TPC-C's orders and figures by script; the section "Your load" and its audit."""

import csv
import dataclasses
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pgdyno.analyse.likeness import likeness, replayed_statements
from pgdyno.audit import audit
from pgdyno.audit.finding import Finding
from pgdyno.cli import app
from pgdyno.commands.show import show
from pgdyno.errors import UsageError
from pgdyno.records import ErrorCount, Latency, ReplayFigures, ScriptSummary, TrialRecord
from pgdyno.report.export import markdown_of, to_csv, to_json
from pgdyno.report.numbers import NOTHING
from pgdyno.report.report_content import Extras, digest
from pgdyno.report.report_tables import script_table
from pgdyno.report.sections.draft import Draft
from pgdyno.report.sections.likeness import load_lines, own_loads, waits_table
from pgdyno.report.sections.section_list import filled_sections
from pgdyno.report.sentences import conditions
from pgdyno.report.table import Table
from pgdyno.report.terminal.block_lines import table_lines
from pgdyno.report.terminal.summary_file import Layout
from pgdyno.report.translation import Language, use_language
from pgdyno.run.run_trial import statement_counts, tpcc_figures
from pgdyno.store.probe_queries import ProbeAverages
from pgdyno.workloads.lua.figures import SWEEP_HEADINGS, sweep_table
from pgdyno.workloads.tpcc.figures import tpcc_table
from tests.present import present
from tests.unit.audit_sample import FakeRun, own, revise_trials
from tests.unit.capture_sample import capture
from tests.unit.report_sample import SampleRun, add_trial, manifest, plain_lines, render_html, sweep, to_markdown
from tests.unit.test_analyse_likeness import end_of, statement

STATEMENTS = {"reads": 1400, "writes": 400, "others": 200, "queries": 2000, "ignored_errors": 3, "reconnects": 1}
COUNTS = statement_counts({"statements": STATEMENTS})
TYPES = [
    {"name": "New-Order", "count": 45, "percent": 45.0, "asked_percent": 43.5, "p90_ns": 12_000_000, "limit_s": 5},
    {"name": "Stock-Level", "count": 4, "percent": 4.0, "asked_percent": 4.4, "p90_ns": 21_000_000_000, "limit_s": 20},
    {"name": "Delivery", "count": 0, "percent": 0.0, "asked_percent": 4.4, "p90_ns": None, "limit_s": 5},
]
TPCC = {"nopm": 12345.6, "tpm": 27000.0, "server": {"nopm": 12400.0, "tpm": 28000.0}, "types": TYPES}


def with_figures(run: SampleRun, **figures: object) -> SampleRun:
    """Returns the run with these fields in the summary of every trial."""
    summaries = [present(trial.summary).model_copy(update=figures) for trial in run.trials]
    trials = [trial.model_copy(update={"summary": each}) for trial, each in zip(run.trials, summaries, strict=True)]
    return dataclasses.replace(run, trials=trials)


def test_a_sweep_has_sysbenchs_columns_and_a_row_a_trial_and_other_runs_none() -> None:
    run = with_figures(sweep(clients=(8, 1)), statements=COUNTS)
    table = present(sweep_table(digest(run)))
    assert table.headings == SWEEP_HEADINGS
    assert [row[0] for row in table.rows] == sorted((str(trial.point.clients) for trial in run.trials), key=int)
    summary = present(next(trial for trial in run.trials if trial.point.clients == 1).summary)
    first = dict(zip(table.headings, table.rows[0], strict=True))
    assert (first["reads"], first["writes"], first["others"]) == ("1400", "400", "200")
    assert first["qps"] == f"{2000 / present(summary.measured_s):.2f}"
    assert first["errs"] == str(3 + present(summary.failed))
    assert first["p95"] == f"{present(present(summary.latency_ns).p95) / 1e6:.2f}"
    lines = [line.plain for line in table_lines(table, Layout())[1:]]
    assert lines[0].split() == list(SWEEP_HEADINGS)
    assert len({len(line) for line in lines}) == 1
    assert "elaptime" in render_html(run, "run")
    # several targets are named
    table = present(sweep_table(digest(with_figures(sweep(("a", "b"), clients=(1,)), statements=COUNTS))))
    assert table.headings == ("series", *SWEEP_HEADINGS)
    assert {row[0] for row in table.rows} == {"a", "b"}
    # other runs have neither this nor orders
    run = sweep(clients=(1, 8))
    of = digest(run)
    assert sweep_table(of) is None
    assert tpcc_table(of) is None
    assert script_table(of) is None
    assert statement_counts({}) is None
    assert statement_counts({"statements": STATEMENTS, "tpcc": TPCC}) is None
    assert tpcc_figures({}) is None
    assert "elaptime" not in render_html(run, "run")


def of_scripts(*changes: dict[str, Any]) -> SampleRun:
    run = sweep(clients=(8,), repeats=1)
    like = {"weight": 1, "failed": 2, "skipped": 0, "latency_ns": present(run.trials[0].summary).latency_ns}
    scripts = [ScriptSummary(**{"id": at, "succeeded": 500, **like, **each}) for at, each in enumerate(changes)]
    return with_figures(run, scripts=scripts, measured_s=10.0)


def test_a_mixed_load_has_figures_by_script_in_every_output() -> None:
    latency = present(present(sweep(clients=(8,), repeats=1).trials[0].summary).latency_ns)
    slow = latency.model_copy(update={"p50": 7_000_000, "p99": 70_000_000})
    run = of_scripts(
        {"name": "order.sql", "latency_ns": slow}, {"name": "read.sql", "weight": 9, "succeeded": 4500, "failed": 0}
    )
    # a single point needs no name
    assert [(row[0], row[1], row[3], row[5], row[6]) for row in present(script_table(digest(run))).rows] == [
        ("order.sql", "50.0", "7.00", "70.0", "2"),
        ("read.sql", "450", f"{present(latency.p50) / 1e6:.3f}", f"{present(latency.p99) / 1e6:.3f}", "0"),
    ]
    row = next(csv.DictReader(io.StringIO(to_csv(run))))
    order = {"script": "order.sql", "tps": 50.0, "p50_ms": 7.0, "p99_ms": 70.0, "failed": 2}
    assert json.loads(row["scripts"])[0] == order
    for text in (to_markdown(run), "\n".join(plain_lines(run)), render_html(run, "runs/x")):
        assert "order.sql" in text
        assert "70.0" in text


def test_figures_and_caught_errors_of_scripts_are_in_a_report() -> None:
    run = of_scripts(*({"name": f"{number:02}-select-accounts_project.sql"} for number in range(29)))
    said = "\n".join(plain_lines(run))
    assert re.search(r"\nscript +tps .*\n(?: .*\n)?00-select-accounts_project.sql +50.0 ", said)
    assert "28-select-accounts_project.sql" not in said
    assert "and 5 more in the HTML report" in said
    counts = statement_counts({"statements": STATEMENTS | {"ignored_errors": 53}})
    (point,) = digest(with_figures(sweep(clients=(8,), repeats=1), statements=counts, retries=3)).points
    # those that began an event again are retries
    assert (point.losses.caught, point.losses.errors) == (50, 50)
    assert "errors: 50 caught by the script" in [str(warning) for warning in point.warnings]


def at_scale(scale: int) -> SampleRun:
    run = sweep(clients=(8, 1))
    points = [trial.point.model_copy(update={"scale": scale}) for trial in run.trials]
    run.trials = [trial.model_copy(update={"point": at}) for trial, at in zip(run.trials, points, strict=True)]
    return run


def test_conditions_have_only_what_the_workload_knows() -> None:
    for workload, scale, said, unsaid in (
        ({}, 1, "scale 1, prepared protocol", "tables"),
        # the size of sysbench's tables is no scale
        ({"dataset": "sbtest", "tables": 2}, 1000, "select-only, 2 tables of 1,000 rows, ", "scale"),
        ({"dataset": "sbtest", "tables": 1}, 1000, "select-only, 1 table of 1,000 rows, ", "scale"),
        ({"scripts": ["q.sql"], "dataset": "none", "scale": 1}, 1, "prepared protocol", "scale"),
        # these send statements in a way of their own
        ({"dataset": "none", "name": "tpcc"}, 1, "", "protocol"),
        ({"dataset": "none", "name": "oltp-read-write"}, 1, "", "protocol"),
        ({"dataset": "none", "lua": "mine.lua"}, 1, "", "protocol"),
    ):
        run = at_scale(scale)
        run.manifest.plan["workload"] |= {"scripts": ["oltp-read-write"], **workload} if workload else {}
        text = conditions(digest(run))
        assert said in text
        assert unsaid not in text


def test_orders_a_minute_and_limits_are_in_terminals_and_pages() -> None:
    run = with_figures(sweep(clients=(1, 8)), tpcc=tpcc_figures({"tpcc": TPCC}))
    for width in (40, 80, 200, None):
        shown = plain_lines(run, width)
        assert width is None or max(len(line) for line in shown) <= width
        text = " ".join(" ".join(shown).split())
        for figure in ("NOPM, server", "12,400", "12,346", "28,000", "27,000", "Stock-Level (≤ 20 s)", "21,000 ABOVE"):
            assert figure in text
    page = render_html(run, "run")
    assert ">TPC-C</h3>" in page
    assert "21,000 ABOVE" in page
    # a server that could not be asked has a dash
    unasked = tpcc_figures({"tpcc": {**TPCC, "server": {"message": "permission denied"}}})
    table = present(tpcc_table(digest(with_figures(sweep(clients=(1,)), tpcc=unasked))))
    assert table.rows[0][3:5] == (NOTHING, "12,346")


def test_the_layout_is_an_option_of_show(monkeypatch: pytest.MonkeyPatch) -> None:
    run = sweep(clients=(1,))
    monkeypatch.setattr("pgdyno.store.find_run", lambda *_: None)
    monkeypatch.setattr("pgdyno.store.load_run", lambda _: run)
    with pytest.raises(UsageError, match="no trial with sysbench's statement counts"):
        show("latest", Path(), layout="sysbench")
    run = with_figures(run, statements=COUNTS)
    shown = CliRunner().invoke(app, ["show", "--layout", "sysbench"])
    assert shown.exit_code == 0, shown.output
    assert shown.output.splitlines()[0].split() == list(SWEEP_HEADINGS)


DISAGREEMENTS = (
    "new_errors", "missing_errors", "other_errors", "in_failed_transaction", "different_rows", "cancelled_waits",
)  # fmt: skip
AGREED = dict.fromkeys(DISAGREEMENTS, 0)


def figures(**changes: Any) -> ReplayFigures:  # noqa: ANN401 - fields of any type
    of: dict[str, Any] = {
        "sessions": 2, "sessions_begun": 2, "sessions_lost": 0, "statements": 5, "done": 5, "not_started": 0,
        "disagreements": AGREED, "lateness_ns": Latency(p50=20_000, p99=900_000, max=2_000_000), "within_1ms": 0.995,
    }  # fmt: skip
    return ReplayFigures(**{**of, **changes})


LIKE = end_of([statement(0, 2), statement(1, 1), statement(2, 0, failures=1), statement(3, 1)])
UNLIKE = end_of([statement(0, 2), statement(1, 1), statement(3, 1)])


def replay_fields(end: dict[str, object], **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - likewise
    return {"likeness": likeness(capture(), replayed_statements(end)), "summary": {"replay": figures(**changes)}}


def sample(end: dict[str, object] = LIKE, targets: tuple[str, ...] = ("pg15", "pg18"), **changes: Any) -> SampleRun:  # noqa: ANN401
    run = SampleRun(manifest(targets, trials_planned=len(targets)))
    for name in targets:
        add_trial(run, name, 2, 100.0, seconds=4)
    for at, trial in enumerate(run.trials):
        fields = replay_fields(end, **changes)
        summary = present(trial.summary).model_copy(update=fields["summary"])
        run.trials[at] = trial.model_copy(update={**fields, "summary": summary})
    return run


SEEN = {
    1: ProbeAverages(1, "a", None, None, [("CPU", "", 0.4), ("Lock", "tuple", 0.1)], None, None, None),
    2: ProbeAverages(2, "b", None, None, [("IO", "WalSync", 0.2)], None, None, None),
}


def test_the_load_is_the_first_section_and_has_its_tables() -> None:
    run = sample()
    section, blocks = next(iter(filled_sections(Draft(digest(run), Extras(limits=SEEN), "/runs/a")).items()))
    assert section.id == "load"
    texts = [block for block in blocks if isinstance(block, str)]
    assert texts[0] == (
        "pg15: True to 100 %: 5 of 5 statements had the captured result, as far as the capture knows it. The load is "
        "like the capture: each of its 4 classes of statements has the same share. 99.5 % of the statements began "
        "within 1 ms of their time, and 99 % within 0.900 ms."
    )
    classes, waits = [each for each in blocks if isinstance(each, Table)]
    assert classes.headings[:4] == ("statement", "captured: calls, %", "pg15: calls, %", "pg18: calls, %")
    assert classes.rows[0][:4] == ("SELECT a FROM t WHERE b = $1", "40.00", "40.00", "40.00")
    assert waits.rows == (
        ("CPU", "0.50", "0.40", "0.00"),
        ("Lock:tuple", "0.25", "0.10", "0.00"),
        ("IO:WalSync", "0.00", "0.00", "0.20"),
    )
    page = render_html(run, "/runs/a")
    assert page.index('id="load"') < page.index('id="validity"' if 'id="validity"' in page else 'id="points"')
    # the first link of the page
    assert page.index('href="#load"') < page.index('href="#points"')
    assert page.count("<li><a href=") <= 8


def test_waits_are_in_every_form_with_a_probe_and_the_section_with_a_capture_only() -> None:
    run, half = sample(), Extras(limits={1: SEEN[1]})
    table = present(waits_table(own_loads(digest(run)), half.limits))
    assert table.rows == (("CPU", "0.50", "0.40", NOTHING), ("Lock:tuple", "0.25", "0.10", NOTHING))
    assert "Lock:tuple" in markdown_of(digest(run), half)
    assert "Lock:tuple" in "\n".join(plain_lines(run, 80, half))
    assert "Lock:tuple" not in to_markdown(run)
    # without a capture there is no such section
    run = SampleRun(manifest())
    add_trial(run, "pg18", 2, 100.0, seconds=4)
    assert 'id="load"' not in render_html(run, "/runs/a")
    assert load_lines(digest(run)) == []
    assert findings(revise_trials(own(), lambda _: replay_fields(LIKE))) == []


def test_terminal_markdown_csv_and_json_have_it() -> None:
    run = sample()
    lines = plain_lines(run)
    assert max(map(len, lines)) <= 80
    first = next(at for at, line in enumerate(lines) if "is like the capture" in line)
    at, heading = next((at, line) for at, line in enumerate(lines) if line.startswith("statement  "))
    assert first < at
    assert heading.split() == ["statement", *["captured:", "pg15:", "pg18:"] * 2]
    assert lines[at + 1].count("calls, %") == 3
    assert first < next(at for at, line in enumerate(lines) if line.split()[:2] == ["target", "clients"])
    assert "is like the capture" in to_markdown(run)
    assert "|SELECT a FROM t WHERE b" in to_markdown(run)
    wide = to_markdown(sample(targets=("pg18", "a-target-with-a-long-name")))
    assert max(map(len, wide.splitlines())) <= 80
    row = next(csv.DictReader(io.StringIO(to_csv(run))))
    assert (row["largest_share_difference"], row["disagreements"], row["late_p99_ms"]) == ("0", "0", "0.9")
    assert '"largest_difference": 0.0' in to_json(digest(run), Extras())


def test_differences_and_disagreements_are_named_in_every_language() -> None:
    many = AGREED | {"new_errors": 3, "different_rows": 1}
    run = sample(UNLIKE, ("pg18",), disagreements=many, not_started=7, sessions_lost=1, copies_without_data=2)
    text = "\n".join(load_lines(digest(run)))
    assert "The load is not like the capture: the share of UPDATE t SET a = $1 differs by 20 points" in text
    assert "Disagreements with the capture: 4 of 5 statements (new errors 3, other numbers of rows 1)" in text
    assert "Statements not started: 7 of 5; connections lost: 1" in text
    assert "COPY FROM STDIN without rows, because a log does not have them: 2" in text
    of = digest(sample(UNLIKE, ("pg18",), disagreements=AGREED | {"new_errors": 3}))
    assert own_loads(of)
    for language in Language:
        with use_language(language):
            assert ("capture" in "\n".join(load_lines(of))) is (language is Language.ENGLISH)


@pytest.mark.parametrize(
    ("states", "copies", "causes"),
    [
        ({}, 0, ["replay-other-state"]),
        ({"42P01": 4}, 0, ["replay-other-state"]),
        ({"23503": 4, "23505": 2, "40001": 1}, 0, ["replay-other-keys"]),
        ({}, 3, ["replay-lacks-rows"]),
        ({"23503": 4}, 3, ["replay-lacks-rows", "replay-other-keys"]),
    ],
)
def test_the_causes_of_disagreements_are_named(states: dict[str, int], copies: int, causes: list[str]) -> None:
    errors = [ErrorCount(sqlstate=state, message="no", count=count) for state, count in states.items()]

    def change(_: TrialRecord) -> dict[str, Any]:
        found = replay_fields(LIKE, disagreements=AGREED | {"new_errors": 6}, done=100)
        return {
            "likeness": found["likeness"].model_copy(update={"copies_left_out": copies}),
            "summary": found["summary"] | {"errors": errors},
        }

    run = revise_trials(own(), change)
    found = findings(run)
    assert [each.id for each in found] == ["unlike-capture-results"] * len(causes)
    assert [each.parameters["cause_id"] for each in found] == causes
    # a restore does not bring what a log never had
    assert [each.advice.startswith("restore the database") for each in found] == [
        cause != "replay-lacks-rows" for cause in causes
    ]
    assert {name: found[0].evidence[0].figures.get(f"errors_{name}") for name in states} == states


def findings(run: FakeRun) -> list[Finding]:
    return [each for each in audit(run) if each.rule == "unlike-capture"]


def test_the_audit_names_trials_that_are_unlike_their_capture() -> None:
    late: dict[str, Any] = {"lateness_ns": Latency(p99=11_000_000), "within_1ms": 0.9, "done": 100, "statements": 100}

    # the server was busy: most late statements waited for an answer
    waiting = {**late, "delayed_by_answer": 9}
    disagreeing = {"disagreements": AGREED | {"missing_errors": 6}, "done": 100}
    changes = {2: (UNLIKE, {}), 3: (LIKE, late), 4: (LIKE, waiting), 5: (LIKE, disagreeing)}

    def change(trial: TrialRecord) -> dict[str, Any]:
        end, figures = changes.get(trial.number, (LIKE, {}))
        return replay_fields(end, **figures)

    found = {each.id: each for each in findings(revise_trials(own(), change))}
    assert {name: each.trials for name, each in found.items()} == {
        "unlike-capture-shares": [2],
        "unlike-capture-late": [3],
        "unlike-capture-results": [5],
    }
    assert found["unlike-capture-results"].evidence[0].figures == {"missing_errors": 6}
