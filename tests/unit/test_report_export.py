"""CSV, JSON, Markdown; their golden texts, and that of the terminal, are in tests/golden."""

import csv
import io
import json
import os
import re
from pathlib import Path

import pytest

from pgdyno.analyse.history import histories
from pgdyno.analyse.intervals import Estimate
from pgdyno.analyse.pairs import Metric
from pgdyno.records import ErrorCount, Point
from pgdyno.report import numbers
from pgdyno.report.analysis import analyse_run, analysis_lines
from pgdyno.report.export import CSV_HEADER, markdown_of, to_csv, to_json
from pgdyno.report.report_content import NO_EXTRAS, Extras, digest
from pgdyno.report.report_tables import trial_table
from pgdyno.report.several_runs import arms_of, comparisons_of
from pgdyno.report.terminal.run_report import all_lines
from pgdyno.report.terminal.summary_file import Layout
from tests.present import present
from tests.unit.report_sample import SampleRun, add_failure, add_trial, manifest, render_html, to_markdown

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"


def known() -> SampleRun:
    """A run whose figures are all given in this file."""
    run = SampleRun(manifest(("pg18", "pg17"), trials_planned=14))
    for repeat, share in ((1, 0.99), (2, 1.0), (3, 1.01)):
        for target, tps in (("pg18", {1: 9000.0, 4: 30_000.0}), ("pg17", {1: 8000.0, 4: 27_000.0})):
            for clients, rate in tps.items():
                add_trial(run, target, clients, rate * share, 1e6 * clients / rate, repeat=repeat, seconds=5, noise=0)
    serial = ErrorCount(sqlstate="40001", message="could not serialize access", count=12)
    add_trial(run, "pg18", 16, 20_000.0, 800, seconds=5, noise=0, failed=12, retries=4, errors=[serial])
    add_failure(run, "pg17", 16, message="=too many clients already")
    return run


