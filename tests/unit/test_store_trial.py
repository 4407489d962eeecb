"""A trial is stored completely or not at all, whatever happens during the write."""

import gzip
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from pgdyno.errors import StoreError
from pgdyno.store import RunFolder, load_run
from pgdyno.store.run_folder import SPOOL
from pgdyno.store.safe_files import write_durably
from pgdyno.store.trial_tables import TABLES
from tests.present import present
from tests.unit.events_sample import sample_events
from tests.unit.store_sample import SETTINGS, sample_manifest, sample_record

# those of standbys, of rented servers and of query plans are there where the trial has some
OWN = [table for table in TABLES if not table.startswith(("standby_", "cloud_", "query_plans"))]
FILES = {"trial.json", "log", *(f"{table}.parquet" for table in OWN)}
EVENTS = sample_events(2, 2, 300, 1000)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, sample_manifest())


def test_a_trial_is_seen_when_it_is_committed(folder: RunFolder) -> None:
    record = sample_record(1, EVENTS)
    writer = folder.begin_trial(record.slug)
    (writer.log / "engine.log").write_text("hello\n")
    assert (folder.trials(), folder.partials()) == ([], [record.slug])
    with pytest.raises(StoreError, match=re.escape(f".{record.slug}.partial")):
        folder.begin_trial(record.slug)
    path = writer.commit(record, events=EVENTS, settings=SETTINGS)
    assert (folder.trials(), folder.partials()) == ([record], [])
    assert path == folder.trials_path / record.slug
    assert {each.name for each in path.iterdir()} == FILES
    assert (path / "log" / "engine.log").read_text() == "hello\n"
    # the events are kept as they came
    lines = gzip.decompress((path / "log" / "events.jsonl.gz").read_bytes()).splitlines()
    assert [json.loads(line) for line in lines] == EVENTS
    # nothing changes it
    writer.abandon()
    with pytest.raises(StoreError, match="exists already"):
        folder.begin_trial(record.slug)
    assert folder.trials() == [record]
    # a glob of DuckDB finds no partial trial
    (folder.begin_trial("0002-a-c1").partial / "intervals.parquet").write_bytes(b"half of a file")
    pattern = str(folder.path.parent / "*" / "trials" / "*" / "intervals.parquet")
    with duckdb.connect() as connection:
        found = connection.execute("SELECT DISTINCT trial FROM read_parquet($pattern)", {"pattern": pattern})
        assert found.fetchall() == [(1,)]


def test_a_trial_without_events_has_empty_tables_and_an_abandoned_one_none(folder: RunFolder) -> None:
    writer = folder.begin_trial("0001-a-c1")
    (writer.log / "engine.log").write_text("hello\n")
    writer.abandon()
    assert [path.name for path in sorted(folder.path.iterdir())] == ["manifest.json", "trials"]
    record = sample_record(1, EVENTS)
    folder.begin_trial(record.slug).commit(record, events=[], settings=[])
    data = load_run(folder)
    assert [data.intervals(1), data.histograms(1), data.statements(1), data.events(1), data.settings(1)] == [[]] * 5


def interval(second: int, phase: str) -> dict[str, object]:
    """Returns what counts of an interval, with a text that looks like the end of one."""
    return {"event": "interval", "seq": second, "phase": phase, "note": '"phase":"measure"'}


@pytest.mark.parametrize(("warm_up", "measured", "is_kept"), [(0, 60, True), (30, 59, False)])
def test_a_long_trial_without_an_end_is_kept(folder: RunFolder, warm_up: int, measured: int, is_kept: bool) -> None:
    writer = folder.begin_trial("0001-a-c1")
    spool = writer.spool(SPOOL)
    events = [interval(at, "warm-up" if at < warm_up else "measure") for at in range(warm_up + measured)]
    for event in events:
        spool.append(event)
    writer.probe_lines.write_text("samples")
    writer.leave()
    assert folder.partials() == ["0001-a-c1"] * is_kept
    if not is_kept:
        # what a kill leaves, too
        folder.begin_trial("0001-a-c1")
    assert folder.clear_partials() == ((["0001-a-c1"], []) if is_kept else ([], ["0001-a-c1"]))
    assert (folder.trials(), folder.partials()) == ([], [])
    kept = folder.path / "set-aside" / "0001-a-c1.1"
    assert kept.exists() is is_kept
    if is_kept:
        assert [json.loads(line) for line in (kept / "events.jsonl").read_text().splitlines()] == events
        assert (kept / "probe.jsonl").read_text() == "samples"
    folder.begin_trial("0001-a-c1")


