"""`pgdyno capture --proxy`: what real drivers send through it, what is recorded, and how it ends."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import psycopg
import pytest

from pgdyno.errors import ExitCode
from pgdyno.targets import Home
from pgdyno.targets.cluster.installation import Installation
from tests.postgres.own_servers import OwnServer, running_server
from tests.postgres.pgbouncer import pgbouncer
from tests.postgres.runs import pgdyno
from tests.postgres.test_capture_command import FILES, Capturing, capturing
from tests.postgres.tls_server import PASSWORD, running_tls_server
from tests.present import present
from tests.run_program import run_program
from tests.waiting import PATIENCE_S, wait_until

PGDRIVE = Path(sys.executable).parent / "pgdrive"

_PARAMETERS = b"\0\3\0\0user\0postgres\0database\0shop\0\0"
STARTUP = struct.pack("!i", len(_PARAMETERS) + 4) + _PARAMETERS
SCHEMA = """
CREATE TABLE item (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, price numeric, at timestamptz);
INSERT INTO item (name, price) VALUES ('bread', 2.5), ('milk', 1.25)
"""


@pytest.fixture(scope="module")
def server(installed: Installation) -> Iterator[OwnServer]:
    with running_server(installed, "", "shop") as server:
        server.execute(SCHEMA, dbname="shop")
        yield server


@contextmanager
def proxied(home: Home, folder: Path, where: str, *words: str) -> Iterator[tuple[Capturing, str]]:
    """Captures through a proxy; yields how to connect to it, without more of the capture's steps."""
    with capturing(home, folder, where, "--proxy", "127.0.0.1:0", "--json", *words) as capture:
        said = capture.errors.read_text()
        assert "connect applications to 127.0.0.1:" in said, said
        port = said.partition("connect applications to 127.0.0.1:")[2].partition(";")[0]
        yield capture, f"host=127.0.0.1 port={port} user=postgres dbname=shop"


def ended(capture: Capturing) -> dict[str, Any]:
    capture.stop()
    assert {path.name for path in capture.folder.iterdir()} == FILES
    return dict(capture.printed())


def rows(capture: Capturing, columns: str, where: str = "kind IN ('simple', 'extended')") -> list[tuple[Any, ...]]:
    return duckdb.execute(
        f"SELECT {columns} FROM '{capture.folder}/capture.parquet' WHERE {where} ORDER BY session, seq"
    ).fetchall()


def test_a_session_of_a_driver_is_recorded_with_its_answers(server: OwnServer, home: Home, tmp_path: Path) -> None:
    with proxied(home, tmp_path, server.dsn("shop"), "--values", "kept") as (capture, proxy):
        with psycopg.connect(proxy, autocommit=True) as connection:
            insert = "INSERT INTO item (name, price, at) VALUES (%s, %b, %b) RETURNING id, name, at IS NULL AS none"
            connection.execute(insert, ["tea", 3, None], prepare=True)
            with connection.transaction(), connection.cursor(binary=True) as cursor:
                cursor.execute("SELECT id, name, price FROM item WHERE id < %s ORDER BY id", [3])
            with connection.cursor() as cursor, cursor.copy("COPY item (name, price) FROM STDIN") as copy:
                copy.write_row(("rice\n", 7))
            with suppress(psycopg.errors.DivisionByZero), connection.pipeline():
                for sql, value in (("SELECT %s::int", 1), ("SELECT 1 / %s::int", 0), ("SELECT %s::int", 2)):
                    connection.execute(sql, [value])
        printed = ended(capture)
    assert (printed["source"], printed["sessions"], printed["left_out"]) == ("proxy", 1, [])
    found = rows(capture, "sql, parameters, rows, sqlstate, answer, answer_columns, copy, copy_bytes")
    assert [
        ("INSERT" in sql, parameters, *rest) for sql, parameters, *rest in found if sql not in ("BEGIN", "COMMIT")
    ] == [
        (True, ["tea", "3", None], 1, None, [["3", "tea", None]], ["id", "name", "none"], None, None),
        (False, ["3"], 2, None, [["1", "bread", "2.5"], ["2", "milk", "1.25"]], ["id", "name", "price"], None, None),
        (False, None, 1, None, None, None, [r"rice\n	7"], 9),
        (False, ["1"], 1, None, [["1"]], ["int4"], None, None),
        (False, ["0"], None, "22012", None, None, None, None),
    ]
    assert [each for (each,) in rows(capture, "DISTINCT transaction", "sql = 'COMMIT'")] == [0]


