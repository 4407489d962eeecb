"""Events and a provider's metrics become rows, which are read back by method and by SQL."""

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram

from pgdyno.errors import StoreError, UsageError
from pgdyno.records import CloudGap, CloudRecord, CloudReport, CloudSource, Manifest, NetworkPathRecord, Point
from pgdyno.report.costs import rent_table
from pgdyno.report.full_report import one_trial, whole_report
from pgdyno.store import RunData, RunFolder, load_run, query
from pgdyno.store.cloud_metrics import stored_cloud, write_cloud
from pgdyno.store.duckdb_session import quote_text
from pgdyno.store.parquet import write_tables
from pgdyno.store.trial_tables import TABLES, TOTAL, CloudEventRow, CloudSeriesRow, columns
from tests.unit.events_sample import Event, SampleError, sample_events
from tests.unit.store_sample import SETTINGS, add_trial, ingested, read_cloud, sample_manifest, sample_record

RUN_FOLDER = Path(__file__).parents[2] / "docs" / "reference" / "run-folder.md"


def test_a_cut_stream_gives_what_it_holds_in_the_documented_columns() -> None:
    events = sample_events(4, 3, 500, 900)
    for length in range(len(events)):
        tables = ingested(1, events[:length])
        assert len(tables.intervals) == sum(event["event"] == "interval" for event in events[:length])
        assert tables.statements == []
    documented = {}
    for name, cells in re.findall(r"^\| `(\w+)` \| (.*) \|$", RUN_FOLDER.read_text(), re.MULTILINE):
        # `name` stands before whatever describes it
        documented[name] = re.findall(r"`(\w+)`", cells)
    assert documented == {name: list(columns(row)) for name, row in TABLES.items()}


def test_sums_over_seconds_and_workers_are_those_of_the_end() -> None:
    events = sample_events(8, 5, 4000, 500, scripts=2, errors=[SampleError(1, count=30, script=1)], warmup_s=2)
    tables = ingested(7, events)
    for script, end in enumerate(events[-1]["scripts"]):
        rows = [row for row in tables.intervals if row.script == script and row.phase != "warm-up"]
        assert sum(row.succeeded for row in rows) == end["succeeded"]
        assert sum(row.failed for row in rows) == end["failed"]
        assert sum(row.latency_sum_ns or 0 for row in rows) == pytest.approx(end["latency_ns"]["sum"])
    assert {row.trial for row in tables.intervals} == {7}
    assert [row.second for row in tables.intervals if row.script == 0] == list(range(8))
    assert [row.phase for row in tables.intervals if row.script == 1] == ["warm-up"] * 2 + ["measure"] * 5 + ["drain"]
    # CPU time of all workers is added
    events = sample_events(4, 3, 2000, 500)
    worker = {"cpu_us": 250_000, "cpu_share": 0.25, "clients": 2, "wakeups": 7, "replies": {"mean": 2.0, "max": 3}}
    for count, interval in enumerate((event for event in events if event["event"] == "interval"), start=1):
        interval["workers"] = [worker] * count
    assert [row.worker_cpu_us for row in ingested(1, events).intervals] == [250_000 * count for count in (1, 2, 3, 4)]


def test_histograms_decode_to_what_was_counted() -> None:
    tables = ingested(1, sample_events(4, 3, 2000, 500, scripts=2))
    intervals = {(row.second, row.script): row.succeeded for row in tables.intervals}
    totals = {}
    for row in tables.histograms:
        decoded = HdrHistogram.decode(base64.b64encode(row.histogram))
        if row.second == TOTAL:
            totals[row.script] = decoded.get_total_count()
        else:
            assert decoded.get_total_count() == intervals[row.second, row.script]
    for script, count in totals.items():
        assert count == sum(done for (_, of), done in intervals.items() if of == script)
    assert set(totals) == {0, 1}


def test_a_second_knows_its_phase_and_may_have_no_success() -> None:
    events = sample_events(4, 3, 2000, 500, scripts=2)
    stalled = next(event for event in events if event["event"] == "interval" and event["seq"] == 1)
    stalled["scripts"] = []
    rows = [row for row in ingested(1, events).intervals if row.second == 1]
    assert [(row.script, row.succeeded, row.p99_ns, row.clients) for row in rows] == [(0, 0, None, 4), (1, 0, None, 4)]
    # failures only
    events = sample_events(4, 1, 2000, 500)
    script = events[2]["scripts"][0]
    script |= {"succeeded": 0, "failed": 9}
    del script["latency_ns"], script["histogram"]
    tables = ingested(1, events)
    assert (tables.intervals[0].failed, tables.intervals[0].latency_sum_ns) == (9, None)
    assert 0 not in [row.second for row in tables.histograms]
    event = {
        "event": "interval", "seq": 0, "from_us": 0, "to_us": 1_000_000, "phase": "warm-up", "phase_name": "rise",
        "clients": 1, "in_flight": 0, "workers": [], "scripts": [{"script": 0, "succeeded": 3}],
    }  # fmt: skip
    # engines of before there were phases do not speak of them
    older = {name: value for name, value in event.items() if name != "phase_name"}
    assert [row.phase_name for row in ingested(1, [event, older]).intervals] == ["rise", None]


