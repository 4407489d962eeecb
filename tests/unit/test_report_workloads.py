"""sysbench's sweep and TPC-C's orders: which fields of a trial's `end` event become tables."""

import csv
import dataclasses
import io
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pgdyno.cli import app
from pgdyno.commands.show import show
from pgdyno.errors import UsageError
from pgdyno.records import ScriptSummary, Summary
from pgdyno.report.export import markdown_of, to_csv
from pgdyno.report.numbers import NOTHING
from pgdyno.report.report_content import NO_EXTRAS, digest
from pgdyno.report.report_tables import script_table
from pgdyno.report.sentences import conditions
from pgdyno.report.terminal.block_lines import table_lines
from pgdyno.report.terminal.run_report import all_lines
from pgdyno.report.terminal.summary_file import Layout
from pgdyno.run.run_trial import statement_counts, tpcc_figures
from pgdyno.workloads.lua.figures import SWEEP_HEADINGS, sweep_table
from pgdyno.workloads.tpcc.figures import tpcc_table
from tests.present import present
from tests.unit.report_sample import SampleRun, render_html, sweep

STATEMENTS = {"reads": 1400, "writes": 400, "others": 200, "queries": 2000, "ignored_errors": 3, "reconnects": 1}
TYPES = [
    {"name": "New-Order", "count": 45, "percent": 45.0, "asked_percent": 43.5, "p90_ns": 12_000_000, "limit_s": 5},
    {"name": "Stock-Level", "count": 4, "percent": 4.0, "asked_percent": 4.4, "p90_ns": 21_000_000_000, "limit_s": 20},
    {"name": "Delivery", "count": 0, "percent": 0.0, "asked_percent": 4.4, "p90_ns": None, "limit_s": 5},
]
TPCC = {"nopm": 12345.6, "tpm": 27000.0, "server": {"nopm": 12400.0, "tpm": 28000.0}, "types": TYPES}


def with_figures(run: SampleRun, **figures: object) -> SampleRun:
    """Returns the run with these fields in the summary of every trial."""
    trials = []
    for trial in run.trials:
        assert isinstance(trial.summary, Summary)
        trials.append(trial.model_copy(update={"summary": trial.summary.model_copy(update=figures)}))
    return dataclasses.replace(run, trials=trials)


def test_other_runs_have_neither() -> None:
    of = digest(sweep(clients=(1, 8)))
    assert sweep_table(of) is None
    assert tpcc_table(of) is None
    assert statement_counts({}) is None
    assert statement_counts({"statements": STATEMENTS, "tpcc": TPCC}) is None
    assert tpcc_figures({}) is None


def test_a_mixed_load_has_figures_by_script_in_every_output() -> None:
    latency = present(present(sweep(clients=(8,), repeats=1).trials[0].summary).latency_ns)
    slow = latency.model_copy(update={"p50": 7_000_000, "p99": 70_000_000})
    scripts = [
        ScriptSummary(id=0, name="order.sql", weight=1, succeeded=500, failed=2, skipped=0, latency_ns=slow),
        ScriptSummary(id=1, name="read.sql", weight=9, succeeded=4500, failed=0, skipped=0, latency_ns=latency),
    ]
    run = with_figures(sweep(clients=(8,), repeats=1), scripts=scripts, measured_s=10.0)
    table = present(script_table(digest(run)))
    # a single point needs no name
    assert [(row[0], row[1], row[3], row[5], row[6]) for row in table.rows] == [
        ("order.sql", "50.0", "7.00", "70.0", "2"),
        ("read.sql", "450", f"{present(latency.p50) / 1e6:.3f}", f"{present(latency.p99) / 1e6:.3f}", "0"),
    ]
    assert script_table(digest(sweep(clients=(8,)))) is None
    row = next(csv.DictReader(io.StringIO(to_csv(run))))
    assert json.loads(row["scripts"])[0] == {
        "script": "order.sql", "tps": 50.0, "p50_ms": 7.0, "p99_ms": 70.0, "failed": 2
    }  # fmt: skip
    of = digest(run)
    lines = [line.plain for line in all_lines(of, Layout(80), NO_EXTRAS)]
    for text in (markdown_of(of, NO_EXTRAS), "\n".join(lines), render_html(run, "runs/x")):
        assert "order.sql" in text
        assert "70.0" in text


def test_figures_of_many_scripts_are_a_table_at_80_columns() -> None:
    latency = present(present(sweep(clients=(8,), repeats=1).trials[0].summary).latency_ns)
    scripts = [
        ScriptSummary(
            id=number, name=f"{number:02}-select-accounts_project.sql", weight=1, succeeded=500, failed=2, skipped=0,
            latency_ns=latency,
        )
        for number in range(29)
    ]  # fmt: skip
    run = with_figures(sweep(clients=(8,), repeats=1), scripts=scripts, measured_s=10.0)
    said = "\n".join(line.plain for line in all_lines(digest(run), Layout(80), NO_EXTRAS))
    assert re.search(r"\nscript +tps .*\n(?: .*\n)?00-select-accounts_project.sql +50.0 ", said)
    assert "28-select-accounts_project.sql" not in said
    assert "and 5 more in the HTML report" in said


def test_errors_that_a_script_caught_are_errors_of_the_report() -> None:
    counts = statement_counts({"statements": STATEMENTS | {"ignored_errors": 53}})
    (point,) = digest(with_figures(sweep(clients=(8,), repeats=1), statements=counts, retries=3)).points
    # those that began an event again are retries
    assert (point.losses.caught, point.losses.errors) == (50, 50)
    assert "errors: 50 caught by the script" in [str(warning) for warning in point.warnings]


