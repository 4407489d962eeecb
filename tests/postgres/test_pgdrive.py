"""pgdrive against a real server: scripts, counts, files and messages."""

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram

from pgdyno.targets import Server
from tests.load_recount import assert_p99_of
from tests.present import present
from tests.waiting import PATIENCE_S

PGDRIVE = Path(sys.executable).parent / "pgdrive"
SCALE = 2
Event = dict[str, Any]


def environment(server: Server) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PG") or name == "PGDYNO_HOME"}
    return {**clean, **server.environment()}


def drive(server: Server, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PGDRIVE, *args], env={**environment(server), **env}, capture_output=True, text=True, timeout=120, check=False
    )


def drive_events(server: Server, tmp_path: Path, *args: str) -> tuple[subprocess.CompletedProcess[str], list[Event]]:
    file = tmp_path / "events.jsonl"
    done = drive(server, f"--events={file}", *args)
    return done, [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture(scope="module")
def loaded(server: Server) -> Server:
    done = drive(server, "-i", "-s", str(SCALE))
    assert done.returncode == 0, done.stderr
    return server


def test_a_wrong_password_is_refused_and_never_echoed(loaded: Server) -> None:
    done = drive(loaded, "-S", "-t", "5", PGHOST="127.0.0.1", PGPASSWORD="secret-and-wrong")
    assert done.returncode == 1
    assert "password authentication failed" in done.stderr
    assert "secret-and-wrong" not in done.stdout + done.stderr


def test_a_duration_ends_the_load_and_tells_progress(loaded: Server, tmp_path: Path) -> None:
    script = tmp_path / "pauses.sql"
    script.write_text("SELECT 1;\n\\sleep 5 ms\n")
    done = drive(loaded, "-f", str(script), "-c", "2", "-T", "2", "-P", "1", "-n")
    assert done.returncode == 0, done.stderr
    assert "duration: 2 s" in done.stdout
    progress = [line for line in done.stderr.splitlines() if line.startswith("progress: ")]
    assert re.fullmatch("progress: 1.0 s, .* tps, lat .*, 0 failed", progress[0])
    # a script of meta commands alone never waits for the server
    script.write_text("\\set x 1\n")
    done = drive(loaded, "-f", str(script), "-n", "-c", "2", "-T", "0.2")
    assert done.returncode == 0, done.stderr


def merged(blobs: list[str]) -> HdrHistogram:
    whole = HdrHistogram(1, 3600 * 10**9, 3)
    for blob in blobs:
        whole.decode_and_add(blob.encode())
    return whole


def test_events_tell_all_and_add_up(loaded: Server, tmp_path: Path) -> None:
    done, events = drive_events(
        loaded, tmp_path, "-S", "-c", "3", "-T", "2", "-R", "300", "-b", "tpcb-like@1", "-M", "prepared"
    )
    assert done.returncode == 0, done.stderr
    kinds = [event["event"] for event in events]
    assert (kinds[0], kinds[1], kinds[-1]) == ("start", "connected", "end")
    assert set(kinds[2:-1]) == {"interval"}
    start, end, intervals = events[0], events[-1], events[2:-1]
    assert (start["v"], start["clients"], start["protocol"], start["duration_s"]) == (1, 3, "prepared", 2.0)
    assert [script["name"] for script in start["scripts"]] == ["<builtin: select only>", "<builtin: TPC-B (sort of)>"]
    assert end["scheduled"] == end["succeeded"] + end["failed"] + end["skipped"] + end["in_flight"]
    by_script = [s for interval in intervals for s in interval["scripts"]]
    assert sum(script["succeeded"] for script in by_script) == end["succeeded"]
    whole = merged([script["histogram"] for script in by_script])
    total = merged([end["histogram"]])
    assert whole.get_total_count() == total.get_total_count() == end["succeeded"]
    assert whole.get_value_at_percentile(99) == total.get_value_at_percentile(99)
    assert_p99_of(total, end["latency_ns"]["p99"])
    assert all(a["to_us"] == b["from_us"] for a, b in itertools.pairwise(intervals))
    statements = end["scripts"][1]["statements"]
    assert [s["executions"] for s in statements] == [end["scripts"][1]["succeeded"]] * 7


def test_the_times_of_several_statements_of_a_script_can_be_merged(loaded: Server, tmp_path: Path) -> None:
    script = tmp_path / "twice.sql"
    script.write_text("SELECT 1;\nSELECT 1;\n")
    done, events = drive_events(loaded, tmp_path, "-f", str(script), "-t", "20", "-n")
    assert done.returncode == 0, done.stderr
    (only,) = events[-1]["scripts"]
    assert merged([each["histogram"] for each in only["statements"]]).get_total_count() == 40


def test_a_warm_up_is_left_out(loaded: Server, tmp_path: Path) -> None:
    done, events = drive_events(loaded, tmp_path, "-S", "-c", "2", "-T", "1", "-R", "300", "--warmup", "1.5")
    assert done.returncode == 0, done.stderr
    intervals = [event for event in events if event["event"] == "interval"]
    warm_up = [i for i in intervals if i["phase"] == "warm-up"]
    assert [(i["from_us"], i["to_us"]) for i in warm_up] == [(0, 1_000_000), (1_000_000, 1_500_000)]
    measured = sum(s["succeeded"] for i in intervals if i["phase"] != "warm-up" for s in i["scripts"])
    assert 0 < measured == events[-1]["succeeded"]
    assert f"number of transactions actually processed: {measured}\n" in done.stdout


def test_events_on_standard_output_push_the_summary_aside(loaded: Server) -> None:
    done = drive(loaded, "-S", "-t", "3", "--events=-")
    assert next(json.loads(line)["event"] for line in done.stdout.splitlines()) == "start"
    assert "tps = " in done.stderr


def test_sql_that_fails_names_state_statement_and_client(loaded: Server, tmp_path: Path) -> None:
    script = tmp_path / "fails.sql"
    script.write_text("SELECT 1;\nSELECT * FROM nowhere;\n")
    done, events = drive_events(loaded, tmp_path, "-f", str(script), "-n", "-c", "2", "-t", "3")
    assert done.returncode == 2
    message = 'relation "nowhere" does not exist'
    assert f"client 1 script 0 aborted in command 1 query 0: ERROR:  42P01: {message}" in done.stderr
    assert "SELECT * FROM nowhere;" in done.stderr
    assert "Run was aborted; the above results are incomplete." in done.stderr
    errors = [event for event in events if event["event"] == "error"]
    places = {(e["client"], e["command"], e["line"], e["sqlstate"]) for e in errors}
    assert places == {(0, 1, 2, "42P01"), (1, 1, 2, "42P01")}
    end = events[-1]
    assert (end["outcome"], end["clients_aborted"], end["failed"]) == ("aborted", 2, 2)
    assert end["errors"] == [{"sqlstate": "42P01", "message": message, "count": 2}]


def test_a_reader_that_goes_away_ends_the_load(loaded: Server) -> None:
    command = [str(PGDRIVE), "-S", "-T", "60", "-R", "300", "-n", "--events=-"]
    process = subprocess.Popen(command, env=environment(loaded), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    present(process.stdout).readline()
    present(process.stdout).close()
    assert process.wait(PATIENCE_S) != 0
    assert b"could not write events" in present(process.stderr).read()
    present(process.stderr).close()