def test_anonymised_answers_equal_their_parameters(server: OwnServer, home: Home, tmp_path: Path) -> None:
    with proxied(home, tmp_path, server.dsn("shop")) as (capture, proxy):
        with psycopg.connect(proxy, autocommit=True) as connection:
            connection.execute("INSERT INTO item (name) VALUES ('a secret')")
            name = present(connection.execute("SELECT name FROM item WHERE name = %s", ["a secret"]).fetchone())
            with connection.cursor() as cursor, cursor.copy("COPY item (name) FROM STDIN") as copy:
                copy.write_row(("a secret",))
            connection.execute("SELECT id FROM item WHERE name = %s", name)
        printed = ended(capture)
    assert [(each["reason"], each["count"]) for each in printed["left_out"]] == [("copy-rows", 1)]
    found = rows(capture, "sql, parameters, answer, copy, copy_bytes")
    ((value,),) = found[1][2]
    assert value != "a secret"
    assert (f"'{value}'" in found[0][0], found[1][1], found[3][1]) == (True, [value], [value])
    assert found[2][3:] == (None, 9)
    assert not any(b"a secret" in path.read_bytes() for path in capture.folder.iterdir())


def test_what_is_not_asked_for_is_left_out_and_counted(server: OwnServer, home: Home, tmp_path: Path) -> None:
    server.execute("CREATE ROLE clerk LOGIN")
    words = ("--application", "till", "--user", "postgres", "--reads")
    with proxied(home, tmp_path, server.dsn("shop"), *words) as (capture, proxy):
        for sql, who in (
            ("SELECT 1", "application_name=till"),
            ("UPDATE item SET price = 2", "application_name=till"),
            ("SELECT 2", "application_name=office"),
            ("SELECT 3", "application_name=till user=clerk"),
        ):
            with psycopg.connect(f"{proxy} {who}", autocommit=True) as connection:
                connection.execute(sql.encode())
        printed = ended(capture)
    assert rows(capture, "sql") == [("SELECT 1",)]
    left_out = {each["reason"]: each["count"] for each in printed["left_out"]}
    assert left_out == {"other-application": 1, "other-user": 1, "writes": 1}
    assert pgdyno(home, tmp_path, "synthesise", str(capture.folder), "--into", "model").returncode == 0


# ---- programs, TLS, poolers ----