def test_a_sweep_has_sysbenchs_columns_and_a_row_a_trial() -> None:
    run = with_figures(sweep(clients=(8, 1)), statements=statement_counts({"statements": STATEMENTS}))
    table = sweep_table(digest(run))
    assert table is not None
    assert table.headings == SWEEP_HEADINGS
    assert [row[0] for row in table.rows] == sorted((str(trial.point.clients) for trial in run.trials), key=int)
    trial = next(trial for trial in run.trials if trial.point.clients == 1)
    assert trial.summary is not None
    assert trial.summary.measured_s
    assert trial.summary.latency_ns is not None
    first = dict(zip(table.headings, table.rows[0], strict=True))
    assert (first["reads"], first["writes"], first["others"]) == ("1400", "400", "200")
    assert first["qps"] == f"{2000 / trial.summary.measured_s:.2f}"
    assert first["errs"] == str(3 + present(trial.summary.failed))
    assert first["p95"] == f"{(trial.summary.latency_ns.p95 or 0) / 1e6:.2f}"
    lines = [line.plain for line in table_lines(table, Layout())[1:]]
    assert lines[0].split() == list(SWEEP_HEADINGS)
    assert len({len(line) for line in lines}) == 1


@pytest.mark.parametrize(
    ("tables", "said"), [(2, "select-only, 2 tables of 1,000 rows, "), (1, "select-only, 1 table of 1,000 rows, ")]
)
def test_the_size_of_sysbenchs_tables_is_no_scale(tables: int, said: str) -> None:
    run = sweep(clients=(8, 1))
    run.manifest.plan["workload"] = {"scripts": ["oltp-read-write"], "dataset": "sbtest", "tables": tables}
    run.trials = [
        trial.model_copy(update={"point": trial.point.model_copy(update={"scale": 1000})}) for trial in run.trials
    ]
    assert conditions(digest(run)).startswith(said)
    assert "scale" not in conditions(digest(run))


@pytest.mark.parametrize("workload", [{"name": "tpcc"}, {"name": "oltp-read-write"}, {"lua": "mine.lua"}])
def test_workloads_that_send_statements_in_their_own_way_have_no_protocol(workload: dict[str, str]) -> None:
    run = sweep(clients=(8, 1))
    assert "prepared protocol" in conditions(digest(run))
    run.manifest.plan["workload"] = {"scripts": list(workload.values()), "dataset": "none", **workload}
    assert "protocol" not in conditions(digest(run))


def test_several_targets_are_named_in_a_sweep() -> None:
    run = with_figures(sweep(("a", "b"), clients=(1,)), statements=statement_counts({"statements": STATEMENTS}))
    table = sweep_table(digest(run))
    assert table is not None
    assert table.headings == ("series", *SWEEP_HEADINGS)
    assert {row[0] for row in table.rows} == {"a", "b"}


@pytest.mark.parametrize("width", [40, 80, 200, None])
def test_orders_a_minute_and_limits_are_in_the_terminal(width: int | None) -> None:
    run = with_figures(sweep(clients=(1, 8)), tpcc=tpcc_figures({"tpcc": TPCC}))
    shown = [line.plain for line in all_lines(digest(run), Layout(width), NO_EXTRAS)]
    if width is not None:
        assert max(len(line) for line in shown) <= width
    text = " ".join(" ".join(shown).split())
    for figure in ("NOPM, server", "12,400", "12,346", "28,000", "27,000", "Stock-Level (≤ 20 s)", "21,000 ABOVE"):
        assert figure in text


def test_a_server_that_could_not_be_asked_has_a_dash() -> None:
    table = tpcc_table(
        digest(
            with_figures(
                sweep(clients=(1,)), tpcc=tpcc_figures({"tpcc": {**TPCC, "server": {"message": "permission denied"}}})
            )
        )
    )
    assert table is not None
    assert table.rows[0][3] == NOTHING
    assert table.rows[0][4] == "12,346"


def test_the_page_has_the_tables() -> None:
    orders = render_html(with_figures(sweep(clients=(1,)), tpcc=tpcc_figures({"tpcc": TPCC})), "run")
    assert ">TPC-C</h3>" in orders
    assert "21,000 ABOVE" in orders
    counts = statement_counts({"statements": STATEMENTS})
    page = render_html(with_figures(sweep(clients=(1,)), statements=counts), "run")
    assert "elaptime" in page
    assert "elaptime" not in render_html(sweep(clients=(1,)), "run")


def test_the_layout_is_an_option_of_show(monkeypatch: pytest.MonkeyPatch) -> None:
    run = with_figures(sweep(clients=(1,)), statements=statement_counts({"statements": STATEMENTS}))
    monkeypatch.setattr("pgdyno.store.find_run", lambda *_: None)
    monkeypatch.setattr("pgdyno.store.load_run", lambda _: run)
    shown = CliRunner().invoke(app, ["show", "--layout", "sysbench"])
    assert shown.exit_code == 0, shown.output
    assert shown.output.splitlines()[0].split() == list(SWEEP_HEADINGS)
    assert CliRunner().invoke(app, ["show", "--layout", "sideways"]).exit_code == 2


def test_a_layout_that_a_run_has_nothing_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    run = sweep(clients=(1,))
    monkeypatch.setattr("pgdyno.store.find_run", lambda *_: None)
    monkeypatch.setattr("pgdyno.store.load_run", lambda _: run)
    with pytest.raises(UsageError, match="no trial with sysbench's statement counts"):
        show("latest", Path(), layout="sysbench")
