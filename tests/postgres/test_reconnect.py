"""`pgdrive --reconnect` against servers that stop and restart."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgdyno.targets.cluster.installation import Installation
from tests.postgres.own_servers import UNHURRIED, OwnServer
from tests.postgres.relay import Relay
from tests.run_program import PGDRIVE, run_program
from tests.scratch import scratch_folder
from tests.waiting import PATIENCE_S, wait_until

Result = dict[str, Any]
BOTH = pytest.mark.parametrize("io", ["epoll", "io_uring"])
PIDS = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'pgdrive'"
CLIENTS = 8
LOAD = ("-t", "40")
"""A load of 8 clients, of which UNHURRIED lets one commit at a time: it takes 3 s and more. By its number of
transactions, it does not end while a server is away, however long it takes to return.
"""


@pytest.fixture(scope="module")
def loaded(installed: Installation) -> Iterator[OwnServer]:
    """A server with pgbench's tables that is down, for tests to copy."""
    folder = scratch_folder()
    server = OwnServer.make(installed, folder / "loaded")
    server.start()
    run_program([PGDRIVE, "-i", "-q"], env=server.environment(), code=0)
    server.stop()
    yield server
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def own(loaded: OwnServer, scratch: Path) -> Iterator[OwnServer]:
    server = loaded.copy(scratch / "one")
    server.start()
    yield server
    if server.is_running():
        server.stop("immediate")


@pytest.fixture
def unhurried(own: OwnServer) -> OwnServer:
    """The server for clients that are always in a transaction, with few transactions per second."""
    with own.connect() as connection:
        connection.execute(UNHURRIED.encode())
    return own


class Drive:
    def __init__(self, server: OwnServer, folder: Path, *args: str, **env: str) -> None:
        self.json, self.events, self.errors = (folder / name for name in ("result.json", "events.jsonl", "stderr"))
        command = [str(PGDRIVE), "-n", f"--json={self.json}", f"--events={self.events}", *args]
        env = {**server.environment(), **env}
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.seen("interval")

    def seen(self, event: str) -> None:
        def is_there() -> bool:
            assert self.process.poll() is None, self.errors.read_text()
            return self.events.exists() and f'"event":"{event}"' in self.events.read_text()

        wait_until(is_there)

    def end(self, exit_code: int = 0) -> Result:
        """Returns the results, and asserts that they account for every scheduled transaction."""
        self.summary, _ = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == exit_code, self.errors.read_text()
        result: Result = json.loads(self.json.read_text())
        ended = result["succeeded"] + result["failed"] + result["skipped"]
        assert result["scheduled"] == ended + result["in_flight"]
        scripts = result["scripts"]
        assert sum(script["lost"] for script in scripts) == result["lost"] <= result["failed"]
        return result

    def events_of(self, kind: str) -> list[Result]:
        events = [json.loads(line) for line in self.events.read_text().splitlines()]
        return [event for event in events if event["event"] == kind]


def slow_reads(folder: Path) -> tuple[str, str]:
    script = folder / "slow.sql"
    script.write_text("SELECT pg_sleep(0.01);\n")
    return "-f", str(script)


def assert_counts_agree_with_the_server(server: OwnServer, result: Result) -> None:
    """Every succeeded transaction is in the database, lost ones may be, and none is there in part."""
    sums = {
        server.value(f"SELECT coalesce(sum({column}), 0) FROM {table}")
        for table, column in [
            ("pgbench_accounts", "abalance"),
            ("pgbench_tellers", "tbalance"),
            ("pgbench_branches", "bbalance"),
            ("pgbench_history", "delta"),
        ]
    }
    assert len(sums) == 1
    rows = server.value("SELECT count(*) FROM pgbench_history")
    assert result["succeeded"] <= rows <= result["succeeded"] + result["lost"]


def assert_one_outage(result: Result, clients: int = CLIENTS) -> Result:
    """Returns the only outage, after which all clients reconnected."""
    assert (result["outcome"], result["outage_count"], result["clients_aborted"]) == ("finished", 1, 0)
    outage: Result = result["outages"][0]
    assert outage["length_us"] >= 0
    assert outage["first_success_us"] >= 0
    assert outage["connections_lost"] == outage["reconnects"] == result["connections_lost"]
    assert outage["transactions_lost"] == result["lost"]
    assert 1 <= outage["clients"] <= clients
    assert outage["clients_never_back"] == 0
    return outage


