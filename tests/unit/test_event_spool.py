"""Events of a trial: malformed ones are an error of pgdyno's own; on disk, they are read back as they came."""

import json
import os
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pgdyno.errors import EngineError, StoreError
from pgdyno.programs import Engine
from pgdyno.run.process import Event, among, read_events
from pgdyno.run.run_trial import TrialResult, run_trial
from pgdyno.store import RunFolder, load_run, trial_writer
from pgdyno.store.trial_writer import ROWS_AT_ONCE, EventSpool
from tests.unit.events_sample import sample_events
from tests.unit.store_sample import SETTINGS, ingested, sample_manifest, sample_record


class Ended:
    """An engine whose output is complete."""

    def send_signal(self, _number: int) -> None:
        """Ignores the signal."""

    def wait(self) -> int:
        return 0


def ignore(_interval: object) -> None:
    """Discards an interval."""


def tried(folder: Path, events: list[dict[str, Any]]) -> TrialResult:
    lines = [json.dumps(event).encode() + b"\n" for event in events]

    @contextmanager
    def running(*_: object) -> Iterator[tuple[Any, Iterator[Event]]]:
        yield Ended(), read_events(lines)

    return run_trial(Engine(folder / "pgdrive", "0.1.0"), [], {}, folder, folder / "log", ignore, 10, running=running)


def test_malformed_events_are_an_error(tmp_path: Path) -> None:
    versions: list[object] = [None, "1", [], 2, 1.5]
    for version in versions:
        events = sample_events(4, 2, 500, 900, seed=1)
        with pytest.raises(EngineError, match="writes events of version"):
            tried(tmp_path, [{**events[0], "v": version}, *events[1:]])
    for kind, changes in (
        ("interval", {"scripts": None}),
        ("interval", {"to_us": "soon"}),
        ("interval", {"scripts": [{"script": 0, "succeeded": [], "failed": 0}]}),
        ("start", {"scripts": 7}),
        ("start", {"pgdrive": None}),
        ("end", {"tps": "many"}),
        ("end", {"scripts": [{}]}),
        ("end", {"latency_ns": {"mean": {}}}),
        ("end", {"errors": [{"message": 1}]}),
    ):
        events = [
            {**each, **(changes if each["event"] == kind else {})} for each in sample_events(4, 2, 500, 900, seed=1)
        ]
        with pytest.raises(EngineError, match=r"cannot .*, because the engine's events have an unexpected form: "):
            tried(tmp_path, events)


# ---- on disk ----

EVENTS = sample_events(4, 3, 500, 900)


def spooled(path: Path, events: list[Event]) -> EventSpool:
    spool = EventSpool(path)
    for event in events:
        spool.append(event)
    return spool


def test_events_are_read_back_as_they_came(tmp_path: Path) -> None:
    # an existing file is not opened
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "events").symlink_to(tmp_path / "mine")
    spool = spooled(tmp_path / "events", EVENTS)
    events = spool.events
    assert list(events) == EVENTS
    assert (len(events), events[0], events[-1], events[1:3]) == (len(EVENTS), EVENTS[0], EVENTS[-1], EVENTS[1:3])
    with pytest.raises(IndexError):
        events[len(EVENTS)]
    spool.close()
    assert list(events) == EVENTS
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_full_disk_is_an_error_of_the_store(tmp_path: Path) -> None:
    spool = EventSpool(tmp_path / "events")
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, spool._file.fileno())
    os.close(full)
    with pytest.raises(StoreError, match=r"cannot write .*events: no space left on device"):
        spool.append(EVENTS[0])
    spool.close()


def test_others_are_merged_by_time_into_events_on_disk(tmp_path: Path) -> None:
    errors: list[Event] = [{"event": "error", "t_us": at} for at in (30, 10)]
    engine: list[Event] = [{"event": "start", "t_us": 0}, *errors, {"event": "end", "t_us": 20}]
    others = [{"event": "mark", "t_us": at} for at in (99, 10)]
    spool = spooled(tmp_path / "events", engine)
    merged = among(spool.events, others)
    in_order = [("start", 0), ("error", 10), ("mark", 10), ("error", 30), ("mark", 99), ("end", 20)]
    assert [(each["event"], each["t_us"]) for each in merged] == in_order
    assert merged[-1] == engine[-1]
    assert list(merged) == among(engine, others)[:]
    spool.close()


def longer(count: int) -> Iterator[Event]:
    start, connected, *rest = EVENTS
    interval = next(event for event in rest if event["event"] == "interval")
    yield start
    yield connected
    for seq in range(count):
        times = {"t_us": seq * 1_000_000, "from_us": seq * 1_000_000, "to_us": (seq + 1) * 1_000_000}
        yield {**interval, **times, "seq": seq}
    yield {**EVENTS[-1], "t_us": count * 1_000_000}


@pytest.mark.long
def test_a_long_trial_needs_no_more_memory_than_a_short_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both the load and the write: with the events in memory, an hour needs more than 40 MB."""
    rows_at_once = 1000
    monkeypatch.setattr(trial_writer, "ROWS_AT_ONCE", rows_at_once)

    def peak_bytes(seconds: int) -> int:
        folder = RunFolder.create(tmp_path, sample_manifest())
        record = sample_record(1, EVENTS)
        writer = folder.begin_trial(record.slug)

        @contextmanager
        def running(*_: object) -> Iterator[tuple[Any, Iterator[Event]]]:
            yield Ended(), longer(seconds)

        tracemalloc.start()
        engine, log, spool = Engine(tmp_path / "pgdrive", "0.1.0"), writer.log / "engine.log", writer.spool("events")
        result = run_trial(engine, [], {}, tmp_path, log, ignore, running=running, spool=spool)
        writer.commit(record, events=among(result.events, []), settings=SETTINGS)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(load_run(folder.path).intervals(1)) == seconds
        return peak

    # what a few batches of rows need, whatever the length
    long, short = peak_bytes(7 * rows_at_once // 2), peak_bytes(rows_at_once)
    assert long < 1.5 * short + (4 << 20)


def test_rows_of_several_batches_are_in_order(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, sample_manifest())
    events = list(longer(ROWS_AT_ONCE + 100))
    record = sample_record(1, EVENTS)
    path = folder.begin_trial(record.slug).commit(record, events=events, settings=SETTINGS)
    data, rows = load_run(folder.path), ingested(1, events)
    assert data.intervals(1) == rows.intervals
    assert data.histograms(1) == sorted(rows.histograms, key=lambda row: row.second)
    assert data.events(1) == rows.events
    assert data.statements(1) == rows.statements
    assert not list(path.glob("*.jsonl"))


def test_nothing_of_a_spool_is_left_after_a_trial(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, sample_manifest())
    record = sample_record(1, EVENTS)
    writer = folder.begin_trial(record.slug)
    spool = writer.spool("events")
    spool.append(EVENTS[0])
    assert json.loads((writer.partial / "events.jsonl").read_text()) == EVENTS[0]
    writer.abandon()
    assert folder.partials() == []
