"""Reports of runs whose points differ in more than clients."""

import csv
import io
import json
from pathlib import Path

import pytest

from pgdyno.records import Point
from pgdyno.report.export import to_csv, to_json
from pgdyno.report.report_content import NO_EXTRAS, digest
from pgdyno.report.terminal.run_report import all_lines
from pgdyno.report.terminal.summary_file import Layout
from tests.unit.report_sample import SampleRun, add_failure, render_html, swept, to_markdown

POINTS = [
    Point(clients=clients, scale=10, rate=rate, settings={"work_mem": memory}, variables={"range": "7"})
    for memory in ("4MB", "1GB")
    for rate in (None, 250.5)
    for clients in (1, 8)
]


@pytest.fixture
def run() -> SampleRun:
    return swept(POINTS)


def test_the_terminal_names_every_parameter_that_varies(run: SampleRun) -> None:
    text = "\n".join(line.plain for line in all_lines(digest(run), Layout(120), NO_EXTRAS))
    header = next(line for line in text.splitlines() if "clients" in line and "tps" in line)
    assert header.split()[:3] == ["rate", "work_mem", "clients"]
    assert "250.5" in text
    assert "range 7" in text
    assert "rate 250.5, work_mem 1GB" in text


def test_the_page_names_series_and_parameters(run: SampleRun) -> None:
    add_failure(run, "pg18", 1)
    page = render_html(run, "/runs/x")
    assert "rate 250.5, work_mem 1GB" in page
    assert ">work_mem</th>" in page
    assert "settings.work_mem" not in page.partition("<pre")[0]


def test_csv_has_them_in_columns(run: SampleRun) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(run))))
    assert [(row["rate"], row["settings"], row["variables"]) for row in rows[1:3]] == [
        ("", "work_mem=4MB", "range=7"),
        ("250.5", "work_mem=4MB", "range=7"),
    ]


def test_json_has_them_with_every_point(run: SampleRun) -> None:
    points = json.loads(to_json(digest(run), NO_EXTRAS))["points"]
    assert {(point["rate"], point["settings"]["work_mem"]) for point in points} == {
        (None, "4MB"), (250.5, "4MB"), (None, "1GB"), (250.5, "1GB"),
    }  # fmt: skip
    assert points[0]["variables"] == {"range": "7"}


def test_markdown_has_a_column_each(run: SampleRun) -> None:
    header = next(line for line in to_markdown(run).splitlines() if line.startswith("|"))
    assert [cell.strip() for cell in header.split("|")[1:4]] == ["rate", "work\\_mem", "clients"]


def test_one_number_of_clients_and_several_settings_are_a_picture_too(tmp_path: Path) -> None:
    points = [Point(clients=4, settings={"jit": jit}) for jit in ("on", "off")]
    page = render_html(swept(points), str(tmp_path))
    assert "jit on" in page
    assert "<svg" in page


def test_workers_that_follow_the_clients_stand_in_the_table_and_split_no_curve() -> None:
    points = [Point(clients=clients, workers=clients // 2) for clients in (2, 4, 8)]
    of = digest(swept(points, {"clients": [2, 4, 8], "workers": ["clients / 2"]}))
    assert (len(of.curves), of.parameters) == (1, ("workers",))
    lines = [line.plain for line in all_lines(of, Layout(120), NO_EXTRAS)]
    assert any(line.split()[:2] == ["4", "8"] for line in lines)