@BOTH
def test_terminated_backends(unhurried: OwnServer, tmp_path: Path, io: str) -> None:
    log = ["-l", f"--log-prefix={tmp_path}/log", *(["--failures-detailed"] * (io == "epoll"))]
    options = ["-c", "8", "-j", "2", *LOAD, "-M", "prepared", "--reconnect", f"--io={io}", *log]
    drive = Drive(unhurried, tmp_path, *options)
    assert unhurried.value(PIDS) == CLIENTS
    result = drive.end()
    outage = assert_one_outage(result)
    assert (outage["connections_lost"], result["in_flight"]) == (CLIENTS, 0)
    assert 1 <= result["lost"] <= CLIENTS
    assert_counts_agree_with_the_server(unhurried, result)
    # a client that was about to send may see the reset before it sees the server's last words
    counts = {error["sqlstate"]: error["count"] for error in result["errors"]}
    assert counts["57P01"] >= 1
    assert sum(counts.values()) == CLIENTS
    assert [event["state"] for event in drive.events_of("outage")] == ["began", "ended"]
    assert "number of outages: 1" in drive.summary
    assert len(drive.errors.read_text().splitlines()) < 2 * CLIENTS
    # the log has a word for lost ones
    words = [line.split()[2] for file in tmp_path.glob("log.*") for line in file.read_text().splitlines()]
    assert words.count("lost" if io == "epoll" else "failed") == result["lost"]
    if io == "epoll":
        assert f"transactions lost with their connections: {result['lost']} (" in drive.summary


@pytest.mark.parametrize(("io", "clients"), [("epoll", CLIENTS), ("io_uring", 1)])
def test_no_start_of_a_phase_is_lost_with_a_connection(own: OwnServer, tmp_path: Path, io: str, clients: int) -> None:
    """The next client and those standing by are among the lost: others take over their starts."""
    # a load that a busy machine keeps up with: what it does not come to is unstarted, too
    rate, seconds = 100, 3
    script = tmp_path / "row.sql"
    script.write_text("INSERT INTO pgbench_history (tid, bid, aid, delta) VALUES (1, 1, 1, 0);\n")
    phase = f'[[phase]]\nname = "%s"\nduration = "{seconds}s"\nrate = {rate}\n'
    phases = tmp_path / "phases.toml"
    phases.write_text(phase % "before" + phase % "after")
    load = ["-f", str(script), f"-c{clients}", f"--phases={phases}", "-M", "prepared"]
    drive = Drive(own, tmp_path, *load, "--reconnect", f"--io={io}")
    assert own.value(PIDS) == clients
    result = drive.end()
    assert_one_outage(result, clients)
    assert_counts_agree_with_the_server(own, result)
    expected = rate * seconds
    # starts go on after the loss as before: what a busy machine does not come to is unstarted in both
    before, after = (one["succeeded"] for one in result["phases"])
    assert after > before / 10 > 0
    for one in result["phases"]:
        assert one["scheduled"] == one["succeeded"] + one["failed"] + one["skipped"] + one["in_flight"]
        # five standard deviations of a Poisson count
        assert abs(one["scheduled"] + one["unstarted"] - expected) < 5 * expected**0.5


@pytest.mark.parametrize(
    ("io", "mode", "protocol"), [("epoll", "immediate", "simple"), ("io_uring", "fast", "extended")]
)
def test_a_server_that_is_down_for_a_while(
    unhurried: OwnServer, tmp_path: Path, io: str, mode: str, protocol: str
) -> None:
    drive = Drive(unhurried, tmp_path, "-c", "8", "-j", "2", *LOAD, "-M", protocol, "--reconnect", f"--io={io}")
    unhurried.stop(mode)
    time.sleep(2)
    unhurried.start()
    result = drive.end()
    outage = assert_one_outage(result)
    assert result["lost"] >= 1
    assert outage["clients"] == CLIENTS
    assert outage["failed_attempts"] >= CLIENTS
    assert 2_000_000 <= outage["all_away_us"] <= outage["length_us"]
    assert_counts_agree_with_the_server(unhurried, result)


@BOTH
def test_a_server_that_never_returns(own: OwnServer, tmp_path: Path, io: str) -> None:
    drive = Drive(own, tmp_path, "-S", "-c", "8", "-j", "2", "-T", "60", "--reconnect=1s", f"--io={io}")
    own.stop("immediate")
    result = drive.end(exit_code=2)
    assert (result["outcome"], result["clients_aborted"]) == ("aborted", CLIENTS)
    [outage] = result["outages"]
    assert (outage["length_us"], outage["first_success_us"]) == (None, None)
    assert (outage["clients_never_back"], outage["reconnects"]) == (CLIENTS, 0)
    assert "aborted while reconnecting; there was no connection for" in drive.errors.read_text()


def test_a_server_that_is_gone_at_the_end(own: OwnServer, tmp_path: Path) -> None:
    drive = Drive(own, tmp_path, *slow_reads(tmp_path), "-c", "8", "-T", "6", "--reconnect")
    own.stop("immediate")
    result = drive.end()
    assert (result["outcome"], result["clients_aborted"]) == ("finished", 0)
    assert result["outages"][0]["length_us"] is None
    assert result["outages"][0]["clients_never_back"] == CLIENTS
    assert result["measured_s"] >= 6, "time without a server was measured, too"


