"""pgdrive against a real server: scripts, counts, files and messages."""

import itertools
import json
import os
import signal
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


def value(server: Server, query: str) -> Any:  # noqa: ANN401 - a column of any type
    with server.connect() as connection:
        row = connection.execute(query.encode()).fetchone()
    return present(row)[0]


@pytest.fixture(scope="module")
def loaded(server: Server) -> Server:
    done = drive(server, "-i", "-s", str(SCALE))
    assert done.returncode == 0, done.stderr
    return server


def test_init_makes_pgbenchs_tables(loaded: Server) -> None:
    assert value(loaded, "SELECT count(*) FROM pgbench_accounts") == 100_000 * SCALE
    assert value(loaded, "SELECT count(*) FROM pgbench_tellers") == 10 * SCALE
    assert value(loaded, "SELECT count(*) FROM pgbench_branches") == SCALE
    assert value(loaded, "SELECT count(*) FROM pgbench_accounts WHERE bid <> (aid - 1) / 100000 + 1") == 0
    assert value(loaded, "SELECT count(*) FROM pgbench_accounts WHERE length(filler || '|') <> 1") == 0
    keys = "SELECT string_agg(conrelid::regclass::text, ' ' ORDER BY 1) FROM pg_constraint WHERE contype = 'p'"
    assert value(loaded, f"{keys} AND conrelid::regclass::text LIKE 'pgbench%'") is not None


@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared"])
@pytest.mark.parametrize("script", ["tpcb-like", "simple-update", "select-only"])
def test_builtins_run_in_every_protocol(loaded: Server, protocol: str, script: str) -> None:
    done = drive(loaded, "-b", script, "-M", protocol, "-c", "4", "-t", "25")
    assert done.returncode == 0, done.stderr
    assert "number of transactions actually processed: 100/100" in done.stdout
    assert f"query mode: {protocol}" in done.stdout
    assert f"scaling factor: {SCALE}" in done.stdout


def test_the_books_balance_after_tpcb(loaded: Server) -> None:
    # simple-update changes accounts alone: begin with fresh balances
    assert drive(loaded, "-i", "-s", str(SCALE)).returncode == 0
    done = drive(loaded, "-n", "-c", "8", "-j", "2", "-t", "50", "-M", "prepared")
    assert done.returncode == 0, done.stderr
    assert value(loaded, "SELECT count(*) FROM pgbench_history") == 400
    sums = {
        value(loaded, f"SELECT sum({column}) FROM {table}")
        for table, column in [
            ("pgbench_accounts", "abalance"),
            ("pgbench_tellers", "tbalance"),
            ("pgbench_branches", "bbalance"),
            ("pgbench_history", "delta"),
        ]
    }
    assert len(sums) == 1


def test_over_tcp_with_a_password(loaded: Server) -> None:
    done = drive(loaded, "-S", "-t", "5", PGHOST="127.0.0.1")
    assert done.returncode == 0, done.stderr


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
    assert progress[0].startswith("progress: 1.0 s, ")
    assert " tps, lat " in progress[0]
    assert progress[0].endswith(", 0 failed")


def test_statement_latencies_are_listed(loaded: Server) -> None:
    done = drive(loaded, "-t", "10", "-r")
    lines = done.stdout.split("statement latencies in milliseconds and failures:\n")[1].splitlines()
    assert len(lines) == 11
    assert lines[0].endswith("\\set aid random(1, 100000 * :scale)")
    assert lines[5].endswith("UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;")


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
    assert (
        'client 1 script 0 aborted in command 1 query 0: ERROR:  42P01: relation "nowhere" does not exist'
        in done.stderr
    )
    assert "SELECT * FROM nowhere;" in done.stderr
    assert "Run was aborted; the above results are incomplete." in done.stderr
    errors = [event for event in events if event["event"] == "error"]
    assert {(e["client"], e["command"], e["line"], e["sqlstate"]) for e in errors} == {
        (0, 1, 2, "42P01"),
        (1, 1, 2, "42P01"),
    }
    end = events[-1]
    assert (end["outcome"], end["clients_aborted"], end["failed"]) == ("aborted", 2, 2)
    assert end["errors"] == [{"sqlstate": "42P01", "message": 'relation "nowhere" does not exist', "count": 2}]


def test_a_meta_command_that_fails_aborts_its_client(loaded: Server, tmp_path: Path) -> None:
    script = tmp_path / "zero.sql"
    script.write_text("\\set x 1 / 0\nSELECT :x;\n")
    done = drive(loaded, "-f", str(script), "-n", "-t", "1")
    assert done.returncode == 2
    assert "client 0 aborted in command 0 (set) of script 0; " in done.stderr


