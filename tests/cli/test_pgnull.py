"""pgnull, the null server: its answers, and the faults that it makes on demand."""

import contextlib
import itertools
import json
import os
import resource
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.cli.conftest import SCALE, Null, NullServer, Run, null_server, processed_count
from tests.cli.messages import message
from tests.load_recount import start_load
from tests.present import present
from tests.run_program import BIN
from tests.waiting import wait_until

ROUNDS = 12
"""Of loads that compare latencies. The first suffices on a quiet machine."""


# ---- what it answers ----


def test_pgbenchs_scripts_run_in_every_protocol(run: Run, null: NullServer) -> None:
    server = null("--threads=2", "--listen=127.0.0.1")
    for protocol in ("simple", "extended", "prepared"):
        for script in ("select-only", "simple-update", "tpcb-like"):
            env = {**server.env, "PGHOST": "127.0.0.1"} if protocol == "simple" else server.env
            done = run("pgdrive", "-b", script, "-M", protocol, "-c", "5", "-t", "40", env=env)
            assert done.returncode == 0, done.stderr
            assert processed_count(done) == "200/200"
            assert f"scaling factor: {SCALE}" in done.stdout
            assert "partition" not in done.stdout
    tasks = Path(f"/proc/{server.process.pid}/task").iterdir()
    assert sum(1 for _ in tasks) == 2


def test_tables_are_loaded_and_rows_of_copy_counted(run: Run, null: NullServer) -> None:
    server = null()
    done = run("pgdrive", "-i", "-s", "1", env=server.env)
    assert done.returncode == 0, done.stderr
    with psycopg.connect(host=str(server.folder), user="somebody", autocommit=True) as connection:
        cursor = connection.cursor()
        with cursor.copy("COPY t FROM STDIN") as copy:
            copy.write("1\n2\n")
            copy.write("3\n")
        assert cursor.rowcount == 3
        assert connection.execute("SELECT count(*) FROM pgbench_branches").fetchone() == (SCALE,)
        row = present(connection.execute("SELECT c FROM sbtest1 WHERE id = %s", ["5"]).fetchone())
        assert len(row[0]) == 120
        with pytest.raises(psycopg.errors.SyntaxError):
            connection.execute("SELEKT 1")


def test_a_client_that_does_not_read_is_answered_in_the_end(null: NullServer) -> None:
    server = null()
    query = message("Q", b"select c from sbtest1\0")
    count = 100_000
    with session(server) as connection:
        connection.sendall(query + message("X"))
        answer_bytes = len(read_to_the_end(connection))
    with session(server) as connection:
        # until neither takes more: the server's answers wait, and so do our questions
        rest = send_some(connection, memoryview(query * count))
        assert rest
        received = 0
        while received < count * answer_bytes:
            chunk = connection.recv(1 << 20)
            assert chunk
            received += len(chunk)
            rest = send_some(connection, rest)
        assert not rest
        connection.sendall(message("X"))
        assert read_to_the_end(connection) == b""


def test_pgnull_accepts_again_when_descriptors_are_free(null: NullServer) -> None:
    server = null()
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (20, 20))
    crowd = [socket.socket(socket.AF_UNIX) for _ in range(40)]
    for connection in crowd:
        connection.connect(str(server.socket_file))
        connection.sendall(STARTUP)
    assert crowd[0].recv(1) == b"R"
    served = 1
    for connection in crowd[1:]:
        connection.settimeout(0.05)
        with contextlib.suppress(TimeoutError):
            served += connection.recv(1) == b"R"
    assert served < 20
    for connection in crowd:
        connection.close()
    with session(server) as connection:
        connection.sendall(message("X"))
        assert read_to_the_end(connection) == b""


# ---- faults on demand ----


def test_an_error_in_a_transaction_is_rolled_back(run: Run, null: NullServer) -> None:
    # a transaction has five statements that can fail: about every third fails once
    server = null("--error-every=15")
    done = run("pgdrive", "-n", "-c", "1", "-t", "30", "--max-tries=5", env=server.env)
    assert done.returncode == 0, done.stderr
    assert processed_count(done) == "30/30"
    assert "number of transactions retried: 0 " not in done.stdout
    assert "number of transactions retried: " in done.stdout


def test_nothing_is_answered_in_a_stall(null: NullServer) -> None:
    server = null("--stall-at=0", "--stall-for=3600")
    with session(server) as first, session(server) as second:
        for connection in (first, second):
            connection.sendall(message("Q", b"select 1\0"))
            connection.settimeout(0.2)
        for connection in (first, second):
            with pytest.raises(TimeoutError):
                connection.recv(1)
        with socket.socket(socket.AF_UNIX) as late:
            late.connect(str(server.socket_file))
            late.sendall(STARTUP)
            late.settimeout(0.2)
            with pytest.raises(TimeoutError):
                late.recv(1)


def test_latency_follows_the_delay(tmp_path: Path) -> None:
    delays_us = (50, 300, 700, 1200)
    script = tmp_path / "one.sql"
    script.write_text("SELECT 1;\n")
    arguments = ("-n", "-f", str(script), "-M", "prepared", "-c", "1", "-T", "0.5")
    p50_us = dict.fromkeys(delays_us, float("inf"))
    with contextlib.ExitStack() as stack:
        servers: dict[int, Null] = {}
        for delay_us in delays_us:
            folder = tmp_path / f"{delay_us} us"
            folder.mkdir()
            servers[delay_us] = stack.enter_context(null_server(folder, f"--delay-us={delay_us}"))
        for number in range(ROUNDS):
            loads = {
                delay_us: start_load(os.environ | server.env, server.folder / f"load {number}", *arguments)
                for delay_us, server in servers.items()
            }
            for delay_us, load in loads.items():
                # in another round one of them may have had no core
                p50_us[delay_us] = min(p50_us[delay_us], load.finish().end["latency_ns"]["p50"] / 1000)
            if follows_the_delays(p50_us):
                return
    raise AssertionError(p50_us)


