"""Cloud metrics of a rented server: stored after the trial, aligned with its seconds, with gaps left as gaps."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdyno.records import CloudGap, CloudRecord, CloudReport, CloudSource, Manifest, NetworkPathRecord
from pgdyno.report.costs import rent_table
from pgdyno.report.full_report import one_trial, whole_report
from pgdyno.store import RunData, RunFolder, load_run
from pgdyno.store.cloud_metrics import stored_cloud, write_cloud
from pgdyno.store.trial_tables import CloudEventRow, CloudSeriesRow
from tests.unit.events_sample import sample_events
from tests.unit.store_sample import SETTINGS, read_cloud, sample_manifest, sample_record

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
