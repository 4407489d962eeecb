"""As many threads as the load needs: pgdrive adds them while the load runs, and loses no transaction.

Against pgnull, which takes so little that one thread of pgdrive is soon at its ceiling.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import BIN, Run
from tests.cli.test_pgnull import null_server

Event = dict[str, Any]
CLIENTS = 16
BUSY = ("--worker-busy=1",)
"""A thread of these loads uses more than that of a core, however little of it others leave."""


def read(file: Path) -> list[Event]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("io", ["epoll", "auto"])
def test_a_saturated_thread_gets_help(run: Run, tmp_path: Path, io: str) -> None:
    # answers of a millisecond keep the logs short, and a thread well above its 1 % on fast processors, too; on busy
    # ones the second thread may take seconds to come
    with null_server(tmp_path, "--delay-us=1000") as server:
        options = ["-S", "-M", "prepared", f"-c{CLIENTS}", "-T15", *BUSY, "--max-workers=2", f"--io={io}"]
        files = ["--events=e.jsonl", "--json=end.json", "-l", "--log-prefix=log"]
        done = run("pgdrive", *options, *files, env=server.env)
    assert done.returncode == 0, done.stderr
    assert "number of threads: 2 (automatic)\n" in done.stdout
    events = read(tmp_path / "e.jsonl")
    start, end = events[0], json.loads((tmp_path / "end.json").read_text())
    assert (start["workers"], start["max_workers"]) == (1, 2)
    assert end["scheduled"] == end["succeeded"] + end["failed"] + end["skipped"] + end["in_flight"]
    assert (end["failed"], end["in_flight"], end["clients_aborted"]) == (0, 0, 0)

    (added,) = [event for event in events if event["event"] == "worker_added"]
    assert (added["worker"], added["giver"], added["clients"], added["reason"]) == (1, 0, CLIENTS // 2, "cpu")
    assert added["cpu_share"] > 0.01
    intervals = [event for event in events if event["event"] == "interval"]
    before = [i for i in intervals if i["to_us"] <= added["from_us"]]
    after = [i for i in intervals if i["from_us"] >= added["from_us"] and i["phase"] == "measure"][:-1]
    assert before
    assert all([w["clients"] for w in i["workers"]] == [CLIENTS] for i in before)
    assert after
    for interval in after:
        assert [worker["clients"] for worker in interval["workers"]] == [CLIENTS // 2] * 2
        assert interval["clients"] == CLIENTS
        assert all(worker["wakeups"] > 0 for worker in interval["workers"])
    assert [worker["clients"] for worker in end["workers"]] == [0, 0]
    assert sum(s["succeeded"] for i in intervals for s in i["scripts"]) == end["succeeded"]

    # the logs hold every transaction once, and every client continues after its move
    logs = sorted(tmp_path.glob("log.*"), key=lambda path: len(path.name))
    assert len(logs) == 2
    lines = [[line.split() for line in log.read_text().splitlines()] for log in logs]
    assert sum(map(len, lines)) == end["succeeded"]
    numbers: list[list[int]] = [[] for _ in range(CLIENTS)]
    for client, number, *_ in itertools.chain(*lines):
        numbers[int(client)].append(int(number))
    assert all(sorted(of) == list(range(1, len(of) + 1)) for of in numbers)
    moved = {int(client) for client, *_ in lines[1]}
    assert len(moved) == CLIENTS // 2
    stayed = {int(client) for client, *_ in lines[0][-1000:]}
    assert stayed == set(range(CLIENTS)) - moved


def test_a_number_that_was_asked_for_stays(run: Run, tmp_path: Path) -> None:
    with null_server(tmp_path) as server:
        options = ["-S", "-M", "prepared", f"-c{CLIENTS}", "-T2", "-j1", *BUSY, "--events=e.jsonl"]
        done = run("pgdrive", *options, env=server.env)
    assert done.returncode == 0, done.stderr
    assert "number of threads: 1\n" in done.stdout
    events = read(tmp_path / "e.jsonl")
    assert events[0]["max_workers"] is None
    assert all(event["event"] != "worker_added" for event in events)
    assert all(len(event["workers"]) == 1 for event in events if event["event"] == "interval")
    # and the figures are said to be the generator's
    assert "of a core: these figures may be its own ceiling" in done.stderr


def test_a_load_far_from_the_ceiling_has_one_thread_and_no_warning(run: Run, tmp_path: Path) -> None:
    with null_server(tmp_path) as server:
        options = ["-S", f"-c{CLIENTS}", "-T3", "-R", "200", "--max-workers=4", "--events=e.jsonl"]
        done = run("pgdrive", *options, env=server.env)
    assert done.returncode == 0, done.stderr
    assert "number of threads: 1 (automatic)\n" in done.stdout
    assert "ceiling" not in done.stderr
    events = read(tmp_path / "e.jsonl")
    end = events[-1]
    (worker,) = end["workers"]
    assert worker["cpu_share"] < 0.7
    assert worker["lag_ns"]["max"] >= worker["lag_ns"]["mean"] > 0
    assert 1 <= worker["replies"]["max"] <= CLIENTS
    assert end["memory"]["peak_bytes"] > 1 << 20
    assert 0 <= end["memory"]["per_connection_bytes"] < 1 << 20
    assert "steal_us" in end


def test_called_pgbench_there_is_one_thread_and_nothing_said(run: Run, tmp_path: Path) -> None:
    with null_server(tmp_path) as server:
        link = tmp_path / "pgbench"
        link.symlink_to(BIN / "pgdrive")
        done = run(str(link), "-S", "-M", "prepared", f"-c{CLIENTS}", "-T2", *BUSY, env=server.env)
    assert done.returncode == 0, done.stderr
    assert "number of threads: 1\n" in done.stdout
    assert "ceiling" not in done.stderr


def test_threads_and_their_limit_exclude_each_other(run: Run) -> None:
    done = run("pgdrive", "-j2", "--max-workers=4")
    assert done.returncode == 1
    assert "(-j) or their limit (--max-workers), not both" in done.stderr
