"""Events become rows."""

import base64
import json
import re
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram

from pgdyno.errors import StoreError
from pgdyno.store.parquet import write_tables
from pgdyno.store.trial_tables import TABLES, TOTAL, columns
from tests.unit.events_sample import Event, SampleError, sample_events
from tests.unit.store_sample import ingested

RUN_FOLDER = Path(__file__).parents[2] / "docs" / "reference" / "run-folder.md"


def test_the_documented_columns_are_the_columns() -> None:
    documented = {}
    for name, cells in re.findall(r"^\| `(\w+)` \| (.*) \|$", RUN_FOLDER.read_text(), re.MULTILINE):
        # `name` stands before whatever describes it
        documented[name] = re.findall(r"`(\w+)`", cells)
    assert documented == {name: list(columns(row)) for name, row in TABLES.items()}


def test_sums_over_seconds_are_the_totals_of_the_end() -> None:
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


def test_cpu_time_of_all_workers_is_added() -> None:
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


def test_a_second_in_which_nothing_succeeded() -> None:
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


def test_a_stream_that_was_cut_gives_what_it_holds() -> None:
    events = sample_events(4, 3, 500, 900)
    for length in range(len(events)):
        tables = ingested(1, events[:length])
        assert len(tables.intervals) == sum(event["event"] == "interval" for event in events[:length])
        assert tables.statements == []


def test_odd_events() -> None:
    # of an engine that never measured
    end = {"event": "end", "t_us": 5, "outcome": "failed", "exit_code": 1, "message": "no server", "cpu_us": None}
    (row,) = ingested(1, [end]).events
    assert (row.kind, row.message) == ("end", "no server")
    # a blob that is no base64 is kept as it came
    events = sample_events(4, 1, 500, 900)
    events[2]["scripts"][0]["histogram"] = "HIST*"
    assert ingested(1, events).histograms[0].histogram == b"HIST*"


@pytest.mark.parametrize(
    "event",
    [
        {"event": "start", "t_us": 1},
        {"event": "interval", "t_us": 1, "seq": 0, "scripts": 5},
        {"event": "error"},
        {"event": "end", "t_us": 1, "scripts": [{}]},
        {"event": "end", "t_us": 1, "scripts": [None]},
    ],
)
def test_events_that_lack_something(event: Event) -> None:
    with pytest.raises(StoreError, match=f"the engine's {event['event']} event"):
        ingested(1, [event])


def test_text_that_utf8_cannot_hold(tmp_path: Path) -> None:
    events = sample_events(4, 1, 500, 900, errors=[SampleError(0, message="half \ud800 a pair\0")])
    tables = ingested(1, events)
    write_tables(tmp_path, {"events": tables.events})
    assert [row.message for row in tables.events if row.kind == "error"] == ["half ? a pair\0"]


def test_a_second_knows_its_phase_of_the_plan() -> None:
    event = {
        "event": "interval", "seq": 0, "from_us": 0, "to_us": 1_000_000, "phase": "warm-up", "phase_name": "rise",
        "clients": 1, "in_flight": 0, "workers": [], "scripts": [{"script": 0, "succeeded": 3}],
    }  # fmt: skip
    # engines of before there were phases do not speak of them
    older = {name: value for name, value in event.items() if name != "phase_name"}
    assert [row.phase_name for row in ingested(1, [event, older]).intervals] == ["rise", None]
