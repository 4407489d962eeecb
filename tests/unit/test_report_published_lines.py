"""Published figures next to measured ones, in a terminal."""

from pgdyno.records import Point
from pgdyno.report.report_content import NO_EXTRAS, digest
from pgdyno.report.sections.figures.comparison import published_blocks
from pgdyno.report.table import MOST_ROWS, Table
from pgdyno.report.terminal.run_report import all_lines
from pgdyno.report.terminal.summary_file import Layout
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
    assert any("graviton2" in line.plain for line in all_lines(digest(run), Layout(), NO_EXTRAS))


def test_points_that_nobody_published_are_said() -> None:
    run = run_of("graviton-pgbench", Point(clients=8, workers=1, protocol="extended", scale=10))
    (line,) = published_blocks(digest(run))
    assert str(line).endswith("has no figure for these points: it has scale 100, clients 64")


def test_many_rows_are_cut() -> None:
    run = SampleRun(manifest())
    run.manifest = run.manifest.model_copy(
        update={"plan": {**run.manifest.plan, "published": {"data": "aurora-sysbench"}}}
    )
    for clients in (2, 4, 8, 16):
        add_trial(run, "pg18", clients, 30_000, 900, point=Point(clients=clients, workers=1, protocol="simple"))
    table, more = published_blocks(digest(run))
    assert isinstance(table, Table)
    assert len(table.rows) == MOST_ROWS
    assert more == f"and {4 * 8 - MOST_ROWS} more in the HTML report"


def test_without_published_figures_there_is_nothing() -> None:
    assert published_blocks(digest(run_of(None, Point(clients=8, workers=1, protocol="simple")))) == []
