"""The number of threads that pgdrive chooses, and its warning when a thread is close to its ceiling.

Against pgnull, which takes so little that one thread of pgdrive is soon at its ceiling.
"""

import json
import os
from pathlib import Path

from tests.cli.conftest import BIN, Run
from tests.cli.test_pgnull import null_server

CORES = len(os.sched_getaffinity(0))
CLIENTS = 16
LOAD = ("-S", "-M", "prepared", f"-c{CLIENTS}")
BUSY = ("--worker-busy=1",)
"""A thread of these loads uses more than that of a core, however little of it others leave."""
CEILING = "of a core: these figures may be its own ceiling"


def test_threads_suit_the_clients_and_the_cores(run: Run, tmp_path: Path) -> None:
    """Rust's tests (worker_options.rs) have other numbers."""
    with null_server(tmp_path) as server:
        for options, threads in [
            # the other half of the cores is the server's
            ([f"-c{64 * CORES}"], f"{max(CORES // 2, 1)} (automatic)"),
            ([f"-c{CLIENTS}", "--max-workers=1"], "1 (automatic)"),
            ([f"-c{CLIENTS}", "-j3"], "3"),
        ]:
            done = run("pgdrive", "-S", "-T0.2", *options, "--events=e.jsonl", env=server.env)
            assert done.returncode == 0, done.stderr
            assert f"number of threads: {threads}\n" in done.stdout
            events = [json.loads(line) for line in (tmp_path / "e.jsonl").read_text().splitlines()]
            count = int(threads.split(maxsplit=1)[0])
            assert events[0]["workers"] == count
            assert {len(event["workers"]) for event in events if event["event"] in ("interval", "end")} == {count}


def test_a_busy_thread_is_reported_whatever_chose_their_number(run: Run, tmp_path: Path) -> None:
    link = tmp_path / "pgbench"
    link.symlink_to(BIN / "pgdrive")
    with null_server(tmp_path) as server:
        for options in (["--warmup=1"], ["-j1"]):
            done = run("pgdrive", *LOAD, "-T2", *BUSY, *options, env=server.env)
            assert done.returncode == 0, done.stderr
            assert CEILING in done.stderr
        # called pgbench, there is one thread, and nothing is said
        done = run(str(link), *LOAD, "-T2", *BUSY, env=server.env)
    assert done.returncode == 0, done.stderr
    assert "number of threads: 1\n" in done.stdout
    assert "ceiling" not in done.stderr


def test_a_load_far_from_the_ceiling_has_no_warning(run: Run, tmp_path: Path) -> None:
    with null_server(tmp_path) as server:
        options = ["-S", f"-c{CLIENTS}", "-T2", "-R", "200", "--max-workers=1", "--events=e.jsonl"]
        done = run("pgdrive", *options, env=server.env)
    assert done.returncode == 0, done.stderr
    assert "ceiling" not in done.stderr
    end = json.loads((tmp_path / "e.jsonl").read_text().splitlines()[-1])
    (worker,) = end["workers"]
    assert worker["cpu_share"] < 0.7
    assert worker["lag_ns"]["max"] >= worker["lag_ns"]["mean"] > 0
    assert 1 <= worker["replies"]["max"] <= CLIENTS
    assert end["memory"]["peak_bytes"] > 1 << 20
    assert 0 <= end["memory"]["per_connection_bytes"] < 1 << 20
    assert "steal_us" in end
