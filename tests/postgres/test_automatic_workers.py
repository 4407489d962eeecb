"""Threads that are added to a load of a real server: the books balance all the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgdyno.target import Server
from tests.postgres.test_pgdrive import drive, value

SCALE = 1


@pytest.mark.parametrize("options", [(), ("-R", "1500"), ("-C",)], ids=["closed", "open", "reconnecting"])
def test_the_books_balance_while_threads_are_added(server: Server, tmp_path: Path, options: tuple[str, ...]) -> None:
    assert drive(server, "-i", "-s", str(SCALE)).returncode == 0
    end_file, events_file = tmp_path / "end.json", tmp_path / "events.jsonl"
    files = [f"--json={end_file}", f"--events={events_file}", "-l", f"--log-prefix={tmp_path / 'log'}"]
    load = ["-c", "8", "-T", "6", "-M", "prepared", "--worker-busy=1", "--max-workers=3"]
    done = drive(server, *load, *files, *options)
    assert done.returncode == 0, done.stderr
    end = json.loads(end_file.read_text())
    events = [json.loads(line) for line in events_file.read_text().splitlines()]
    added = [event for event in events if event["event"] == "worker_added"]
    assert added
    assert len(end["workers"]) == len(added) + 1
    assert f"number of threads: {len(added) + 1} (automatic)\n" in done.stdout
    assert end["scheduled"] == end["succeeded"] + end["failed"] + end["skipped"] + end["in_flight"]
    assert (end["failed"], end["in_flight"]) == (0, 0)
    assert value(server, "SELECT count(*) FROM pgbench_history") == end["succeeded"]
    assert value(server, "SELECT sum(delta) FROM pgbench_history") == value(
        server, "SELECT sum(abalance) FROM pgbench_accounts"
    )
    logged = [line for log in tmp_path.glob("log.*") for line in log.read_text().splitlines()]
    assert len(logged) == end["succeeded"]
    assert {line.split()[0] for line in logged} == {str(client) for client in range(8)}
