"""sysbench's sweep, TPC-C's orders and figures by script: which fields of a trial's `end` event become tables."""

import csv
import dataclasses
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pgdyno.cli import app
from pgdyno.commands.show import show
from pgdyno.errors import UsageError
from pgdyno.records import ScriptSummary
from pgdyno.report.export import to_csv
from pgdyno.report.numbers import NOTHING
from pgdyno.report.report_content import digest
from pgdyno.report.report_tables import script_table
from pgdyno.report.sentences import conditions
from pgdyno.report.terminal.block_lines import table_lines
from pgdyno.report.terminal.summary_file import Layout
from pgdyno.run.run_trial import statement_counts, tpcc_figures
from pgdyno.workloads.lua.figures import SWEEP_HEADINGS, sweep_table
from pgdyno.workloads.tpcc.figures import tpcc_table
from tests.present import present
from tests.unit.report_sample import SampleRun, plain_lines, render_html, sweep, to_markdown

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


def test_other_runs_have_neither() -> None:
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


def test_figures_of_many_scripts_are_a_table_at_80_columns() -> None:
    run = of_scripts(*({"name": f"{number:02}-select-accounts_project.sql"} for number in range(29)))
    said = "\n".join(plain_lines(run))
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


def at_scale(scale: int) -> SampleRun:
    run = sweep(clients=(8, 1))
    points = [trial.point.model_copy(update={"scale": scale}) for trial in run.trials]
    run.trials = [trial.model_copy(update={"point": at}) for trial, at in zip(run.trials, points, strict=True)]
    return run


@pytest.mark.parametrize(
    ("workload", "scale", "said", "unsaid"),
    [
        ({}, 1, "scale 1, prepared protocol", "tables"),
        # the size of sysbench's tables is no scale
        ({"dataset": "sbtest", "tables": 2}, 1000, "select-only, 2 tables of 1,000 rows, ", "scale"),
        ({"dataset": "sbtest", "tables": 1}, 1000, "select-only, 1 table of 1,000 rows, ", "scale"),
        ({"scripts": ["q.sql"], "dataset": "none", "scale": 1}, 1, "prepared protocol", "scale"),
        # these send statements in a way of their own
        ({"dataset": "none", "name": "tpcc"}, 1, "", "protocol"),
        ({"dataset": "none", "name": "oltp-read-write"}, 1, "", "protocol"),
        ({"dataset": "none", "lua": "mine.lua"}, 1, "", "protocol"),
    ],
)
def test_conditions_have_only_what_the_workload_knows(
    workload: dict[str, object], scale: int, said: str, unsaid: str
) -> None:
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
    assert CliRunner().invoke(app, ["show", "--layout", "sideways"]).exit_code == 2
