"""CSV, JSON, Markdown of runs in memory and on disk; golden texts, also of the terminal, are in tests/golden."""

import csv
import io
import json
import os
import re
from pathlib import Path

import pytest

from pgdyno.analyse.history import histories
from pgdyno.analyse.intervals import Estimate
from pgdyno.analyse.over_time.timeline import RunSource
from pgdyno.analyse.pairs import Metric
from pgdyno.analyse.summary import summarise
from pgdyno.records import ErrorCount, Point
from pgdyno.report import numbers
from pgdyno.report.analysis import analyse_run, analysis_lines
from pgdyno.report.export import CSV_HEADER, markdown_of, to_csv, to_json
from pgdyno.report.report_content import NO_EXTRAS, Extras, digest
from pgdyno.report.report_tables import trial_table
from pgdyno.report.several_runs import arms_of, comparisons_of
from pgdyno.store import RunFolder, load_run
from tests.present import present
from tests.unit.events_sample import SampleError, sample_events
from tests.unit.report_sample import (
    SampleRun,
    add_failure,
    add_trial,
    manifest,
    plain_lines,
    render_html,
    swept,
    to_markdown,
)
from tests.unit.store_sample import SETTINGS, sample_manifest, sample_record

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


def test_golden_texts_and_the_documented_header_of_csv() -> None:
    run = known()
    check_golden("report-known.csv", to_csv(run))
    check_golden("report-known-markdown.txt", to_markdown(run))
    of = digest(run)
    shown = Extras(comparisons=comparisons_of(of), arms=arms_of(of))
    check_golden("report-known-80.txt", "".join(f"{line}\n" for line in plain_lines(run, 80, shown)))
    # with more room, arms have their figures, failed trials a row, and points their mean, bars and each second
    wide = "\n".join(plain_lines(run, 120, shown))
    for part in (
        "\n4 clients   inconclusive  30,000  27,000      -10.0  -10.0 to -10.0      3  ",
        "\n14     pg17    16 clients, repeat 1  failed   run    53300     =too many clients already  raise ",
        "\ntarget  clients                 tps    ±  from zero             mean    p50    p95    p99    max  errors  ",
        "peak, knee  30,000  750  ██████████████████▌  0.152  0.136  0.310  0.410   1.16       0       3  █████\n",
        "\n30k ┤                                       ⢀⣀⡠●⠤⠤⢄⣀⣀⣀⡀",
    ):
        assert part in wide
    text = (ROOT / "docs" / "reference" / "csv.md").read_text(encoding="utf-8")
    assert tuple(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == CSV_HEADER


def rows_of(run: RunSource) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(to_csv(run))))


def test_no_form_says_that_an_import_without_clients_had_none() -> None:
    run = SampleRun(manifest(("a", "b")))
    for target in ("a", "b"):
        for rate in (None, 50.0):
            add_trial(run, target, 0, 100.0, seconds=2, point=Point(clients=0, rate=rate))
    assert {row["clients"] for row in rows_of(run)} == {""}
    of = digest(run)
    assert {row[2] for row in trial_table(of).rows} == {numbers.NOTHING}
    (compared,) = comparisons_of(of)
    labels = ["closed loop, clients unknown", "rate 50, clients unknown"]
    assert [str(point.label) for point in compared.points] == labels
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
    error = {"sqlstate": "40001", "message": "could not serialize access", "count": 12, "refused": False}
    assert by_point["pg18", 16]["errors"] == [error]
    assert by_point["pg17", 16]["tps"] is None
    assert by_point["pg17", 16]["latency_ns"] is None
    assert [(curve["target"], curve["peak_clients"]) for curve in document["curves"]] == [("pg18", 4), ("pg17", 4)]


def test_short_numbers_and_means_with_the_digits_that_their_interval_lets_stand() -> None:
    given = [(71_287, 1234), (71_287, 48), (71_287, None), (0.04567, None), (0, 1)]
    shown = [numbers.estimate(Estimate(mean, half, 3)) for mean, half in given]
    assert shown == ["71,300", "71,290", "71,300", "0.0457", "0"]
    # short ones
    short = (71_287, 999.6, 999.4, 1_234_567, 7.123, 0)
    assert [numbers.short(number) for number in short] == ["71.3k", "1.00k", "999", "1.23M", "7.12", "0"]


def test_every_form_names_the_parameters_that_vary_besides_clients() -> None:
    points = [
        Point(clients=clients, scale=10, rate=rate, settings={"work_mem": memory}, variables={"range": "7"})
        for memory in ("4MB", "1GB")
        for rate in (None, 250.5)
        for clients in (1, 8)
    ]
    run = swept(points)
    lines = plain_lines(run, 120)
    header = next(line for line in lines if "clients" in line and "tps" in line)
    assert header.split()[:3] == ["rate", "work_mem", "clients"]
    for text in ("250.5", "range 7", "rate 250.5, work_mem 1GB"):
        assert text in "\n".join(lines)
    header = next(line for line in to_markdown(run).splitlines() if line.startswith("|"))
    assert [cell.strip() for cell in header.split("|")[1:4]] == ["rate", "work\\_mem", "clients"]
    assert [(row["rate"], row["settings"], row["variables"]) for row in rows_of(run)[1:3]] == [
        ("", "work_mem=4MB", "range=7"),
        ("250.5", "work_mem=4MB", "range=7"),
    ]
    found = json.loads(to_json(digest(run), NO_EXTRAS))["points"]
    varied = {(point["rate"], point["settings"]["work_mem"]) for point in found}
    assert varied == {(None, "4MB"), (250.5, "4MB"), (None, "1GB"), (250.5, "1GB")}
    assert found[0]["variables"] == {"range": "7"}
    add_failure(run, "pg18", 1)
    page = render_html(run, "/runs/x")
    assert "rate 250.5, work_mem 1GB" in page
    assert ">work_mem</th>" in page
    assert "settings.work_mem" not in page.partition("<pre")[0]


def test_workers_that_follow_the_clients_split_no_curve_and_stand_in_the_table() -> None:
    points = [Point(clients=clients, workers=clients // 2) for clients in (2, 4, 8)]
    run = swept(points, {"clients": [2, 4, 8], "workers": ["clients / 2"]})
    assert (len(digest(run).curves), digest(run).parameters) == (1, ("workers",))
    assert any(line.split()[:2] == ["4", "8"] for line in plain_lines(run, 120))


def test_points_and_a_page_of_a_stored_run(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, sample_manifest(trials_planned=4))
    for number, (repeat, clients, tps) in enumerate(((1, 1, 400), (1, 4, 1200), (2, 1, 400), (2, 4, 1200)), start=1):
        errors = [SampleError(1, count=3)] if number == 4 else []
        events = sample_events(clients, 4, tps, 900, 2, seed=number, errors=errors, warmup_s=1)
        record = sample_record(number, events, repeat=repeat)
        folder.begin_trial(record.slug).commit(record, events=events, settings=SETTINGS)
    run = load_run(folder.path)
    first, second = summarise(run)
    assert (first.clients, second.clients) == (1, 4)
    succeeded = [present(present(trial.summary).succeeded) for trial in run.trials]
    # both scripts, both repeats, the measured part only
    assert present(second.histogram).count == succeeded[1] + succeeded[3]
    assert len(second.seconds) == 4
    assert second.losses.failed == 3
    page = render_html(run, "here")
    for text in ("pg18 reaches 1,2", "UPDATE pgbench_accounts", "warm-up, 1 s"):
        assert text in page
