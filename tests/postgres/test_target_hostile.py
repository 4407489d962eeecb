"""Misconfigured and hostile servers and roles over the network: a clear error before the run, or none at all."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest

from pgdyno.errors import ExitCode, TargetError
from pgdyno.records import Outcome, Stage
from pgdyno.store import RunFolder
from pgdyno.targets import Home, Server, SilentProgress, fetch_target, response_limits
from pgdyno.targets.cluster.reconfigure import reconfigure
from pgdyno.targets.connection import Address
from pgdyno.targets.dsn.reach import Reached
from pgdyno.targets.dsn.schema import DsnTarget
from pgdyno.targets.embedded.schema import EmbeddedTarget
from pgdyno.targets.response_limits import Look, SilentServerError
from tests.cli.hostile import (
    DONE,
    GUARD_S,
    HELLO,
    READY,
    Hostile,
    Misdeed,
    Peer,
    auth,
    columns,
    hostile,
    message,
    parameter,
    refusal,
    row,
)
from tests.postgres.servers import opened, value
from tests.postgres.silent_proxy import silent_proxy
from tests.present import present
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
ROLE_SETTINGS = {
    "statement_timeout": "1ms",
    "lock_timeout": "1ms",
    "idle_in_transaction_session_timeout": "1ms",
    "row_security": "off",
    "client_encoding": "LATIN1",
    "datestyle": "German",
    "bytea_output": "escape",
    "standard_conforming_strings": "off",
    "quote_all_identifiers": "on",
    "transform_null_equals": "on",
}


@pytest.fixture(scope="module")
def theirs(home: Home) -> Iterator[Server]:
    spec = EmbeddedTarget(kind="embedded", version="18", settings={"fsync": "off"}, connect="tcp")
    with opened(home, spec, "theirs") as server:
        yield server


@pytest.fixture(scope="module", autouse=True)
def variables() -> Iterator[None]:
    """Only the role's password is in the environment, and nothing of another server."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("PG") and not name.startswith("PGDYNO")]:
            patch.delenv(name)
        patch.setenv("BENCH_PASSWORD", "theirs")
        yield


@pytest.fixture(autouse=True)
def role(theirs: Server) -> Iterator[None]:
    """A role for pgdyno, created again for each test."""
    with theirs.connect("postgres") as connection:
        connection.execute("CREATE ROLE bench LOGIN CREATEDB PASSWORD 'theirs'")
        yield
        for name in ("measured", "measured_too"):
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
        connection.execute("DROP OWNED BY bench; DROP ROLE bench; DROP SCHEMA IF EXISTS evil CASCADE")


def spec(port: int, host: str = "127.0.0.1", **fields: object) -> DsnTarget:
    given = {
        "kind": "dsn",
        "dsn": f"host={host} port={port} user=bench sslmode=disable gssencmode=disable",
        "password_env": "BENCH_PASSWORD",
        "database": "measured",
    }
    return DsnTarget.model_validate({**given, **fields})


def reach_first_trial(theirs: Server, home: Home) -> None:
    """Runs everything that precedes the first trial of a run."""
    with opened(home, spec(theirs.port), "far") as server:
        assert server.facts().version.startswith("18.")
        assert value(server, "SELECT count(*) FROM pg_database WHERE datname = 'measured'") == 1


@pytest.mark.parametrize("setting", ROLE_SETTINGS)
def test_a_roles_setting_does_not_keep_pgdyno_off(theirs: Server, home: Home, setting: str) -> None:
    with theirs.connect("postgres") as connection:
        connection.execute(f"ALTER ROLE bench SET {setting} = '{ROLE_SETTINGS[setting]}'".encode())
    for _ in range(3):
        reach_first_trial(theirs, home)


def test_a_time_limit_that_is_lifted_is_still_told(theirs: Server, home: Home) -> None:
    with theirs.connect("postgres") as connection:
        connection.execute("ALTER ROLE bench SET statement_timeout = '30s'")
    with opened(home, spec(theirs.port), "far") as server:
        assert value(server, "SHOW statement_timeout") == "0"
        assert server.facts().settings_changed["statement_timeout"] == "30s"


