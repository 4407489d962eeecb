"""Runs that earlier versions wrote, one of each format, stay readable permanently."""

from pathlib import Path

import pytest

from pgdyno.records import Outcome
from pgdyno.report.export import to_csv
from pgdyno.store import load_run
from tests.present import present
from tests.unit.report_sample import render_html

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("run-format-*"))


def test_there_is_one_of_every_format() -> None:
    assert [path.name for path in GOLDEN] == ["run-format-1"]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_it_is_read_and_reported(path: Path) -> None:
    run = load_run(path)
    assert run.manifest.outcome is Outcome.FINISHED
    assert [trial.point.clients for trial in run.trials] == [1, 2]
    for trial in run.trials:
        measured = [row for row in run.intervals(trial.number) if row.phase != "warm-up"]
        assert sum(row.succeeded for row in measured) == present(present(trial.summary).succeeded) > 0
        # it is from before there was a probe
        assert (run.series(trial.number), run.waits(trial.number)) == ([], [])
        assert [row.line for row in run.statements(trial.number)] == [5, 6, 7, 8, 9, 10, 11]
    assert run.query("SELECT count(*) FROM series").rows == [(0,)]
    assert len(to_csv(run).splitlines()) == 3
    assert "PostgreSQL 18.6 " in render_html(run, str(path))