def check_golden(name: str, text: str) -> None:
    """Compares with the golden text; PGDYNO_WRITE_GOLDEN=1 writes it instead, and fails so that it is looked at."""
    path = GOLDEN / name
    if os.environ.get("PGDYNO_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
        pytest.fail(f"{path} was written; look at it, then run again")
    assert text == path.read_text(encoding="utf-8")


def test_golden_csv() -> None:
    check_golden("report-known.csv", to_csv(known()))


def test_golden_markdown() -> None:
    check_golden("report-known-markdown.txt", to_markdown(known()))


@pytest.mark.parametrize("width", [80, 120])
def test_golden_terminal(width: int) -> None:
    of = digest(known())
    shown = all_lines(of, Layout(width), Extras(comparisons=comparisons_of(of), arms=arms_of(of)))
    check_golden(f"report-known-{width}.txt", "".join(f"{line.plain}\n" for line in shown))


def test_the_csv_header_is_documented_in_its_order() -> None:
    text = (ROOT / "docs" / "reference" / "csv.md").read_text(encoding="utf-8")
    assert tuple(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == CSV_HEADER


def test_csv_rows_are_the_trials() -> None:
    run = known()
    rows = list(csv.DictReader(io.StringIO(to_csv(run))))
    assert [int(row["trial"]) for row in rows] == [trial.number for trial in run.trials]
    first, last = rows[0], rows[-1]
    assert (first["target"], first["clients"], first["scale"], first["workers"]) == ("pg18", "1", "10", "2")
    assert float(first["tps"]) == 9000 * 0.99
    latency = run.trials[0].summary.latency_ns if run.trials[0].summary else None
    assert latency is not None
    assert float(first["p99_ms"]) == pytest.approx(present(latency.p99) / 1e6)
    assert float(first["p9999_ms"]) == pytest.approx(present(latency.p9999) / 1e6)
    assert (last["outcome"], last["tps"], last["p99_ms"]) == ("failed", "", "")
    # a spreadsheet would run what begins with an equals sign
    assert last["failure"] == "'=too many clients already"


def test_the_scale_of_tpch_is_its_scale_factor() -> None:
    run = SampleRun(manifest())
    add_trial(run, "pg18", 1, 1.0, 1e6)
    run.trials[0] = run.trials[0].model_copy(update={"point": run.trials[0].point.model_copy(update={"scale": 50})})
    plan = {**run.manifest.plan, "workload": {"name": "tpch", "scale": 50, "scale_factor": 0.5}}
    run.manifest = run.manifest.model_copy(update={"plan": plan})
    (row,) = csv.DictReader(io.StringIO(to_csv(run)))
    assert row["scale"] == "0.5"


def test_no_form_says_that_an_import_without_clients_had_none() -> None:
    run = SampleRun(manifest(("a", "b")))
    for target in ("a", "b"):
        for rate in (None, 50.0):
            add_trial(run, target, 0, 100.0, 900, seconds=2, point=Point(clients=0, rate=rate))
    assert {row["clients"] for row in csv.DictReader(io.StringIO(to_csv(run)))} == {""}
    of = digest(run)
    assert {row[2] for row in trial_table(of).rows} == {numbers.NOTHING}
    (compared,) = comparisons_of(of)
    assert [str(point.label) for point in compared.points] == [
        "closed loop, clients unknown",
        "rate 50, clients unknown",
    ]
    shown = [to_markdown(run), markdown_of(of, Extras(comparisons=[compared], arms=arms_of(of)))]
    shown += [render_html(run, "here", Extras(comparisons=[compared])), *analysis_lines(analyse_run(run))]
    shown += [history.label for history in histories({"x": run, "y": run}, Metric.TPS)]
    assert not re.search(r"\b0 clients", " ".join(shown))


def test_json_holds_points_curves_and_trials() -> None:
    document = json.loads(to_json(digest(known()), NO_EXTRAS))
    assert document["format"] == 1
    assert document["manifest"]["workload"] == "select-only"
    assert len(document["trials"]) == 14
    by_point = {(point["target"], point["clients"]): point for point in document["points"]}
    assert by_point["pg18", 4]["tps"]["mean"] == pytest.approx(30_000)
    assert by_point["pg18", 4]["tps"]["n"] == 3
    assert by_point["pg18", 16]["errors"] == [
        {"sqlstate": "40001", "message": "could not serialize access", "count": 12, "refused": False}
    ]
    assert by_point["pg17", 16]["tps"] is None
    assert by_point["pg17", 16]["latency_ns"] is None
    assert [(curve["target"], curve["peak_clients"]) for curve in document["curves"]] == [("pg18", 4), ("pg17", 4)]


def test_markdown_fits_80_columns_and_survives_names() -> None:
    tables = re.findall(r"(?:^\|.*\n)+", to_markdown(known()), re.MULTILINE)
    assert len(tables) == 2
    for table in tables:
        (width,) = {len(line) for line in table.splitlines()}
        assert width <= 80
    run = SampleRun(manifest(("a|b<i>", "c")))
    for target in ("a|b<i>", "c"):
        add_trial(run, target, 1, 100, 900, seconds=2)
    text = to_markdown(run)
    assert "a\\|b\\<i\\>" in text
    # without a dash in each cell of this line, Markdown has no table; one trial has no interval
    assert re.search(r"^\|( ?-+:? ?\|)+$", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("mean", "half", "text"),
    [
        (71_287, 1234, "71,300"),
        (71_287, 48, "71,290"),
        (71_287, None, "71,300"),
        (0.04567, None, "0.0457"),
        (0, 1, "0"),
    ],
)
def test_a_mean_has_as_many_digits_as_its_interval_lets_stand(mean: float, half: float | None, text: str) -> None:
    assert numbers.estimate(Estimate(mean, half, 3)) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(71_287, "71.3k"), (999.6, "1.00k"), (999.4, "999"), (1_234_567, "1.23M"), (7.123, "7.12"), (0, "0")],
)
def test_short_numbers(number: float, text: str) -> None:
    assert numbers.short(number) == text
