"""pgdrive against a real server: scripts, counts, files and messages, and features beyond pgbench's.

test_counting.py has the counts of loads that end by themselves or by a signal.
"""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from pgdyno.targets import Home, Server
from pgdyno.targets.cluster.postmaster import find_postmaster
from tests.load_recount import Event, Running, assert_p99_of, merged, run_load, start_load
from tests.postgres.conftest import FAST
from tests.postgres.servers import embedded, opened, rows, value
from tests.present import present
from tests.run_program import PGDRIVE, run_program
from tests.waiting import PATIENCE_S, wait_until


def environment(server: Server) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PG") or name == "PGDYNO_HOME"}
    return {**clean, **server.environment()}


def drive(server: Server, *args: str, code: int | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    return run_program([PGDRIVE, *args], env={**environment(server), **env}, code=code)


def drive_events(server: Server, tmp_path: Path, *args: str) -> tuple[subprocess.CompletedProcess[str], list[Event]]:
    file = tmp_path / "events.jsonl"
    done = drive(server, f"--events={file}", *args)
    return done, [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture(scope="module")
def loaded(server: Server) -> Server:
    drive(server, "-i", "-s", "2", code=0)
    return server


def test_a_wrong_password_is_refused_and_never_echoed(loaded: Server) -> None:
    done = drive(loaded, "-S", "-t", "5", PGHOST="127.0.0.1", PGPASSWORD="secret-and-wrong", code=1)
    assert "password authentication failed" in done.stderr
    assert "secret-and-wrong" not in done.stdout + done.stderr


def test_a_duration_ends_the_load_and_tells_progress(loaded: Server, tmp_path: Path) -> None:
    script = tmp_path / "pauses.sql"
    script.write_text("SELECT 1;\n\\sleep 5 ms\n")
    done = drive(loaded, "-f", str(script), "-c", "2", "-T", "2", "-P", "1", "-n", code=0)
    assert "duration: 2 s" in done.stdout
    progress = [line for line in done.stderr.splitlines() if line.startswith("progress: ")]
    assert re.fullmatch("progress: 1.0 s, .* tps, lat .*, 0 failed", progress[0])
    # a script of meta commands alone never waits for the server
    script.write_text("\\set x 1\n")
    drive(loaded, "-f", str(script), "-n", "-c", "2", "-T", "0.2", code=0)


def test_events_tell_all_and_a_warm_up_is_left_out(loaded: Server, tmp_path: Path) -> None:
    args = ("-S", "-c", "3", "-T", "1", "-R", "300", "-b", "tpcb-like@1", "-M", "prepared", "--warmup", "1.5")
    load = run_load(environment(loaded), tmp_path / "load", *args)
    assert load.exit_code == 0, load.stderr
    counts, start, end = load.verify(), load.start, load.end
    assert {event["event"] for event in load.events[2:-1]} == {"interval"}
    assert (start["v"], start["clients"], start["protocol"], start["duration_s"]) == (1, 3, "prepared", 1.0)
    assert [script["name"] for script in start["scripts"]] == ["<builtin: select only>", "<builtin: TPC-B (sort of)>"]
    assert_p99_of(merged([end["histogram"]]), end["latency_ns"]["p99"])
    warm_up = [each for each in load.intervals if each["phase"] == "warm-up"]
    assert [(each["from_us"], each["to_us"]) for each in warm_up] == [(0, 1_000_000), (1_000_000, 1_500_000)]
    assert counts.succeeded > 0
    assert f"number of transactions actually processed: {counts.succeeded}\n" in load.stdout
    _, events = drive_events(loaded, tmp_path, "-b", "tpcb-like", "-t", "20", "-n")
    statements = events[-1]["scripts"][0]["statements"]
    assert [each["executions"] for each in statements] == [20] * 7
    assert merged([each["histogram"] for each in statements]).get_total_count() == 7 * 20


def test_sql_that_fails_names_state_statement_and_client(loaded: Server, tmp_path: Path) -> None:
    script = tmp_path / "fails.sql"
    script.write_text("SELECT 1;\nSELECT * FROM nowhere;\n")
    done = drive(loaded, "--events=-", "-f", str(script), "-n", "-c", "2", "-t", "3")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 2
    assert events[0]["event"] == "start"
    # the summary is pushed aside
    assert "number of transactions actually processed: 0/6\n" in done.stderr
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


def test_percentiles_of_run_scripts_and_statements(loaded: Server) -> None:
    args = ("-b", "select-only", "-b", "simple-update", "-n", "-t", "50", "-r", "--percentiles=50,99.9")
    done = drive(loaded, *args, code=0)
    of_run = re.findall(r"^latency percentile ([\d.]+) = ([\d.]+) ms$", done.stdout, flags=re.MULTILINE)
    assert [name for name, _ in of_run] == ["50", "99.9"]
    assert 0 < float(of_run[0][1]) <= float(of_run[1][1])
    assert len(re.findall(r"^ - latency percentile 99.9 = ", done.stdout, flags=re.MULTILINE)) == 2
    blocks = done.stdout.split(" - statement latency percentiles in milliseconds (50, 99.9):\n")
    assert len(blocks) == 3
    columns = re.match(r" +([\d.]+) +([\d.]+)  \\set aid random", blocks[1])
    assert columns is not None
    assert float(columns[1]) <= float(columns[2])


def test_the_histogram_log_is_read_by_other_tools(loaded: Server, tmp_path: Path) -> None:
    log, results = tmp_path / "run.hlog", tmp_path / "run.json"
    drive(loaded, "-S", "-n", "-c", "2", "-T", "2", "-R", "300", f"--histogram={log}", f"--json={results}", code=0)
    whole = HdrHistogram(1, 3600 * 10**9, 3)
    reader = HistogramLogReader(str(log), whole)
    while reader.add_next_interval_histogram() is not None:
        pass
    reader.close()
    end = json.loads(results.read_text())
    assert (end["outcome"], end["exit_code"]) == ("finished", 0)
    assert whole.get_total_count() == end["succeeded"] > 0
    assert_p99_of(whole, end["latency_ns"]["p99"])
    lines = [line for line in log.read_text().splitlines() if not line.startswith(("#", '"'))]
    assert len(lines) >= 2
    assert lines[1].startswith("1.000,1.000,")


def test_a_file_that_cannot_be_made_ends_it_before_the_load(loaded: Server) -> None:
    for option in ("--histogram", "--json"):
        done = drive(loaded, "-S", "-n", f"{option}=/nowhere/x", code=1)
        assert 'could not create file "/nowhere/x": No such file or directory' in done.stderr
        assert "tps" not in done.stdout


def test_other_errors_can_be_passed_over(loaded: Server, tmp_path: Path) -> None:
    script = tmp_path / "odd.sql"
    script.write_text("\\set odd random(0, 1)\nBEGIN;\nSELECT 1 / (1 - :odd::int);\nEND;\n")
    args = ("-f", str(script), "-n", "-t", "100", "-M", "prepared", "--random-seed=5", "--failures-detailed")
    done = drive(loaded, *args, "--continue-on-error", "--verbose-errors", code=0)
    failed = int(done.stdout.split("number of other failures: ")[1].split()[0])
    assert 25 < failed < 75
    assert f"actually processed: {100 - failed}/100" in done.stdout
    assert done.stderr.count("client 0 got an error in command 2 (SQL) of script 0; ERROR:  division by zero") == failed
    assert done.stderr.count("client 0 ends the failed transaction (try 1/1)") == failed
    assert drive(loaded, *args).returncode == 2


def test_a_serializable_pipeline_can_be_prepared(loaded: Server, tmp_path: Path) -> None:
    script = tmp_path / "pipeline.sql"
    script.write_text(
        "\\startpipeline\nBEGIN ISOLATION LEVEL SERIALIZABLE;\nSELECT :client_id;\nSELECT 2;\nEND;\n\\endpipeline\n"
    )
    done = drive(loaded, "-f", str(script), "-n", "-c", "2", "-t", "10", "-M", "prepared", "--debug", code=0)
    assert "client 1 preparing P_3" in done.stderr
    assert done.stderr.count("client 0 executing script ") == 10


def test_connection_times_add_up_to_the_time_of_the_threads(loaded: Server) -> None:
    done = drive(loaded, "-S", "-C", "-c", "32", "-j", "1", "-T", "1", code=0)
    average_ms = float(done.stdout.split("average connection time = ")[1].split()[0])
    transactions = int(done.stdout.split("actually processed: ")[1].split()[0])
    assert 0 < average_ms * transactions < 1.5e3, done.stdout


def test_values_keep_the_clients_encoding(server: Server, tmp_path: Path) -> None:
    script = tmp_path / "encoding.sql"
    script.write_text(
        "DROP TABLE IF EXISTS encoded;\nCREATE TABLE encoded (a text);\n"
        "SELECT 'x' || chr(233) AS a \\aset\nINSERT INTO encoded VALUES (':a');\n"
    )
    drive(server, "-n", "-t", "1", "-f", str(script), PGCLIENTENCODING="latin1", code=0)
    assert value(server, "SELECT encode(convert_to(a, 'UTF8'), 'hex') FROM encoded") == "78c3a9"


def test_text_that_is_not_utf8_is_refused(server: Server, tmp_path: Path) -> None:
    script = tmp_path / "latin1.sql"
    script.write_bytes(b"SELECT 1;\nSELECT 'caf\xe9';\n")
    for args, env, message in [
        (("-f", str(script)), {}, f'could not read file "{script}": line 2 is not UTF-8'),
        (("-S",), {"PGPASSWORD": os.fsdecode(b"caf\xe9")}, 'environment variable "PGPASSWORD" is not UTF-8'),
    ]:
        done = drive(server, "-n", "-t", "1", *args, code=1, **env)
        assert f"pgdrive: error: {message}\n" in done.stderr


# each transaction adds one amount to an account, a teller and a branch, and writes it into the history: the four sums
# are equal unless a transaction is applied partially
SUMS = """
SELECT (SELECT coalesce(sum(abalance), 0) FROM pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers),
       (SELECT sum(bbalance) FROM pgbench_branches), (SELECT coalesce(sum(delta), 0) FROM pgbench_history)
"""
SESSIONS = """
SELECT 1 FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
HISTORY = "SELECT count(*) FROM pgbench_history"
PIPELINE = r"""
\set aid random(1, 100000 * :scale)
\set bid random(1, 1 * :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
\startpipeline
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
SELECT pg_sleep(0.0005);
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
\endpipeline
"""
CLIENTS = 8
ways = pytest.mark.parametrize(
    ("kind", "protocol", "io"), [("plain", "prepared", "io_uring"), ("pipeline", "extended", "epoll")]
)


def count_committed(server: Server) -> int:
    """Asserts that the balances add up after all sessions ended; returns the transactions."""
    wait_until(lambda: rows(server, SESSIONS) == [])
    (sums,) = rows(server, SUMS)
    assert len(set(sums)) == 1, sums
    # an amount of zero is one of 10,001: sums of nothing would balance as well
    assert sums[0] != 0
    return int(value(server, HISTORY))


@pytest.fixture(scope="module")
def fragile(home: Home) -> Iterator[Server]:
    """A server that may be killed. The system survives, so nothing needs to reach the disk."""
    with opened(home, embedded(settings={**FAST, "synchronous_commit": "on"}), "fragile") as server:
        yield server


@pytest.fixture
def balances(fragile: Server) -> Server:
    run_program([PGDRIVE, "-i", "-q"], env=environment(fragile), code=0)
    return fragile


def start(server: Server, folder: Path, kind: str, protocol: str, io: str) -> Running:
    script = folder / "pipeline.sql"
    script.write_text(PIPELINE)
    # a script of one's own does not ask for the scale
    script_options = ("-s", "1", "-f", str(script)) if kind == "pipeline" else ("-b", "tpcb-like")
    args = ("-n", *script_options, "-c", str(CLIENTS), "-j", "2", "-T", "60", "-M", protocol, f"--io={io}")
    return start_load(environment(server), folder / "load", *args)


@ways
def test_after_the_engine_was_killed(balances: Server, tmp_path: Path, kind: str, protocol: str, io: str) -> None:
    running = start(balances, tmp_path, kind, protocol, io)
    running.wait_for_intervals(1)
    running.process.kill()
    running.process.communicate(timeout=PATIENCE_S)
    assert running.process.returncode == -signal.SIGKILL
    counted = 0
    for line in (tmp_path / "load" / "events.jsonl").read_text().splitlines(keepends=True):
        # the last line may be cut
        if line.endswith("\n") and (event := json.loads(line))["event"] == "interval":
            counted += sum(script["succeeded"] for script in event["scripts"])
    assert 0 < counted <= count_committed(balances)


@ways
def test_after_the_server_died(balances: Server, tmp_path: Path, kind: str, protocol: str, io: str) -> None:
    running = start(balances, tmp_path, kind, protocol, io)
    wait_until(lambda: value(balances, HISTORY) > 50)
    # what `pg_ctl stop -m immediate` sends: no checkpoint, recovery at the next start
    present(find_postmaster(balances.data_directory)).send(signal.SIGQUIT)
    load = running.finish()
    assert load.exit_code == 2
    load.verify()
    assert load.end["clients_aborted"] == CLIENTS
    assert "outages" not in load.end
    balances.restart()
    # all succeeded transactions are there; others were in flight, or were lost with their connection
    succeeded = load.end["succeeded"]
    assert 0 < succeeded <= count_committed(balances) <= succeeded + load.end["in_flight"] + load.ended_with_client
