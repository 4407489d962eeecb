"""Runs that earlier versions wrote, one of each format, stay readable permanently."""

from pathlib import Path

import pytest

from pgdyno.records import NetworkPathRecord, Outcome, TrialRecord
from pgdyno.records.measured import GeneratorHost
from pgdyno.report.export import to_csv
from pgdyno.store import load_run
from pgdyno.targets.cluster.snapshots.cluster_copy import CopyRecord
from tests.present import present
from tests.unit.report_sample import render_html

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("run-format-*"))


def test_there_is_one_of_every_format_and_names_of_earlier_versions_are_read() -> None:
    assert [path.name for path in GOLDEN] == ["run-format-1"]
    of_network = {"round_trips": 50, "least_us": 300, "median_us": 350}
    trial = load_run(GOLDEN[0]).trials[0].model_dump(mode="json") | {"way": of_network}
    del trial["network_path"]
    assert TrialRecord.model_validate(trial).network_path == NetworkPathRecord.model_validate(of_network)
    host = dict.fromkeys(("name", "host", "cpu_model", "pgdyno", "pgdrive"), "x") | {"cores": 2, "clients": 4}
    clocks = dict.fromkeys(("clock_ahead_us", "clock_round_trip_us", "clock_ahead_after_us"), 1)
    assert GeneratorHost.model_validate(host | clocks | {"heard_late_us": 7}).report_delay_us == 7
    assert CopyRecord.model_validate({"mark": "pgbench scale 1", "data_bytes": 1, "way": "zfs"}).method == "zfs"


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