def test_serialization_failures_are_counted_and_retried(loaded: Server, tmp_path: Path) -> None:
    script = tmp_path / "conflict.sql"
    raises = "DO $$ BEGIN RAISE SQLSTATE '40001'; END $$;"
    script.write_text(f"\\set odd random(0, 1)\nBEGIN;\n\\if :odd\n{raises}\n\\endif\nEND;\n")
    plain = drive(loaded, "-f", str(script), "-n", "-t", "200", "--random-seed=7")
    assert plain.returncode == 0, plain.stderr
    failed = int(plain.stdout.split("number of failed transactions: ")[1].split()[0])
    assert 50 < failed < 150
    assert f"actually processed: {200 - failed}/200" in plain.stdout
    # the random state returns with a retry: what failed once fails again, to the last try
    again = drive(loaded, "-f", str(script), "-n", "-t", "200", "--random-seed=7", "--max-tries=3")
    retries = int(again.stdout.split("total number of retries: ")[1].split()[0])
    assert f"number of failed transactions: {failed} " in again.stdout
    assert retries == 2 * failed


def test_gset_variables_and_pipelines(loaded: Server, tmp_path: Path) -> None:
    script = tmp_path / "variables.sql"
    script.write_text(
        "SELECT 41 AS answer \\gset\n\\set answer :answer + 1\n\\startpipeline\nSELECT 1;\n"
        "SELECT :answer / (:answer - 42 + 1);\n"
        "\\endpipeline\n\\if :answer <> 42\nSELECT 1 / 0;\n\\endif\n"
    )
    for protocol in ("extended", "prepared"):
        done = drive(loaded, "-f", str(script), "-n", "-t", "20", "-M", protocol)
        assert done.returncode == 0, done.stderr
        assert "actually processed: 20/20" in done.stdout


def test_a_rate_is_kept_and_lag_is_told(loaded: Server, tmp_path: Path) -> None:
    done, events = drive_events(loaded, tmp_path, "-S", "-c", "4", "-T", "3", "-R", "200", "-n")
    assert done.returncode == 0, done.stderr
    # Poisson: 600 arrivals, standard deviation 24.5; a busy machine may not come to all of them
    assert 500 < events[-1]["succeeded"] + events[-1]["unstarted"] < 700
    assert events[-1]["succeeded"] > 0
    assert "rate limit schedule lag: avg " in done.stdout


def test_a_script_of_meta_commands_alone_ends_at_its_deadline(loaded: Server, tmp_path: Path) -> None:
    script = tmp_path / "idle.sql"
    script.write_text("\\set x 1\n")
    done = drive(loaded, "-f", str(script), "-n", "-c", "2", "-T", "1")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_load_with_its_summary(loaded: Server, number: int, code: int) -> None:
    command = [str(PGDRIVE), "-S", "-c", "2", "-T", "60", "-R", "300", "-n", "--events=-"]
    process = subprocess.Popen(
        command, env=environment(loaded), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    lines = []
    for line in present(process.stdout):
        lines.append(json.loads(line))
        if lines[-1]["event"] == "interval":
            break
    process.send_signal(number)
    rest, said = process.communicate(timeout=PATIENCE_S)
    end = json.loads(rest.splitlines()[-1])
    assert process.returncode == code == end["exit_code"]
    assert end["outcome"] == "interrupted"
    assert end["scheduled"] == end["succeeded"] + end["failed"] + end["skipped"] + end["in_flight"]
    assert "tps = " in said


def test_a_lease_ends_with_the_parent(loaded: Server) -> None:
    command = [str(PGDRIVE), "-S", "-T", "300", "-R", "300", "-n", "--parent-lease", "--events=-"]
    with subprocess.Popen(
        command, env=environment(loaded), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        # it runs while there is a parent
        assert any(json.loads(line)["event"] == "interval" for line in present(process.stdout))
        assert process.poll() is None
        present(process.stdin).close()
        present(process.stdout).read()
        assert process.wait(PATIENCE_S) == 129


def test_a_reader_that_goes_away_ends_the_load(loaded: Server) -> None:
    command = [str(PGDRIVE), "-S", "-T", "60", "-R", "300", "-n", "--events=-"]
    process = subprocess.Popen(command, env=environment(loaded), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    present(process.stdout).readline()
    present(process.stdout).close()
    assert process.wait(PATIENCE_S) != 0
    assert b"could not write events" in present(process.stderr).read()
    present(process.stderr).close()