@dataclass
class Proxy:
    """`pgdrive --proxy` on its own."""

    process: subprocess.Popen[str]
    port: int

    @property
    def dsn(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=postgres dbname=shop"

    def size_kb(self, name: str) -> int:
        """Its memory by that name in /proc."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition(f"{name}:")[2].split()[0])

    def end(self) -> dict[str, Any]:
        self.process.send_signal(signal.SIGTERM)
        return self.last()

    def last(self) -> dict[str, Any]:
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        return json.loads(out.splitlines()[-1])  # type: ignore[no-any-return]


@contextmanager
def running_proxy(where: str, *words: str, before: Sequence[str] = ()) -> Iterator[Proxy]:
    command = [*before, str(PGDRIVE), "--proxy=127.0.0.1:0", "--parent-lease", *words, where]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            first = json.loads(present(process.stdout).readline())
            assert first["event"] == "listening"
            yield Proxy(process, int(first["address"].rpartition(":")[2]))
        finally:
            process.kill()


def test_tls_and_scram_on_both_sides(installed: Installation, tmp_path: Path) -> None:
    """A client that could bind SCRAM to the channel is told what to set; passwords are not recorded."""
    record = tmp_path / "records"
    with running_tls_server(installed) as secure:
        secure.use("server")
        target = f"host=127.0.0.1 port={secure.port} dbname=postgres sslmode=require"
        with running_proxy(target, "--proxy-tls=new", f"--record={record}") as proxy:
            client = f"host=127.0.0.1 port={proxy.port} dbname=postgres user=by_scram password={PASSWORD}"
            with pytest.raises(psycopg.OperationalError, match="channel_binding=disable"):
                psycopg.connect(f"{client} sslmode=require").close()
            unbound = "sslmode=require channel_binding=disable"
            for rest in (unbound, f"{unbound} sslnegotiation=direct", "sslmode=disable"):
                with psycopg.connect(f"{client} {rest}") as connection:
                    row = connection.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()
                    assert row == (True,)
            last = proxy.end()
    assert (last["refused"], last["open"], last["cut"]) == (1, 0, 0)
    assert record.stat().st_mode & 0o077 == 0
    assert b"SCRAM" not in record.read_bytes()
    assert PASSWORD.encode() not in record.read_bytes()


@pytest.mark.long_cases("alone")
@pytest.mark.parametrize("place", ["alone", "before PgBouncer", "behind PgBouncer"])
def test_programs_work_through_it(server: OwnServer, scratch: Path, place: str) -> None:
    record = scratch / "records"
    words = [str(PGDRIVE), "-i", "-q", "-s", "1", server.dsn("shop")]
    assert run_program(words).returncode == 0
    # Debian's pgbench and psql, and pgdrive itself
    loads = [["pgbench", "-n", "-c", "4", "-t", "25", "-M", mode] for mode in ("simple", "extended", "prepared")]
    loads.append([str(PGDRIVE), "-n", "-c", "4", "-t", "25", "-M", "extended"])
    with ExitStack() as stack:
        port = server.port
        if place == "behind PgBouncer":
            port = stack.enter_context(pgbouncer(server, "session", scratch / "pooler", "shop")).port
        proxy = stack.enter_context(running_proxy(f"host=127.0.0.1 port={port}", f"--record={record}"))
        port = proxy.port
        if place == "before PgBouncer":
            behind: Any = SimpleNamespace(port=proxy.port)
            port = stack.enter_context(pgbouncer(behind, "session", scratch / "pooler", "shop")).port
        for load in loads:
            done = run_program([*load, f"host=127.0.0.1 port={port} user=postgres dbname=shop"])
            assert "100/100" in done.stdout, done.stdout + done.stderr
        sleeping = subprocess.Popen(
            ["psql", "-X", f"host=127.0.0.1 port={port} user=postgres dbname=shop", "-c", "SELECT pg_sleep(600)"],
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: server.value("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%(600)'") == 1)
        sleeping.send_signal(signal.SIGINT)
        assert "canceling statement due to user request" in sleeping.communicate(timeout=PATIENCE_S)[1]
        last = proxy.end()
    assert (last["open"], last["cut"]) == (0, 0)
    found = [json.loads(line) for line in record.read_text().splitlines()]
    updates = sum("UPDATE pgbench_accounts" in each.get("sql", "") for each in found)
    assert updates == 4 * 100
    assert [each["sqlstate"] for each in found if "pg_sleep" in each.get("sql", "")] == ["57014"]


# ---- what goes wrong, and how it ends ----


def test_hostile_clients_and_servers_cost_nothing(server: OwnServer, tmp_path: Path) -> None:
    hostile = [
        b"\x7f\xff\xff\xff" + b"x" * 100, b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x08\x04\xd2\x16\x2f",
        STARTUP + b"Q\x7f\xff\xff\xff" + b"y" * 100_000, STARTUP + b"Q\0\0\0\1", STARTUP + os.urandom(10_000),
    ]  # fmt: skip
    record = tmp_path / "records"
    with running_proxy(f"host=127.0.0.1 port={server.port}", f"--record={record}") as proxy:
        for data in hostile:
            with socket.create_connection(("127.0.0.1", proxy.port), PATIENCE_S) as client, suppress(OSError):
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass
        with psycopg.connect(proxy.dsn) as connection:
            connection.execute("SELECT 'still here'")
        last = proxy.end()
    assert last["open"] == 0
    assert "still here" in record.read_text()


@pytest.mark.parametrize("first", [b"R\x7f\xff\xff\xff", b"R\0\0\0\x08\0\0\0\0D\x7f\xff\xff\xff", b"", b"HTTP/1.1 400"])
def test_a_hostile_server_costs_nothing(first: bytes) -> None:
    def answer(listener: socket.socket) -> None:
        noise = os.urandom(65536)
        with listener.accept()[0] as client, suppress(OSError):
            client.sendall(first)
            for _ in range(1000):
                client.sendall(noise)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, args=(listener,), daemon=True).start()
        where = f"host=127.0.0.1 port={listener.getsockname()[1]} sslmode=disable"
        with running_proxy(where) as proxy, socket.create_connection(("127.0.0.1", proxy.port), PATIENCE_S) as client:
            client.sendall(STARTUP)
            received = 0
            while received < 10_000_000:
                received += len(client.recv(1 << 20))
            assert proxy.size_kb("VmHWM") < 50_000


def test_a_client_that_does_not_read_stops_the_server_and_takes_no_memory(server: OwnServer) -> None:
    where = f"host=127.0.0.1 port={server.port}"
    with running_proxy(where) as proxy, closing(psycopg.connect(proxy.dsn)) as connection:
        connection.pgconn.send_query(b"SELECT repeat('x', 1000) FROM generate_series(1, 1000000)")
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientWrite'"
        wait_until(lambda: server.value(waits) == 1)
        assert proxy.size_kb("VmRSS") < 50_000
        # another session goes on
        with psycopg.connect(proxy.dsn) as other:
            other.execute("SELECT 1")


def test_sessions_may_end_and_idle_ones_are_ended(server: OwnServer) -> None:
    """The first signal lets sessions go on, the second ends idle ones, and 10 s later those in a transaction."""
    with (
        running_proxy(f"host=127.0.0.1 port={server.port}") as proxy,
        closing(psycopg.connect(proxy.dsn, autocommit=True)) as idle,
        closing(psycopg.connect(proxy.dsn)) as busy,
    ):
        busy.execute("SELECT 1")
        proxy.process.send_signal(signal.SIGTERM)
        wait_until(lambda: _refuses(proxy.port))
        idle.execute("SELECT 1")
        proxy.process.send_signal(signal.SIGTERM)
        with pytest.raises(psycopg.OperationalError, match=r"the proxy ends|closed the connection"):
            wait_until(lambda: idle.execute("SELECT 1") is None)
        busy.execute("SELECT 1")
        last = proxy.last()
    assert (last["ended"], last["cut"], proxy.process.returncode) == (2, 1, 128 + signal.SIGTERM)


def test_it_ends_with_the_process_that_started_it(server: OwnServer) -> None:
    with running_proxy(f"host=127.0.0.1 port={server.port}") as proxy, psycopg.connect(proxy.dsn):
        present(proxy.process.stdin).close()
        assert proxy.process.wait(PATIENCE_S) == 0


def _refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return True
    return False


def test_bad_addresses_are_errors_with_a_remedy(server: OwnServer, home: Home, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        for address, words in ((f"127.0.0.1:{port}", "in use"), ("nowhere", "such as 127.0.0.1:6543")):
            done = pgdyno(home, tmp_path, "capture", server.dsn("shop"), "--proxy", address, "--into", "shop")
            assert done.returncode == ExitCode.USAGE
            assert words in done.stderr
            assert not (tmp_path / "shop").exists()
    with running_proxy(f"host=127.0.0.1 port={port}") as proxy:
        with pytest.raises(psycopg.OperationalError, match="the proxy cannot reach the server"):
            psycopg.connect(f"host=127.0.0.1 port={proxy.port} user=postgres")
        assert proxy.end()["unreachable"]


def test_the_limit_ends_the_recording_and_not_the_sessions(server: OwnServer, home: Home, tmp_path: Path) -> None:
    with proxied(home, tmp_path, server.dsn("shop"), "--max-size", "1kB", "--for", "3m") as (capture, proxy):
        with psycopg.connect(proxy, autocommit=True) as connection:
            for number in range(20):
                connection.execute(f"SELECT {number}".encode())
            wait_until(lambda: "recording ended (it reached the limit" in capture.errors.read_text())
            connection.execute("SELECT 'later'")
        printed = ended(capture)
    assert (printed["ended"], printed["calls"]) == ("limit", 20)
    assert "proxy-recording-ended" in [note["id"] for note in printed["notes"]]


def test_a_full_disk_ends_the_recording_and_not_the_sessions(server: OwnServer, tmp_path: Path) -> None:
    record = tmp_path / "records"
    limited = ["bash", "-c", 'ulimit -f 150; trap "" XFSZ; exec "$@"', "limited"]
    with running_proxy(f"host=127.0.0.1 port={server.port}", f"--record={record}", before=limited) as proxy:
        with psycopg.connect(proxy.dsn, autocommit=True) as connection:
            for _ in range(2500):
                connection.execute("SELECT 'many of these'")
        assert proxy.end()["failure"] == "File too large"
    assert proxy.process.returncode == 4
    assert json.loads(record.read_text().partition("\n")[0])["kind"] == "connect"
