"""Threads that pgdrive adds to a load of a real server: TPC-B's balances still add up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgdyno.targets import Server
from tests.postgres.test_pgdrive import drive, value

SCALE = 1


@pytest.mark.parametrize("options", [(), ("-R", "1500"), ("-C",)], ids=["closed", "open", "reconnecting"])
def test_the_books_balance_while_threads_are_added(server: Server, tmp_path: Path, options: tuple[str, ...]) -> None:
    assert drive(server, "-i", "-s", str(SCALE)).returncode == 0
    end_file, events_file = tmp_path / "end.json", tmp_path / "events.jsonl"
    files = [f"--json={end_file}", f"--events={events_file}", "-l", f"--log-prefix={tmp_path / 'log'}"]
    load = ["-c", "16", "-T", "6", "-M", "prepared", "--worker-busy=1", "--max-workers=4"]
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
    assert {line.split()[0] for line in logged} == {str(client) for client in range(16)}


def test_the_books_balance_while_numbers_of_threads_are_tried(server: Server, tmp_path: Path) -> None:
    assert drive(server, "-i", "-s", str(SCALE)).returncode == 0
    events_file = tmp_path / "events.jsonl"
    load = ["-c", "8", "-T", "1", "--warmup=2", "-M", "prepared", "--max-workers=4", f"--events={events_file}"]
    done = drive(server, *load)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in events_file.read_text().splitlines()]
    (chosen,) = [event for event in events if event["event"] == "workers_chosen"]
    assert [tried["workers"] for tried in chosen["tried"]] == [1, 2, 4]
    assert f"number of threads: {chosen['workers']} (automatic)\n" in done.stdout
    intervals = [event for event in events if event["event"] == "interval"]
    committed = sum(script["succeeded"] for event in intervals for script in event["scripts"])
    assert value(server, "SELECT count(*) FROM pgbench_history") == committed
    assert value(server, "SELECT sum(delta) FROM pgbench_history") == value(
        server, "SELECT sum(abalance) FROM pgbench_accounts"
    )


COUNTING = """
function thread_init()
    con = sysbench.sql.driver():connect()
    count = 0
end

function event()
    count = count + 1
    con:query(string.format("INSERT INTO counted VALUES (%d, %d, pg_backend_pid())", sysbench.tid, count))
end
"""


def test_clients_of_lua_scripts_keep_what_they_know_when_they_move(server: Server, tmp_path: Path) -> None:
    with server.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS counted")
        connection.execute("CREATE TABLE counted (tid int, count int, pid int)")
    script, events_file = tmp_path / "counting.lua", tmp_path / "events.jsonl"
    script.write_text(COUNTING)
    options = ["-c", "6", "-T", "1", "--warmup=2", "--max-workers=6", f"--events={events_file}"]
    done = drive(server, f"--lua={script}", *options)
    assert done.returncode == 0, done.stderr
    (chosen,) = [
        event for event in map(json.loads, events_file.read_text().splitlines()) if event["event"] == "workers_chosen"
    ]
    assert [tried["workers"] for tried in chosen["tried"]] == [1, 2, 4, 6]
    # each client counted on, over one connection, wherever it was
    gaps = "SELECT count(*) FROM (SELECT FROM counted GROUP BY tid HAVING count(*) <> max(count)) AS wrong"
    assert value(server, gaps) == 0
    assert value(server, "SELECT count(DISTINCT (tid, pid)) FROM counted") == 6
    assert value(server, "SELECT count(DISTINCT tid) FROM counted") == 6
