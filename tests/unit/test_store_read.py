"""Tables read back, by method and by SQL."""

from dataclasses import replace
from pathlib import Path

import pytest

from pgdyno.errors import StoreError, UsageError
from pgdyno.records import Point
from pgdyno.store import RunFolder, load_run, query
from pgdyno.store.duckdb_session import quote_text
from pgdyno.store.trial_tables import TABLES, TOTAL, columns
from tests.unit.events_sample import Event, SampleError, sample_events
from tests.unit.store_sample import add_trial, ingested, sample_manifest

STREAMS: list[list[Event]] = [
    sample_events(4, 3, 500, 900, scripts=2, seed=1, errors=[SampleError(1, count=3), SampleError(2, sqlstate=None)]),
    sample_events(8, 2, 800, 900, seed=2, warmup_s=1),
]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    # names that mean something to SQL and to patterns
    folder = RunFolder.create(tmp_path / "it's [a] *run?", sample_manifest())
    for number, events in enumerate(STREAMS, start=1):
        add_trial(folder, number, events)
    return folder


def test_every_row_comes_back_as_it_was(folder: RunFolder) -> None:
    data = load_run(folder.path)
    assert data.manifest == folder.manifest
    assert [record.number for record in data.trials] == [1, 2]
    # read on the clock of timelines: the second trial has a second of warm-up
    timed = [
        [replace(row, from_us=row.from_us - us, to_us=row.to_us - us) for row in ingested(number, events).intervals]
        for number, (events, us) in enumerate(zip(STREAMS, (0, 1_000_000), strict=True), start=1)
    ]
    assert list(data.seconds(2).from_us) == [-1_000_000, 0, 1_000_000, 2_000_000]
    for number, events in enumerate(STREAMS, start=1):
        rows = ingested(number, events)
        assert data.intervals(number) == timed[number - 1]
        assert data.statements(number) == rows.statements
        assert data.events(number) == rows.events
        by_place = sorted(rows.histograms, key=lambda row: (row.second, row.script))
        assert data.histograms(number) == by_place
        assert data.histograms(number, totals=True) == [row for row in by_place if row.second == TOTAL]
        assert data.histograms(number, totals=False) == [row for row in by_place if row.second != TOTAL]
        assert data.histogram(number) == {row.script: row.histogram for row in by_place if row.second == TOTAL}
    assert data.intervals() == timed[0] + timed[1]
    assert [row.name for row in data.settings(1)] == ["fsync", "shared_buffers"]
    assert data.settings(1)[0].unit is None


def test_a_trial_that_is_not_there_and_a_damaged_table_are_named(folder: RunFolder) -> None:
    with pytest.raises(StoreError, match="has no trial 9"):
        load_run(folder.path).intervals(9)
    path = folder.trial_paths()[0] / "intervals.parquet"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(StoreError, match="cannot read") as caught:
        load_run(folder).intervals(1)
    assert str(path) in caught.value.message
    assert load_run(folder).intervals(2)


def test_a_run_without_trials_reads_as_empty(tmp_path: Path) -> None:
    data = load_run(RunFolder.create(tmp_path, sample_manifest()).path)
    assert (data.trials, data.intervals(), data.events()) == ((), [], [])
    for name, row in TABLES.items():
        result = data.query(f"SELECT * FROM {name}")
        assert (result.columns, result.rows) == (["run", *columns(row)], [])
    assert data.query("SELECT count(*) FROM trials").rows == [(0,)]


def test_sql_over_several_runs(folder: RunFolder, tmp_path: Path) -> None:
    other = RunFolder.create(tmp_path / "other", sample_manifest())
    add_trial(other, 1, STREAMS[1], target="pg17")
    empty = RunFolder.create(tmp_path / "other", sample_manifest())
    result = query(
        "SELECT run, trial, target, trials.clients, sum(i.succeeded) FROM intervals i JOIN trials USING (run, trial) "
        "WHERE phase <> 'warm-up' GROUP BY ALL ORDER BY target DESC, trial",
        [folder, other.path, empty],
    )
    first, second = (stream[-1]["succeeded"] for stream in STREAMS)
    assert result.rows == [
        (folder.name, 1, "pg18", 4, first), (folder.name, 2, "pg18", 8, second), (other.name, 1, "pg17", 8, second),
    ]  # fmt: skip
    for sql in ("SELEC 1", "SELECT * FROM nowhere", "", "-- nothing"):
        with pytest.raises(UsageError, match="cannot run the query"):
            query(sql, [folder])


def test_sql_over_swept_parameters(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, sample_manifest())
    point = Point(clients=4, rate=250.5, settings={"work_mem": "4MB", "jit": "off"}, variables={"range": "7"})
    add_trial(run, 1, STREAMS[0], point=point)
    add_trial(run, 2, STREAMS[1])
    sql = "SELECT rate, settings['work_mem'], settings['nosuch'], variables['range'] FROM trials ORDER BY trial"
    assert load_run(run).query(sql).rows == [(250.5, "4MB", None, "7"), (None, None, None, None)]


def test_columns_have_their_types_and_a_later_version_may_have_more(folder: RunFolder) -> None:
    described = load_run(folder).query("SELECT column_name, column_type FROM (DESCRIBE histograms)")
    assert dict(described.rows) == {"run": "VARCHAR", **columns(TABLES["histograms"])}
    path = folder.trial_paths()[1] / "settings.parquet"
    later = "SELECT 2 AS trial, 'a' AS name, 'b' AS setting, NULL AS unit, NULL AS source, 5 AS more"
    load_run(folder).query(f"COPY ({later}) TO {quote_text(str(path))} (FORMAT parquet)")
    assert [row.name for row in load_run(folder).settings()] == ["fsync", "shared_buffers", "a"]
