"""`pgdrive --reconnect` with many clients: few lines of output, and no client forgotten."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
CLIENTS = 1000


def null_server(folder: Path, port: int) -> subprocess.Popen[str]:
    command = [str(BIN / "pgnull"), f"--socket-dir={folder}", f"--port={port}"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    with server.stdout as stdout:
        assert stdout.readline()
    return server


@pytest.mark.parametrize("io", ["epoll", "io_uring"])
def test_a_thousand_clients_are_lost_and_back(tmp_path: Path, io: str) -> None:
    server = null_server(tmp_path, 5432)
    result, events, said = tmp_path / "result.json", tmp_path / "events.jsonl", tmp_path / "stderr"
    options = ["-S", "-n", f"-c{CLIENTS}", "-j2", "-T6", "-R500", "--reconnect", f"--io={io}"]
    with said.open("w") as errors:
        drive = subprocess.Popen(
            [BIN / "pgdrive", *options, f"--json={result}", f"--events={events}", "-h", str(tmp_path), "-U", "u", "d"],
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
    try:
        until = time.monotonic() + 60
        while not events.exists() or '"interval"' not in events.read_text():
            assert time.monotonic() < until, said.read_text()
            time.sleep(0.05)
        server.send_signal(signal.SIGKILL)
        server.wait()
        (tmp_path / ".s.PGSQL.5432").unlink(missing_ok=True)
        server = null_server(tmp_path, 5432)
        assert drive.wait(timeout=60) == 0, said.read_text()
    finally:
        drive.kill()
        drive.wait()
        server.kill()
        server.wait()
    end = json.loads(result.read_text())
    assert end["scheduled"] == end["succeeded"] + end["failed"] + end["skipped"] + end["in_flight"]
    assert (end["outage_count"], end["connections_lost"], end["reconnects"]) == (1, CLIENTS, CLIENTS)
    # the first may be connected again before the last notices its loss
    assert 1 <= end["outages"][0]["clients"] <= CLIENTS
    assert sum(error["count"] for error in end["errors"]) == CLIENTS
    assert len(said.read_text().splitlines()) < 20