def test_an_hour_that_cannot_be_stored_is_kept(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    record = sample_record(1, EVENTS)
    writer = folder.begin_trial(record.slug)
    spool = writer.spool(SPOOL)
    for at in range(3_600):
        spool.append(interval(at, "measure"))
    with monkeypatch.context() as broken:
        broken.setattr("pgdyno.store.trial_writer.write_durably", failing(write_durably, 0, 28))
        with pytest.raises(StoreError, match="no space left on device"):
            writer.commit(record, events=EVENTS, settings=SETTINGS)
    writer.leave()
    assert folder.clear_partials() == ([record.slug], [])
    (kept,) = (folder.path / "set-aside").iterdir()
    assert (kept / "events.jsonl").read_bytes().count(b"\n") == 3_600


def test_a_trial_that_cannot_be_stored_changes_nothing(folder: RunFolder) -> None:
    record = sample_record(1, EVENTS)
    writer = folder.begin_trial(record.slug)
    # one came meanwhile
    writer.final.mkdir()
    (writer.final / "mine").write_text("")
    with pytest.raises(StoreError, match="exists already"):
        writer.commit(record, events=EVENTS, settings=SETTINGS)
    assert [path.name for path in writer.final.iterdir()] == ["mine"]
    other = sample_record(2, EVENTS)
    broken = [*EVENTS[:2], {"event": "interval", "t_us": 77, "seq": 0}]
    with pytest.raises(StoreError, match="interval event at 77 us"):
        folder.begin_trial(other.slug).commit(other, events=broken, settings=SETTINGS)
    assert not (folder.trials_path / other.slug).exists()


def failing(real: Callable[..., object], at: int, error: int) -> Callable[..., object]:
    """Returns `real` with a call, number `at` from 0, that fails."""
    calls = iter(range(1_000_000))

    def call(*arguments: object, **keywords: object) -> object:
        if next(calls) == at:
            raise OSError(error, os.strerror(error))
        return real(*arguments, **keywords)

    return call


@pytest.mark.parametrize("what", ["fsync", "open"])
def test_a_commit_that_fails_leaves_no_trial(folder: RunFolder, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record = sample_record(1, EVENTS)
    failed = 0
    for at in range(100):
        writer = folder.begin_trial(record.slug)
        with monkeypatch.context() as broken:
            broken.setattr(f"pgdyno.store.safe_files.os.{what}", failing(getattr(os, what), at, 28))
            try:
                writer.commit(record, events=EVENTS, settings=SETTINGS)
            except StoreError as error:
                assert "no space left on device" in error.message  # noqa: PT017
            else:
                break
        failed += 1
        if writer.final.exists():
            # only the names of folders were not yet known to be on disk
            assert folder.trials() == [record]
            assert {each.name for each in writer.final.iterdir()} == FILES
            break
        assert folder.trials() == []
        writer.abandon()
        assert folder.partials() == []
    assert failed > len(FILES)


def test_a_disk_that_is_full(folder: RunFolder) -> None:
    """In its own process, files may not exceed a few KiB: DuckDB's fail, too."""
    program = """
import os, resource, sys
from pathlib import Path
from pgdyno.errors import StoreError
from pgdyno.store import RunFolder
from tests.unit.events_sample import sample_events
from tests.unit.store_sample import sample_record
folder, limit = RunFolder.open(Path(sys.argv[1])), int(sys.argv[2])
events = sample_events(2, 2, 500, 1000)
settings = [(os.urandom(50).hex(), "on", None, "default") for _ in range(500)]
record = sample_record(1, events)
writer = folder.begin_trial(record.slug)
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    writer.commit(record, events=events, settings=settings)
except StoreError as error:
    print(error.message)
    writer.abandon()
else:
    sys.exit("it fitted")
"""
    for limit, file in ((500, "events.jsonl.gz"), (20_000, "settings.parquet")):
        command = [sys.executable, "-c", program, str(folder.path), str(limit)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("cannot write")
        assert str(folder.path) in done.stdout
        assert file in done.stdout
        assert (folder.trials(), folder.partials()) == ([], [])
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@pytest.mark.slow
def test_trials_committed_before_a_kill_are_complete(folder: RunFolder) -> None:
    program = """
import os, sys
from itertools import count
from pathlib import Path
from pgdyno.store import RunFolder
from tests.unit.events_sample import sample_events
from tests.unit.store_sample import add_trial
folder = RunFolder.open(Path(sys.argv[1]))
events = sample_events(2, 3, 300, 1000, scripts=2)
for first in sys.stdin:
    if os.fork() == 0:
        for number in count(int(first)):
            add_trial(folder, number, events)
            folder.update_manifest(notes=[str(number)] * 1000)
            print(os.getpid(), number, flush=True)
    os.wait()
    print("killed", flush=True)
"""
    moments = random.Random(5)
    command, pipe = [sys.executable, "-c", program, str(folder.path)], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment(), text=True, bufsize=1) as parent:
        for first in range(1, 6001, 1000):
            present(parent.stdin).write(f"{first}\n")
            pid, number = present(parent.stdout).readline().split()
            assert int(number) == first
            time.sleep(moments.uniform(0, 0.15))
            os.kill(int(pid), signal.SIGKILL)
            while present(parent.stdout).readline() != "killed\n":
                pass
            read_all(folder)
        present(parent.stdin).close()
    assert {1, 1001, 2001, 3001, 4001, 5001} <= {record.number for record in folder.trials()}


def read_all(folder: RunFolder) -> None:
    """Reads everything that a reader can see; fails when anything is not whole."""
    data = load_run(folder.path)
    for record in data.trials:
        assert {each.name for each in (folder.trials_path / record.slug).iterdir()} == FILES
        assert len(data.histogram(record.number)) == 2
        assert len(gzip.decompress((folder.trials_path / record.slug / "log" / "events.jsonl.gz").read_bytes())) > 1000
    rows = data.query("SELECT count(DISTINCT trial), count(*) FROM intervals").rows
    assert rows == [(len(data.trials), len(data.trials) * 4 * 2)]