def test_statements_have_text_and_figures() -> None:
    events = sample_events(4, 2, 500, 900, scripts=2)
    end = events[-1]["scripts"]
    end[1]["statements"].pop(1)
    rows = ingested(1, events).statements
    places = [(row.script, row.statement, row.line) for row in rows]
    assert places == [(0, 1, 2), (1, 4, 5), (1, 5, 6), (1, 6, 7), (1, 8, 9)]
    assert rows[0].text.startswith("SELECT abalance")
    assert (rows[0].executions, rows[0].latency_mean_ns) == (end[0]["succeeded"], end[0]["latency_ns"]["mean"])
    # one that was never reached
    assert (rows[2].executions, rows[2].p50_ns) == (0, None)
    # one that only the end names
    events = sample_events(4, 2, 500, 900)
    events[0]["scripts"][0]["statements"] = []
    named = {"id": 2, "text": "SELECT ?", "executions": 5, "failures": 0, "retries": 0, "latency_ns": None}
    events[-1]["scripts"][0]["statements"] = [named]
    (row,) = ingested(1, events).statements
    assert (row.statement, row.line, row.text, row.executions) == (2, 0, "SELECT ?", 5)


def test_errors_and_unknown_events_are_kept_in_order() -> None:
    events = sample_events(4, 2, 500, 900, errors=[SampleError(0, count=2)])
    unknown: Event = {"event": "eclipse", "t_us": 99, "client": 3, "script": {"of": "the moon"}, "message": 5, "x": [1]}
    rows = ingested(1, [*events[:2], unknown, *events[2:]]).events
    assert [row.kind for row in rows] == ["start", "connected", "eclipse", "error", "error", "end"]
    eclipse, error = rows[2], rows[3]
    assert (eclipse.t_us, eclipse.client, eclipse.script, eclipse.message) == (99, 3, None, "5")
    assert json.loads(eclipse.detail) == {"x": [1], "script": {"of": "the moon"}}
    assert (error.client, error.script, error.command, error.sqlstate) == (0, 0, 1, "40001")
    assert json.loads(error.detail)["consequence"] == "failed"
    assert "scripts" not in json.loads(rows[0].detail)


def test_odd_events_and_texts_and_events_that_lack_something(tmp_path: Path) -> None:
    # of an engine that never measured
    end = {"event": "end", "t_us": 5, "outcome": "failed", "exit_code": 1, "message": "no server", "cpu_us": None}
    (row,) = ingested(1, [end]).events
    assert (row.kind, row.message) == ("end", "no server")
    # a blob that is no base64 is kept as it came
    events = sample_events(4, 1, 500, 900)
    events[2]["scripts"][0]["histogram"] = "HIST*"
    assert ingested(1, events).histograms[0].histogram == b"HIST*"
    events = sample_events(4, 1, 500, 900, errors=[SampleError(0, message="half \ud800 a pair\0")])
    tables = ingested(1, events)
    write_tables(tmp_path, {"events": tables.events})
    assert [row.message for row in tables.events if row.kind == "error"] == ["half ? a pair\0"]
    # events that lack something are refused
    for event in (
        {"event": "start", "t_us": 1},
        {"event": "interval", "t_us": 1, "seq": 0, "scripts": 5},
        {"event": "error"},
        {"event": "end", "t_us": 1, "scripts": [{}]},
        {"event": "end", "t_us": 1, "scripts": [None]},
    ):
        with pytest.raises(StoreError, match=f"the engine's {event['event']} event"):
            ingested(1, [event])


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


def test_sql_over_several_runs_and_swept_parameters(folder: RunFolder, tmp_path: Path) -> None:
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


SECOND_US = 1_000_000
LENGTH_S = 240
WAY = NetworkPathRecord(
    round_trips=50, least_us=300, median_us=350, server_zone="eu-central-1a", instance="db.m7g.large"
)


def minutes(metric: str, values: dict[int, float], origin_us: int) -> Iterator[CloudSeriesRow]:
    """Yields a value per minute, by the second of the trial at which the minute ends."""
    for end_s, value in values.items():
        at_us = origin_us + end_s * SECOND_US
        yield CloudSeriesRow(1, at_us, at_us, 60 * SECOND_US, "cloudwatch", metric, "{}", value)


