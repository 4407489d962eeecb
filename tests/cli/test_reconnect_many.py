"""`pgdrive --reconnect` with many clients: few lines of output, and no client forgotten."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.test_pgnull import find_pgnull, null_server
from tests.waiting import wait_until

CLIENTS = 1000


@pytest.mark.parametrize("io", ["epoll", "io_uring"])
def test_a_thousand_clients_are_lost_and_back(tmp_path: Path, io: str) -> None:
    result, events, said = tmp_path / "result.json", tmp_path / "events.jsonl", tmp_path / "stderr"
    options = ["-S", "-n", f"-c{CLIENTS}", "-j2", "-T6", "-R500", "--reconnect", f"--io={io}"]
    with null_server(tmp_path) as server, said.open("w") as errors:
        drive = subprocess.Popen(
            [find_pgnull().with_name("pgdrive"), *options, f"--json={result}", f"--events={events}"],
            env=os.environ | server.env,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        try:
            wait_until(lambda: events.exists() and '"interval"' in events.read_text())
            server.process.kill()
            server.process.wait()
            with null_server(tmp_path):
                assert drive.wait(timeout=60) == 0, said.read_text()
        finally:
            drive.kill()
            drive.wait()
    end = json.loads(result.read_text())
    assert end["scheduled"] == end["succeeded"] + end["failed"] + end["skipped"] + end["in_flight"]
    assert (end["outage_count"], end["connections_lost"], end["reconnects"]) == (1, CLIENTS, CLIENTS)
    # the first may be connected again before the last notices its loss
    assert 1 <= end["outages"][0]["clients"] <= CLIENTS
    assert sum(error["count"] for error in end["errors"]) == CLIENTS
    assert len(said.read_text().splitlines()) < 20