@pytest.mark.parametrize("limit", ["idle_session", "idle_in_transaction_session", "transaction"])
def test_a_limit_that_ends_sessions_is_lifted_too(theirs: Server, home: Home, limit: str) -> None:
    limit = f"{limit}_timeout"
    with theirs.connect("postgres") as connection:
        connection.execute(f"ALTER ROLE bench SET {limit} = '20s'".encode())
    with opened(home, spec(theirs.port), "far") as server:
        with server.connect() as connection:
            assert connection.execute(f"SHOW {limit}".encode()).fetchone() == ("0",)
        assert server.facts().settings_changed[limit] == "20s"


def test_a_time_limit_of_the_plan_is_in_force(home: Home) -> None:
    own = EmbeddedTarget(kind="embedded", version="18", settings={"statement_timeout": "20s"})
    with opened(home, own) as server:
        assert server.facts().settings_changed["statement_timeout"] == "20s"
        done = reconfigure(server, {"statement_timeout": "25s", "lock_timeout": "26s"})
        assert done is not None
        assert done.values == {"statement_timeout": "25s", "lock_timeout": "26s"}


def test_a_role_that_may_only_read_is_refused(theirs: Server, home: Home) -> None:
    with theirs.connect("postgres") as connection:
        connection.execute("ALTER ROLE bench SET default_transaction_read_only = on")
    with pytest.raises(TargetError, match=r"target far: cannot create the database measured: .* read-only transaction"):
        reach_first_trial(theirs, home)


EVIL = """
CREATE SCHEMA evil;
CREATE TABLE evil.stolen (who text);
GRANT ALL ON SCHEMA evil TO bench;
GRANT ALL ON evil.stolen TO bench;
CREATE FUNCTION evil.current_setting(text) RETURNS text LANGUAGE plpgsql
    AS 'BEGIN INSERT INTO evil.stolen VALUES (current_user); RETURN ''66.6''; END';
CREATE FUNCTION evil.same(name, name) RETURNS bool LANGUAGE plpgsql
    AS 'BEGIN INSERT INTO evil.stolen VALUES (current_user); RETURN true; END';
CREATE OPERATOR evil.= (FUNCTION = evil.same, LEFTARG = name, RIGHTARG = name);
CREATE VIEW evil.pg_settings AS SELECT 'hacked'::text AS name, 'x'::text AS context;
CREATE VIEW evil.pg_roles AS SELECT true AS rolsuper, 'nonsense'::text AS rolname;
CREATE VIEW evil.pg_database AS SELECT 1::oid AS oid, 'measured'::name AS datname;
GRANT SELECT ON ALL TABLES IN SCHEMA evil TO bench;
ALTER ROLE bench SET search_path = evil, pg_catalog, "$user", public;
"""


def test_names_that_hide_the_servers_own_are_not_used(theirs: Server, home: Home) -> None:
    with theirs.connect("postgres") as connection:
        connection.execute(EVIL)
        reach_first_trial(theirs, home)
        assert connection.execute("SELECT count(*) FROM evil.stolen").fetchone() == (0,)


def test_options_of_a_connection_string_are_not_shown() -> None:
    target = spec(1).model_copy(update={"dsn": "host=127.0.0.1 port=1 user=bench options='-c app.token=secret'"})
    with pytest.raises(TargetError) as caught:
        fetch_target("far", target, home=Home.locate(), progress=SilentProgress())
    assert "options" in caught.value.message
    assert "secret" not in caught.value.message


# ---- what is no server ----


def answers(*what: bytes) -> Misdeed:
    """Greets, and gives the same answer to every message."""

    def misdeed(peer: Peer) -> None:
        peer.greet()
        while True:
            peer.receive()
            for each in what:
                peer.send(each)

    return misdeed


def hangs_up(peer: Peer) -> None:
    peer.greet()
    peer.receive()
    peer.reset()


def is_silent(peer: Peer) -> None:
    peer.greet()
    peer.hear()


def starts(what: bytes, endless: Callable[[], bytes] | None = None) -> Misdeed:
    """Sends this instead of a greeting, and then continues without end, or is silent."""

    def misdeed(peer: Peer) -> None:
        peer.receive()
        peer.send(what)
        while endless is not None:
            peer.send(endless())
        peer.hear()

    return misdeed


def pours(begin: bytes, endless: bytes) -> Misdeed:
    """Greets, and answers the first query without an end."""

    def misdeed(peer: Peer) -> None:
        peer.greet()
        peer.receive()
        peer.send(begin)
        while True:
            peer.send(endless)

    return misdeed


