"""Published figures next to measured ones, in a terminal."""

from pgdyno.records import Point
from pgdyno.report.report_content import digest
from pgdyno.report.terminal.published import MOST_ROWS, published_lines
from pgdyno.report.terminal.run_report import report_lines
from tests.unit.report_sample import SampleRun, add_trial, manifest


def run_of(data: str | None, point: Point) -> SampleRun:
    run = SampleRun(manifest())
    if data is not None:
        run.manifest = run.manifest.model_copy(
            update={"plan": {**run.manifest.plan, "published": {"data": data}, "workload": {"scale": point.scale}}}
        )
    for repeat in (1, 2):
        add_trial(run, "pg18", point.planned_clients, 30_000 + repeat, 900, repeat=repeat, point=point)
    return run


def test_each_published_target_has_a_row_of_its_lowest_and_highest() -> None:
    run = run_of("graviton-pgbench", Point(clients=64, workers=64, protocol="extended", scale=100))
    title, heading, graviton, x86 = published_lines(digest(run))
    assert title == (
        "published: “PostgreSQL on EC2: Graviton2 against x86-64, by pgbench” "
        "(gnosia93/postgres-terraform, PostgreSQL 11.5); transactions a second"
    )
    assert heading.split("  ")[0] == "point"
    assert graviton.split()[:4] == ["64", "clients", "graviton2", "30,002"]
    assert " to 15,500 " in graviton
    assert "x86-64" in x86
    shown = [line.plain for line in report_lines(digest(run), None)]
    assert graviton in shown


def test_points_that_nobody_published_are_said() -> None:
    run = run_of("graviton-pgbench", Point(clients=8, workers=1, protocol="extended", scale=10))
    (line,) = published_lines(digest(run))
    assert line.endswith("has no figure for these points: it has scale 100, clients 64")


def test_many_rows_are_cut() -> None:
    run = SampleRun(manifest())
    run.manifest = run.manifest.model_copy(
        update={"plan": {**run.manifest.plan, "published": {"data": "aurora-sysbench"}}}
    )
    for clients in (2, 4, 8, 16):
        add_trial(run, "pg18", clients, 30_000, 900, point=Point(clients=clients, workers=1, protocol="simple"))
    lines = published_lines(digest(run))
    assert len(lines) == 2 + MOST_ROWS + 1
    assert lines[-1] == f"and {4 * 8 - MOST_ROWS} more in the HTML report"


def test_without_published_figures_there_is_nothing() -> None:
    assert published_lines(digest(run_of(None, Point(clients=8, workers=1, protocol="simple")))) == []