def follows_the_delays(p50_us: dict[int, float]) -> bool:
    """Tells whether latencies, by delay, differ as the delays do: a round trip and waking take the same with each."""
    return all(
        after_long - after_short == pytest.approx(long - short, rel=0.5)
        for (short, after_short), (long, after_long) in itertools.pairwise(p50_us.items())
    )


# ---- beginning and end ----


def test_pgnull_prints_its_address_and_leaves_nothing_behind(null: NullServer) -> None:
    server = null("--listen=127.0.0.1", "--port=0")
    words = server.ready.split()
    assert words[:3] == ["pgnull:", "ready", "on"]
    file, port = Path(words[3]), int(words[5].removeprefix("127.0.0.1:"))
    assert file == server.folder / f".s.PGSQL.{port}"
    assert file.is_socket()
    with socket.create_connection(("127.0.0.1", port)):
        assert server.stop() == 0
    assert not file.exists()


def test_pgnull_ends_at_ctrl_c_and_with_its_parent_and_two_cannot_have_one_socket(tmp_path: Path) -> None:
    with null_server(tmp_path, "--threads=2") as server:
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(timeout=60) == 0
    with null_server(tmp_path, "--parent-lease", "--threads=2") as server:
        present(server.process.stdin).close()
        assert server.process.wait(timeout=60) == 0
        assert not server.socket_file.exists()
    with null_server(tmp_path) as first:
        with null_server(tmp_path) as second:
            assert second.ready == ""
            assert second.process.wait(timeout=60) == 1
        first.process.kill()
        first.process.wait(timeout=60)
        # that of a process that was killed is taken
        assert first.socket_file.is_socket()
    with null_server(tmp_path) as third:
        assert third.ready.startswith("pgnull: ready on ")


def test_the_reference_names_every_option() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "pgnull.md").read_text()
    usage = subprocess.run([BIN / "pgnull", "--help"], capture_output=True, text=True, timeout=60, check=True)
    options = [line.split()[0].split("=")[0] for line in usage.stdout.splitlines() if line.startswith("  --")]
    assert len(options) > 10
    for option in options:
        assert f"`{option}" in page, option


# ---- a client by hand ----

STARTUP = struct.pack(">II", 8 + len(b"user\0u\0\0"), 3 << 16) + b"user\0u\0\0"


@contextlib.contextmanager
def session(server: Null) -> Iterator[socket.socket]:
    """A session that is ready."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(str(server.socket_file))
        connection.sendall(STARTUP)
        received = b""
        while not received.endswith(b"Z\0\0\0\x05I"):
            chunk = connection.recv(65536)
            assert chunk
            received += chunk
        connection.settimeout(None)
        yield connection


def send_some(connection: socket.socket, rest: memoryview) -> memoryview:
    while rest:
        try:
            rest = rest[connection.send(rest, socket.MSG_DONTWAIT) :]
        except BlockingIOError:
            break
    return rest


def read_to_the_end(connection: socket.socket) -> bytes:
    received = b""
    while chunk := connection.recv(65536):
        received += chunk
    return received


@pytest.mark.parametrize("command", ["\\shell", "\\setshell x"])
def test_a_signal_ends_a_shell_command_of_a_script(tmp_path: Path, command: str) -> None:
    begun, script = tmp_path / "begun", tmp_path / "script.sql"
    script.write_text(f"{command} touch {begun}; sleep 3600\nSELECT 1;\n")
    with null_server(tmp_path) as null:
        arguments = [str(BIN / "pgdrive"), "-n", "-T", "3600", "-f", str(script)]
        process = subprocess.Popen(arguments, env=os.environ | null.env, stderr=subprocess.PIPE, text=True)
        while not begun.exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert "aborted" not in errors


@pytest.mark.parametrize("io", ["epoll", "io_uring"])
def test_a_thousand_clients_are_lost_and_back(tmp_path: Path, io: str) -> None:
    """`pgdrive --reconnect` prints few lines, and forgets no client."""
    clients = 1000
    result, events, said = tmp_path / "result.json", tmp_path / "events.jsonl", tmp_path / "stderr"
    options = ["-S", "-n", f"-c{clients}", "-j2", "-T4", "-R500", "--reconnect", f"--io={io}"]
    command = [str(BIN / "pgdrive"), *options, f"--json={result}", f"--events={events}"]
    with null_server(tmp_path) as server, said.open("w") as errors:
        drive = subprocess.Popen(command, env=os.environ | server.env, stdout=subprocess.DEVNULL, stderr=errors)
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
    assert (end["outage_count"], end["connections_lost"], end["reconnects"]) == (1, clients, clients)
    # the first may be connected again before the last notices its loss
    assert 1 <= end["outages"][0]["clients"] <= clients
    assert sum(error["count"] for error in end["errors"]) == clients
    assert len(said.read_text().splitlines()) < 20