def breaks_off(end: Callable[[Peer], None]) -> Misdeed:
    """Greets, and ends in the middle of a row."""

    def misdeed(peer: Peer) -> None:
        peer.greet()
        peer.receive()
        peer.send(columns("a") + row(b"0")[:7])
        end(peer)

    return misdeed


def wants_many_iterations(peer: Peer) -> None:
    """A proof of the password that takes minutes to compute."""
    peer.receive()
    peer.send(auth(10, b"SCRAM-SHA-256\0\0"))
    nonce = present(re.search(rb"r=([\w+/=]+)", peer.receive()))
    peer.send(auth(11, b"r=" + nonce[1] + b"x,s=c2FsdA==,i=2000000000"))
    peer.hear()


def names() -> Callable[[], bytes]:
    numbers = count()
    return lambda: b"".join(parameter(f"name{next(numbers)}") for _ in range(1000))


WRONG_TYPES = columns("a") + row(b"\xff\xfe nonsense") + DONE
NOTICES = message("N", b"SNOTICE\0VNOTICE\0C00000\0Mhello\0\0") * 1000
STARTS = {
    "text": starts(b"HTTP/1.1 200 OK\r\n\r\n"),
    "bytes": starts(bytes(range(256)) * 100),
    "a message of 2 GB": starts(b"R\x7f\xff\xff\xff", lambda: bytes(65536)),
    "a message of a negative length": starts(b"R\xff\xff\xff\xff"),
    "an error of 2 GB": starts(b"E\x7f\xff\xff\xff", lambda: b"x" * 65536),
    "a parameter of 1 GB": starts(auth(0) + b"S\x3f\xff\xff\xff", lambda: b"x" * 65536),
    "endless notices": starts(auth(0), lambda: NOTICES),
    "endless parameters": starts(auth(0), names()),
    "an authentication that nobody knows": starts(auth(77)),
    "2000000000 iterations of a hash": wants_many_iterations,
    "half a message": starts(HELLO[:11]),
    "nothing": starts(b""),
}
"""What comes in place of a greeting."""
ANSWERS = {
    "it refuses the first query": answers(refusal(b"no") + READY),
    "it refuses in no known way": answers(refusal(b"no", sqlstate="?????") + READY),
    "it answers nonsense": answers(WRONG_TYPES),
    "it answers empty text": answers(columns("a") + row(b"") + DONE),
    "it answers nothing at all": answers(columns("a") + DONE),
    "it answers without a result": answers(message("C", b"SET\0") + READY),
    "it answers more columns than it announced": answers(columns("a") + row(b"0", b"1", b"2") + DONE),
    "it answers 65535 columns in no bytes": answers(columns("a") + message("D", b"\xff\xff") + DONE),
    "it answers a value of a negative length": answers(columns("a") + message("D", b"\0\1\x80\0\0\0") + DONE),
    "it sends what is no message": answers(b"\0\0\0\0garbage"),
    "it sends a message of another time": answers(message("R", b"\0\0\0\0")),
    "it begins a COPY": answers(message("G", b"\0\0\0") + READY),
    "it begins a COPY to us": answers(message("H", b"\0\0\0") + message("d", b"x" * 1000) * 1000),
    "it hangs up after the first query": hangs_up,
    "it closes in the middle of a row": breaks_off(lambda peer: peer.socket.close()),
    "it resets in the middle of a row": breaks_off(Peer.reset),
    "it stops in the middle of a row": breaks_off(Peer.hear),
    "it is silent": is_silent,
    "it is silent and has no version": starts(HELLO.replace(b"17.4", b"????")),
    "it sends endless notices": pours(b"", NOTICES),
    "it sends endless notifications": pours(b"", message("A", bytes(4) + b"channel\0payload\0") * 1000),
    "it sends endless parameters": pours(b"", b"".join(parameter(f"name{number}") for number in range(1000))),
    "it sends endless rows": pours(columns("a"), row(b"x" * 1000) * 100),
    "it sends a row of 1 GB": pours(columns("a") + b"D\x3f\xff\xff\xff", b"x" * 65536),
    "it announces a row of 2 GB": answers(columns("a") + b"D\x7f\xff\xff\xff" + bytes(1000)),
}
"""How it answers what pgdyno asks."""
PEAK_MIB = 250
"""Four times what pgdyno has without a server; each of these would fill gigabytes."""
PROGRAM = """
import os, sys
from tests.cli.hostile import high_water_kib
from pgdyno.errors import TargetError
from pgdyno.signals_and_exit import leave
from pgdyno.targets.dsn.schema import DsnTarget
from pgdyno.targets import Home, SilentProgress, connection, fetch_target, response_limits
response_limits.ANSWER_S, connection.CONNECT_TIMEOUT_S, connection._PROOF_S = 1.0, 2, 1
for target in sys.stdin:
    pid = os.fork()
    if pid == 0:
        print(os.getpid(), flush=True)
        try:
            fetch_target("far", DsnTarget.model_validate_json(target), home=Home.locate(), progress=SilentProgress())
        except TargetError as error:
            print(error.message)
        print(high_water_kib(os.getpid()), flush=True)
        leave(0)
    print("ended", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def forking_pgdyno() -> Iterator[subprocess.Popen[str]]:
    """A pgdyno that forks a process for each target on its standard input: its imports take longer than the rest."""
    argv = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(
        argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
    ) as process:
        yield process


def met(forking_pgdyno: subprocess.Popen[str], server: Hostile) -> tuple[str, float]:
    """Returns the output of a pgdyno that connects to this server, and its highest memory use in MiB."""
    present(forking_pgdyno.stdin).write(spec(server.port).model_dump_json() + "\n")
    pid = int(present(forking_pgdyno.stdout).readline())
    guard = threading.Timer(GUARD_S, os.kill, (pid, signal.SIGKILL))
    guard.start()
    lines = []
    while not (line := present(forking_pgdyno.stdout).readline()).startswith("ended "):
        assert line, "the process that forks has ended"
        lines.append(line)
    guard.cancel()
    assert line == "ended 0\n", lines
    *said, peak_kib = lines
    return "".join(said), int(peak_kib) / 1024


@pytest.mark.parametrize("start", STARTS)
def test_a_peer_that_is_no_postgresql_is_reported(forking_pgdyno: subprocess.Popen[str], start: str) -> None:
    with hostile(STARTS[start]) as server:
        said, peak_mib = met(forking_pgdyno, server)
    assert re.match("target far: cannot connect to .*", said)
    assert peak_mib < PEAK_MIB
    assert b"SHOW" not in server.received


@pytest.mark.parametrize("misdeed", ANSWERS)
def test_a_malformed_answer_is_reported_in_a_sentence(forking_pgdyno: subprocess.Popen[str], misdeed: str) -> None:
    with hostile(ANSWERS[misdeed]) as server:
        said, peak_mib = met(forking_pgdyno, server)
    assert re.match("target far: .*", said)
    assert "Traceback" not in said
    assert peak_mib < PEAK_MIB
    # it comes as far as to be asked something
    assert b"pg_backend_pid" in server.received


def test_a_real_server_is_reached(theirs: Server, home: Home) -> None:
    assert isinstance(fetch_target("far", spec(theirs.port), home=home, progress=SilentProgress()), Reached)


# ---- what falls silent while a run uses it ----


SILENT_PLAN = """
name = "silent"
[target.far]
kind = "dsn"
dsn = "host=127.0.0.1 port={far} user=bench sslmode=disable gssencmode=disable"
password_env = "BENCH_PASSWORD"
database = "measured"
[target.near]
kind = "dsn"
dsn = "host=127.0.0.1 port={near} user=bench sslmode=disable gssencmode=disable"
password_env = "BENCH_PASSWORD"
database = "measured_too"
[workload]
scripts = ["select-only"]
scale = 1
[trial]
warmup = "0s"
duration = "30s"
[reset]
checkpoint = false
[sweep]
clients = [1]
rate = 200
"""
RUN = """
import sys
from pgdyno.__main__ import main
from pgdyno.experiment import servers
from pgdyno.targets import connection, response_limits
response_limits.ANSWER_S, connection.CONNECT_TIMEOUT_S, connection._PROOF_S = 4.0, 4, 1
servers.BACK_WITHIN_S = 4.0
sys.argv = ["pgdyno", *sys.argv[1:]]
main()
"""
SILENT_AT = {
    "asked for its settings": (b"SELECT name, pg_catalog.current_setting(name)", Stage.TARGET),
    "given rows": (b"from stdin", Stage.PREPARE),
    "asked to vacuum": (b"vacuum", Stage.PREPARE),
    "under load": (b"SELECT abalance", Stage.RUN),
}
"""What the server is asked when it falls silent, and the stage that fails."""


@pytest.mark.long_cases("asked", "rows")
@pytest.mark.parametrize(
    ("asked", "whole"),
    # clients whose sessions alone fall silent end with the drain limit
    [(asked, whole) for asked in SILENT_AT for whole in (True, False) if whole or SILENT_AT[asked][1] is not Stage.RUN],
)
def test_a_server_that_falls_silent_fails_its_trial(theirs: Server, tmp_path: Path, asked: str, whole: bool) -> None:
    trigger, at = SILENT_AT[asked]
    plan = tmp_path / "plan.toml"
    with silent_proxy(theirs.port, trigger, whole=whole) as proxy:
        duration = "2s" if at is Stage.RUN else "1s"
        plan.write_text(SILENT_PLAN.format(far=proxy.port, near=theirs.port).replace("30s", duration))
        argv = [sys.executable, "-c", RUN, "run", str(plan), "--runs", str(tmp_path / "runs"), "--no-preflight"]
        done = subprocess.run(
            argv, check=False, capture_output=True, encoding="utf-8", errors="replace", timeout=2 * GUARD_S
        )
    assert proxy.silent.is_set(), done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == ExitCode.TRIALS_FAILED, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    far, near = sorted(RunFolder.open(folder).trials(), key=lambda trial: trial.target)
    assert near.outcome is Outcome.FINISHED
    assert present(far.failure).stage is at
    assert re.match(r"target far: .* within 4 s", present(far.failure).message)


def test_a_server_that_works_for_long_is_waited_for(theirs: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """pgdyno examines the session several times meanwhile."""
    looks: list[Look] = []

    def look(self: Address, dbname: str, pid: int | None) -> Look:
        looks.append(found := looked(self, dbname, pid))
        return found

    looked = Address.look
    monkeypatch.setattr(Address, "look", look)
    monkeypatch.setattr(response_limits, "ANSWER_S", 2.0)
    assert value(theirs, "SELECT 1 FROM pg_sleep(7)") == 1
    assert looks[:2] == [Look.WORKS, Look.WORKS]


def test_an_answer_without_an_end_is_cut(theirs: Server, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(home, spec(theirs.port), "far") as server:
        monkeypatch.setattr(response_limits, "ANSWER_BYTES", 1 << 20)
        with server.connect() as connection:
            statement = "SELECT repeat('x', 10000) FROM generate_series(1, 1000000)"
            with pytest.raises(SilentServerError, match=r"answered one statement with more than 1.0 MiB"):
                connection.execute(statement)


ASLEEP: LiteralString = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)' AND state = 'active'"


@pytest.mark.parametrize("looking", [False, True])
def test_ctrl_c_cancels_the_awaited_statement(theirs: Server, monkeypatch: pytest.MonkeyPatch, looking: bool) -> None:
    """Also while pgdyno asks the server whether it still works on it."""
    pressed = threading.Event()
    main = present(threading.main_thread().ident)

    def press() -> None:
        pressed.set()
        signal.pthread_kill(main, signal.SIGINT)

    def look(_self: Address, _dbname: str, _pid: int | None) -> Look:
        if not pressed.is_set():
            press()
        return Look.WORKS

    def press_in_time() -> None:
        wait_until(lambda: asleep(other) == 1)
        press()

    with theirs.connect() as other, theirs.connect() as connection:
        if looking:
            monkeypatch.setattr(Address, "look", look)
            monkeypatch.setattr(response_limits, "ANSWER_S", 0.3)
        else:
            threading.Thread(target=press_in_time).start()
        with pytest.raises(KeyboardInterrupt):
            connection.execute("SELECT pg_sleep(600)")
    with theirs.connect() as other:
        wait_until(lambda: asleep(other) == 0)


def asleep(connection: psycopg.Connection[Any]) -> int:
    (count,) = connection.execute(ASLEEP).fetchone() or (0,)
    return int(count)


def test_statements_that_are_answered_start_no_threads(theirs: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread for each took several times as long as the statement."""
    with theirs.connect() as connection:
        monkeypatch.setattr(threading.Thread, "start", lambda self: pytest.fail(f"started {self.name}"))
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM generate_series(1, 1000000)").fetchone() == (1_000_000,)
