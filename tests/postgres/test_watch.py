"""`pgdyno watch` against real servers: what it shows, what it hides, and that it survives errors."""

import json
import os
import signal
import subprocess
import termios
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgdyno.targets import Server, response_limits
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.cluster.processes import descendants, identify
from pgdyno.targets.connection import Address
from pgdyno.watch.find_server import WatchedServer
from pgdyno.watch.polling import Polling
from tests.forked import run_pgdyno
from tests.postgres.own_servers import OwnServer, running_server
from tests.postgres.relay import Relay, SilentProxy
from tests.postgres.watch_process import Terminal, clean, load, objects, terminal
from tests.present import present
from tests.processes import command_line
from tests.run_program import BIN
from tests.waiting import PATIENCE_S, wait_until

LEFT = "\x1b[?1049l"
"""What puts back the terminal's own screen."""
SPACE_OF_200 = " " * 150
"""On no line of a narrow terminal."""


@pytest.fixture(scope="module")
def loaded(server: Server) -> Iterator[Server]:
    with load(server):
        yield server


def watch_once(environment: dict[str, str], *args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    env = clean(environment | {"COLUMNS": "120"})
    done = run_pgdyno(["watch", "--once", *args], cwd=Path.cwd(), env=env)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_one_frame_has_the_load_in_it_and_no_password(loaded: Server) -> None:
    done = watch_once(loaded.environment())
    for word in ("PostgreSQL 18.", "active by wait", "pgdrive", "CPU  ", "processes by I/O", "(data wal)"):
        assert word in done.stdout, done.stdout
    assert loaded.password
    assert loaded.password not in done.stdout + done.stderr
    # the command alone
    assert "pgbench_accounts" not in done.stdout
    assert "pgbench_" in watch_once(loaded.environment(), "--queries").stdout


def test_json_is_an_object_a_second_with_true_figures_and_no_process_has_the_password(loaded: Server) -> None:
    def is_whole(each: dict[str, Any]) -> bool:
        """Other processes may delay the load or the probe for a second, and the WAL writer sleeps for some."""
        return (
            (each["tps"] or 0) > 0
            and (each["wal_bytes_per_s"] or 0) > 0
            and sum(each["active"].values()) > 0
            and each["sessions"] == 4
            and 0 < each["cpu"]["busy"] <= 1.01
            and {"client backend", "walwriter"} <= {process["kind"] for process in each["processes"]}
        )

    assert loaded.password
    uri = f"host={loaded.host} port={loaded.port} user={loaded.user} dbname={loaded.dbname}"
    with objects({"PGPASSWORD": loaded.password}, uri) as told:
        first = told.wait_for(is_whole)
        second = told.wait_for(lambda _: True)
        lines = [command_line(each.pid) for each in descendants(present(identify(told.process.pid)))]
    assert any(b"pgprobe" in line for line in lines)
    assert not any(loaded.password.encode() in line for line in lines)
    assert first["v"] == 1
    assert first["server"].startswith(f"{loaded.user}@[local]")
    assert sum(first["active"].values()) <= 4
    assert sum(first["active"].values()) == pytest.approx(sum(first["waits"].values()))
    assert {each["application"] for each in first["backends"]} <= {"pgdrive"}
    assert first["processors"] >= 1
    assert first["disks"][0]["holds"] == "data wal"
    # a second, unless a busy machine delays the first sample
    assert 0 < second["at_s"] - first["at_s"] < PATIENCE_S


def unknown_password(server: Server) -> dict[str, str]:
    kept = {name: value for name, value in server.environment().items() if name != "PGPASSWORD"}
    return kept | {"PGHOST": "127.0.0.1", "PGPASSFILE": "/dev/null"}


def test_without_a_password_and_a_terminal_it_says_how_to_give_one(server: Server) -> None:
    assert "PGPASSWORD" in watch_once(unknown_password(server), code=4).stderr
    assert "hunter2" not in watch_once({}, "postgresql://u:hunter2@[nothing", code=2).stderr


def test_a_terminal_asks_for_the_password_is_filled_and_left_whole(server: Server) -> None:
    with terminal(unknown_password(server), (80, 24), "--interval=60") as shown:
        shown.wait_for("Password: ")
        assert server.password
        shown.type(f"{server.password}\n")
        shown.wait_for("active sessions")
        assert server.password not in shown.written
        assert SPACE_OF_200 not in shown.written
        shown.resize(200, 60)
        shown.wait_for(SPACE_OF_200)
        # Ctrl-Z gives the terminal back until the process continues
        begun = len(shown.written)
        shown.process.send_signal(signal.SIGTSTP)
        shown.wait_stopped()
        assert LEFT in shown.written[begun:]
        assert termios.tcgetattr(shown.theirs) == shown.before
        shown.process.send_signal(signal.SIGCONT)
        shown.wait_for("active sessions")
        assert shown.written.rindex("\x1b[?1049h") > shown.written.rindex(LEFT)
        assert_left_whole(shown, signal.SIGINT, 130)


def assert_left_whole(shown: Terminal, number: int, code: int) -> None:
    begun = len(shown.written)
    shown.process.send_signal(number)
    assert shown.end() == code
    assert LEFT in shown.written[begun:]
    assert "Traceback" not in shown.written
    assert termios.tcgetattr(shown.theirs) == shown.before


def test_a_statement_cannot_steer_the_terminal(server: Server) -> None:
    with server.connect() as connection, terminal(server.environment(), (200, 60), "--queries") as shown:
        connection.execute("BEGIN")
        connection.execute('SELECT 1 "\x1b]0;T\x07"')
        shown.wait_for('SELECT \\? "\ufffd')
        assert "\x1b]0;" not in shown.written
        assert "\x07" not in shown.written
        assert_left_whole(shown, signal.SIGTERM, 143)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_the_processors_are_those_that_the_server_may_use(installed: Installation, scratch: Path) -> None:
    own = OwnServer.make(installed, scratch / "own")
    own.start(within=["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))])
    try:
        frame = json.loads(watch_once(own.environment(), "--json").stdout)
    finally:
        own.stop("immediate")
    assert frame["processors"] == 1


def test_a_standby_shows_the_wal_that_it_receives(installed: Installation, scratch: Path) -> None:
    own = OwnServer.make(installed, scratch / "own")
    # a start notes max_connections in the cluster, which a standby compares with its own
    own.start()
    own.stop()
    standby = own.copy(scratch / "standby")
    standby.configure(f"primary_conninfo = 'host={own.folder} port={own.port} user=postgres'\n")
    (standby.data / "standby.signal").touch()
    own.start()
    try:
        standby.start()
        with own.connect() as connection, objects(standby.environment()) as told:
            connection.execute("CREATE TABLE written AS SELECT generate_series(1, 10) AS number")
            told.wait_for(lambda each: each["wal_bytes_per_s"] is not None)
            connection.execute("INSERT INTO written SELECT generate_series(1, 100000)")
            told.wait_for(lambda each: (each["wal_bytes_per_s"] or 0) > 1e6)
    finally:
        if standby.is_running():
            standby.stop("immediate")
        own.stop("immediate")


def test_statements_that_take_the_time_are_shown_without_values(installed: Installation) -> None:
    settings = "shared_preload_libraries = 'pg_stat_statements'\n"
    with running_server(installed, settings) as own, own.connect() as connection:
        connection.execute("CREATE EXTENSION pg_stat_statements")
        over = threading.Event()

        def work() -> None:
            while not over.is_set():
                connection.execute("SELECT pg_sleep(0.1), 'of nobody else' AS secret")

        working = threading.Thread(target=work)
        working.start()
        try:
            with objects(own.environment(), "--queries") as told:
                # pgprobe requests a text after its statement was seen
                frame = told.wait_for(lambda each: any(row["query"] for row in each["statements"]))
        finally:
            over.set()
            working.join()
    first = frame["statements"][0]
    assert first["query"] == "SELECT pg_sleep($1), $2 AS secret"
    assert first["calls_per_s"] > 0
    assert first["mean_ms"] >= 100
    # one session calls it, as often as the machine lets it
    assert first["sessions"] == pytest.approx(first["calls_per_s"] * first["mean_ms"] / 1000)
    assert not any("pg_stat_statements" in each["query"] for each in frame["statements"])


def test_a_server_elsewhere_is_watched_over_sql_alone(server: Server) -> None:
    relay = Relay(server.port)
    # with a relay, the server's peer of the connection is not this process
    environment = server.environment() | {"PGHOST": "127.0.0.1", "PGPORT": str(relay.port)}
    try:
        done = watch_once(environment)
    finally:
        relay.close()
    assert done.stderr.count("note: the server's host is not visible") == 1
    assert "checkpoint" in done.stdout
    assert "processes by I/O" not in done.stdout


def test_lines_for_a_pipe_end_with_whoever_reads_them(server: Server) -> None:
    with subprocess.Popen(
        [BIN / "pgdyno", "watch"], env=clean(server.environment()), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert " ".join(process.stdout.readline().split()).startswith("time tps active CPU steal disk WAL/s")
        assert len(process.stdout.readline().split(":")) >= 3
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 0


def test_a_session_that_falls_silent_is_replaced(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_limits, "ANSWER_S", 2.0)
    with SilentProxy(server.port, b"pg_stat_database", whole=False) as proxy:
        parameters = {**server.address.parameters, "host": "127.0.0.1", "port": str(proxy.port), "connect_timeout": "9"}
        with Polling(WatchedServer(Address(parameters, server.password), "postgres")) as polling:
            # by another session
            wait_until(polling.take_lines)
        assert proxy.silent.is_set()