def load(origin_us: int) -> Iterator[CloudSeriesRow]:
    """Half a session on the processor and a quarter in WAL, but for the seconds from 10 to 20, which are missing."""
    for end_s in [*range(1, 11), *range(21, LENGTH_S + 1)]:
        at_us = origin_us + end_s * SECOND_US
        for labels, value in (
            ({}, 0.75),
            ({"wait_type": "CPU", "wait": ""}, 0.5),
            ({"wait_type": "IO", "wait": "WALSync"}, 0.25),
        ):
            metric = "sessions" if labels else "load"
            yield CloudSeriesRow(1, at_us, at_us, SECOND_US, "insights", metric, json.dumps(labels), value)


@pytest.fixture
def run(tmp_path: Path) -> RunData:
    events = sample_events(4, LENGTH_S, 500, 900)
    origin_us = next(each["origin_us"] for each in events if each["event"] == "connected")
    folder = RunFolder.create(tmp_path, sample_manifest())
    record = sample_record(1, events).model_copy(update={"network_path": WAY})
    trial = folder.begin_trial(record.slug).commit(record, events=events, settings=SETTINGS)
    assert stored_cloud(trial) is None
    told = CloudReport(source=CloudSource.METRICS, period_s=60, figures=6, gaps=[CloudGap(from_s=90, to_s=150)])
    # the minute from 90 to 150 never came
    cpu = {30: 0.1, 90: 0.5, 210: 0.9, 270: 0.2}
    series = [*minutes("cpu", cpu, origin_us), *minutes("reads", cpu, origin_us), *load(origin_us)]
    detail = '{"kind":"checkpoint","phase":"started","reason":"time"}'
    at_us = origin_us + 33 * SECOND_US
    checkpoint = CloudEventRow(1, at_us, "cloud_checkpoint", None, None, None, None, None, detail)
    write_cloud(trial, CloudRecord(instance="mine", shift_us=0, sources=[told]), series, [checkpoint], ["a line"])
    return load_run(folder.path)


def test_it_is_with_the_trial_and_in_sql(run: RunData) -> None:
    told = read_cloud(run, 1)
    assert told is not None
    assert told.sources[0].gaps == [CloudGap(from_s=90, to_s=150)]
    counted = run.query("SELECT source, count(*) FROM cloud_series GROUP BY 1 ORDER BY 1").rows
    assert counted == [("cloudwatch", 8), ("insights", 3 * (LENGTH_S - 10))]
    assert (run.folder.trials_path / run.trials[0].slug / "log" / "server.log").read_text() == "a line\n"
    # a step has the minute that it lies in, and a gap stays one
    made, _ = one_trial(run, 1, LENGTH_S)
    assert made.step == 1
    strips = {each.title.partition(":")[0]: each for each in made.cloud or ()}
    cpu = strips["Processors (provider's metrics, by the minute)"]
    assert cpu.lines["processors, %"] == [10] * 30 + [50] * 60 + [None] * 60 + [90] * 60 + [20] * 30
    assert cpu.n == "n = 3 minutes"
    sessions = strips["Active sessions (provider's samples)"]
    assert list(sessions.lines) == ["CPU", "WAL"]
    assert sessions.lines["WAL"][5:25] == [0.25] * 5 + [None] * 10 + [0.25] * 5
    assert (sessions.gaps, cpu.gaps) == ([[10, 20]], [[90, 150]])
    # no probe looked at the server's counters
    assert made.marks == [(33.0, "checkpoint (time)")]
    assert "Storage (provider's metrics, by the minute): " in whole_report([run]).html()


def test_hours_that_were_paid(run: RunData) -> None:
    rental = {"target": "pg18", "instance": "db.m7g.large", "zone": "eu-central-1a", "hourly": 0.2, "currency": "USD"}
    # two attempts, of half an hour and of one and a half
    records = [{**rental, "since": "2026-11-20T10:00:00Z", "until": f"2026-11-20T{end}:30:00Z"} for end in (10, 11)]
    text = json.dumps({**json.loads(run.manifest.model_dump_json()), "rented": records})
    table = rent_table(Manifest.model_validate_json(text), run.trials)
    succeeded = run.trials[0].summary.succeeded if run.trials[0].summary else 0
    assert table is not None
    ((*cells, million),) = table.rows
    assert cells == ["pg18", "db.m7g.large", "2h00m", "0.4000", f"{succeeded:,}"]
    assert million.startswith(f"{1e6 * 0.4 / (succeeded or 1):.3g}"[:4])