@pytest.mark.parametrize("change", ["password", "database"])
def test_errors_that_reconnecting_cannot_fix_end_the_clients(own: OwnServer, tmp_path: Path, change: str) -> None:
    """Rust's tests (reconnect/tests.rs) have the codes of others."""
    with own.connect() as connection:
        connection.execute("CREATE ROLE guest LOGIN SUPERUSER PASSWORD 'secret'")
        connection.execute("CREATE DATABASE theirs TEMPLATE postgres")
    env = {"PGHOST": "127.0.0.1", "PGUSER": "guest", "PGDATABASE": "theirs", "PGPASSWORD": "guessed"}
    drive = Drive(own, tmp_path, "-S", "-c", "4", "-T", "60", "-R", "200", "--reconnect", **env)
    with own.connect() as connection:
        if change == "password":
            hba = own.data / "pg_hba.conf"
            hba.write_text("local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
            connection.execute("SELECT pg_reload_conf()")
            # the server reads the file in its own time
            wait_until(lambda: not own.admits("guest", "guessed"))
            connection.execute(PIDS.encode())
        else:
            connection.execute("DROP DATABASE theirs WITH (FORCE)")
    result = drive.end(exit_code=2)
    assert (result["outcome"], result["clients_aborted"]) == ("aborted", 4)
    said = drive.errors.read_text()
    words = {
        "password": 'password authentication failed for user "guest"',
        "database": 'database "theirs" does not exist',
    }
    assert words[change] in said
    assert "guessed" not in said + drive.summary


def test_a_failover_to_another_host(unhurried: OwnServer, loaded: OwnServer, tmp_path: Path, scratch: Path) -> None:
    other = loaded.copy(scratch / "two")
    other.start()
    try:
        with other.connect() as connection:
            connection.execute(UNHURRIED.encode())
        target = (
            f"host=127.0.0.1,127.0.0.1 port={unhurried.port},{other.port} user=postgres dbname=postgres"
            " target_session_attrs=read-write"
        )
        drive = Drive(unhurried, tmp_path, "-c", "8", "-j", "2", *LOAD, "--reconnect", "-d", target)
        assert unhurried.value("SELECT count(*) FROM pgbench_history") > 0
        unhurried.stop("immediate")
        result = drive.end()
        assert_one_outage(result)
        assert other.value("SELECT count(*) FROM pgbench_history") > 0
    finally:
        other.stop("immediate")


@pytest.mark.long_cases("epoll")
@BOTH
def test_a_connection_a_transaction(unhurried: OwnServer, tmp_path: Path, io: str) -> None:
    drive = Drive(unhurried, tmp_path, "-C", "-c", "8", "-j", "2", *LOAD, "--reconnect", f"--io={io}")
    unhurried.stop("immediate")
    time.sleep(0.5)
    unhurried.start()
    result = drive.end()
    assert (result["outcome"], result["outage_count"]) == ("finished", 1)
    outage = result["outages"][0]
    assert outage["failed_attempts"] >= CLIENTS
    assert outage["clients"] == outage["reconnects"] == CLIENTS
    assert_counts_agree_with_the_server(unhurried, result)


def test_logs_of_intervals_have_a_column_for_lost_ones(unhurried: OwnServer, tmp_path: Path) -> None:
    log = ["-l", f"--log-prefix={tmp_path}/log", "--failures-detailed", "--aggregate-interval=1"]
    drive = Drive(unhurried, tmp_path, "-c", "8", *LOAD, "--reconnect", *log)
    unhurried.value(PIDS)
    lost = drive.end()["lost"]
    lines = [line.split() for file in tmp_path.glob("log.*") for line in file.read_text().splitlines()]
    assert {len(line) for line in lines} == {16}
    assert 1 <= sum(int(line[15]) for line in lines) <= lost


def test_a_signal_ends_waiting(own: OwnServer, tmp_path: Path) -> None:
    drive = Drive(own, tmp_path, "-S", "-c", "8", "-T", "300", "--reconnect")
    own.stop("immediate")
    drive.seen("outage")
    drive.process.terminate()
    result = drive.end(exit_code=143)
    assert (result["outcome"], result["outage_count"]) == ("interrupted", 1)


def test_a_start_without_a_server_fails_at_once(loaded: OwnServer) -> None:
    done = run_program([PGDRIVE, "-S", "-n", "-T", "60", "--reconnect"], env=loaded.environment(), code=1)
    assert "Is the server running locally" in done.stderr


def test_a_host_that_has_gone_silent_holds_up_no_other_client(own: OwnServer, tmp_path: Path) -> None:
    """One client's connections get no answer; the other clients of its worker continue."""
    relay = Relay(own.port)
    address = {"PGHOST": "127.0.0.1", "PGPORT": str(relay.port)}
    drive = Drive(own, tmp_path, *slow_reads(tmp_path), "-c4", "-j1", "-T", "4", "--reconnect", **address)
    relay.silence_one()
    result = drive.end()
    relay.close()
    assert (result["outage_count"], result["outages"][0]["clients"]) == (1, 1)
    whole = [event for event in drive.events_of("interval") if event["phase"] == "measure"]
    assert len(whole) >= 4
    assert all(sum(script["succeeded"] for script in event["scripts"]) > 0 for event in whole)
