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
from typing import Any

import psycopg
import pytest

from pgdyno.errors import ExitCode, TargetError
from pgdyno.records import Outcome, Stage
from pgdyno.store import RunFolder
from pgdyno.targets import Home, Server, response_limits
from pgdyno.targets.connection import Address
from pgdyno.targets.response_limits import Look, SilentServerError
from tests.cli.hostile import GUARD_S, Misdeed, Peer, answering, hostile, pouring
from tests.cli.messages import DONE, HELLO, READY, auth, columns, message, parameter, refusal, row
from tests.postgres.far_server import PASSWORD, dsn, far, fetch
from tests.postgres.relay import SilentProxy
from tests.postgres.servers import execute, opened, value
from tests.present import present
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
LIMITS = [f"{name}_timeout" for name in ("statement", "idle_session", "idle_in_transaction_session", "transaction")]


def reach_first_trial(theirs: Server, home: Home) -> None:
    """Runs everything that precedes the first trial of a run."""
    with opened(home, far(theirs.port)) as server:
        assert server.facts().version.startswith("18.")
        assert value(server, "SELECT count(*) FROM pg_database WHERE datname = 'measured'") == 1


def test_a_roles_settings_do_not_keep_pgdyno_off(theirs: Server, home: Home) -> None:
    settings = {
        **{f"{name}_timeout": "1ms" for name in ("statement", "lock", "idle_in_transaction_session")},
        **dict.fromkeys(("row_security", "standard_conforming_strings"), "off"),
        **dict.fromkeys(("quote_all_identifiers", "transform_null_equals"), "on"),
        "client_encoding": "LATIN1",
        "datestyle": "German",
        "bytea_output": "escape",
    }
    execute(theirs, *(f"ALTER ROLE bench SET {name} = '{value}'" for name, value in settings.items()))
    for _ in range(3):
        reach_first_trial(theirs, home)


def test_time_limits_of_a_role_are_lifted_and_told(theirs: Server, home: Home) -> None:
    execute(theirs, *(f"ALTER ROLE bench SET {limit} = '20s'" for limit in LIMITS))
    with opened(home, far(theirs.port)) as server:
        assert [value(server, f"SHOW {limit}") for limit in LIMITS] == ["0"] * 4
        changed = server.facts().settings_changed
        assert [changed[limit] for limit in LIMITS] == ["20s"] * 4


def test_a_role_that_may_only_read_is_refused(theirs: Server, home: Home) -> None:
    execute(theirs, "ALTER ROLE bench SET default_transaction_read_only = on")
    said = "target t: cannot create the database measured: .* read-only transaction"
    with pytest.raises(TargetError, match=said):
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


def test_options_of_a_connection_string_are_not_shown(home: Home) -> None:
    with pytest.raises(TargetError) as caught:
        fetch(home, far(1, dsn="host=127.0.0.1 port=1 options='-c app.token=secret'", password_env=None))
    assert "options" in caught.value.message
    assert "secret" not in caught.value.message


# ---- what is no server ----


def starts(what: bytes, endless: Callable[[], bytes] | None = None) -> Misdeed:
    """Sends this instead of a greeting, and then continues without end, or is silent."""

    def misdeed(peer: Peer) -> None:
        peer.receive()
        peer.send(what)
        while endless is not None:
            peer.send(endless())
        peer.hear()

    return misdeed


def breaks_off(begin: bytes, end: Callable[[Peer], object]) -> Misdeed:
    """Greets, begins to answer the first query, and ends in this way."""

    def misdeed(peer: Peer) -> None:
        peer.greet()
        peer.receive()
        peer.send(begin)
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


HALF_A_ROW = columns("a") + row(b"0")[:7]
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
    "it refuses the first query": answering(refusal(b"no") + READY),
    "it refuses in no known way": answering(refusal(b"no", sqlstate="?????") + READY),
    "it answers nonsense": answering(columns("a") + row(b"\xff\xfe nonsense") + DONE),
    "it answers empty text": answering(columns("a") + row(b"") + DONE),
    "it answers nothing at all": answering(columns("a") + DONE),
    "it answers without a result": answering(message("C", b"SET\0") + READY),
    "it answers more columns than it announced": answering(columns("a") + row(b"0", b"1", b"2") + DONE),
    "it answers 65535 columns in no bytes": answering(columns("a") + message("D", b"\xff\xff") + DONE),
    "it answers a value of a negative length": answering(columns("a") + message("D", b"\0\1\x80\0\0\0") + DONE),
    "it sends what is no message": answering(b"\0\0\0\0garbage"),
    "it sends a message of another time": answering(message("R", b"\0\0\0\0")),
    "it begins a COPY": answering(message("G", b"\0\0\0") + READY),
    "it begins a COPY to us": answering(message("H", b"\0\0\0") + message("d", b"x" * 1000) * 1000),
    "it hangs up after the first query": breaks_off(b"", Peer.reset),
    "it closes in the middle of a row": breaks_off(HALF_A_ROW, lambda peer: peer.socket.close()),
    "it resets in the middle of a row": breaks_off(HALF_A_ROW, Peer.reset),
    "it stops in the middle of a row": breaks_off(HALF_A_ROW, Peer.hear),
    "it is silent": answering(),
    "it is silent and has no version": starts(HELLO.replace(b"17.4", b"????")),
    "it sends endless notices": pouring(NOTICES),
    "it sends endless notifications": pouring(message("A", bytes(4) + b"channel\0payload\0") * 1000),
    "it sends endless parameters": pouring(b"".join(parameter(f"name{number}") for number in range(1000))),
    "it sends endless rows": pouring(row(b"x" * 1000) * 100, columns("a")),
    "it sends a row of 1 GB": pouring(b"x" * 65536, columns("a") + b"D\x3f\xff\xff\xff"),
    "it announces a row of 2 GB": answering(columns("a") + b"D\x7f\xff\xff\xff" + bytes(1000)),
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
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    env = {**os.environ, "BENCH_PASSWORD": PASSWORD}
    with subprocess.Popen(argv, cwd=ROOT, env=env, text=True, bufsize=1, **streams) as process:  # type: ignore[call-overload]
        yield process


@pytest.mark.parametrize("misdeed", STARTS | ANSWERS)
def test_a_malformed_answer_is_reported_in_a_sentence(forking_pgdyno: subprocess.Popen[str], misdeed: str) -> None:
    stdin, stdout = present(forking_pgdyno.stdin), present(forking_pgdyno.stdout)
    with hostile((STARTS | ANSWERS)[misdeed]) as server:
        stdin.write(far(server.port).model_dump_json() + "\n")
        guard = threading.Timer(GUARD_S, os.kill, (int(stdout.readline()), signal.SIGKILL))
        guard.start()
        lines = []
        while not (line := stdout.readline()).startswith("ended "):
            assert line, "the process that forks has ended"
            lines.append(line)
        guard.cancel()
    assert line == "ended 0\n", lines
    *said, peak_kib = lines
    assert said[0].startswith("target far: cannot connect to " if misdeed in STARTS else "target far: ")
    assert "Traceback" not in "".join(said)
    assert int(peak_kib) / 1024 < PEAK_MIB
    # whether it comes as far as to be asked something
    assert (b"pg_backend_pid" in server.received) == (misdeed in ANSWERS)


# ---- what falls silent while a run uses it ----


SILENT_PLAN = """
name = "silent"
[target.far]
kind = "dsn"
dsn = "{far}"
password_env = "BENCH_PASSWORD"
database = "measured"
[target.near]
kind = "dsn"
dsn = "{near}"
password_env = "BENCH_PASSWORD"
database = "measured_too"
[workload]
scripts = ["select-only"]
scale = 1
[trial]
warmup = "0s"
duration = "{duration}"
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
    with SilentProxy(theirs.port, trigger, whole=whole) as proxy:
        duration = "2s" if at is Stage.RUN else "1s"
        plan.write_text(SILENT_PLAN.format(far=dsn(proxy.port), near=dsn(theirs.port), duration=duration))
        argv = [sys.executable, "-c", RUN, "run", str(plan), "--runs", str(tmp_path / "runs"), "--no-preflight"]
        done = subprocess.run(
            argv, check=False, capture_output=True, encoding="utf-8", errors="replace", timeout=2 * GUARD_S
        )
    assert proxy.silent.is_set(), done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == ExitCode.TRIALS_FAILED, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    silent, near = sorted(RunFolder.open(folder).trials(), key=lambda trial: trial.target)
    assert near.outcome is Outcome.FINISHED
    assert present(silent.failure).stage is at
    assert re.match(r"target far: .* within 4 s", present(silent.failure).message)


def test_a_server_that_works_for_long_is_waited_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """pgdyno examines the session several times meanwhile."""
    looks: list[Look] = []

    def look(self: Address, dbname: str, pid: int | None) -> Look:
        looks.append(found := looked(self, dbname, pid))
        return found

    looked = Address.look
    monkeypatch.setattr(Address, "look", look)
    monkeypatch.setattr(response_limits, "ANSWER_S", 0.5)
    assert value(server, "SELECT 1 FROM pg_sleep(2)") == 1
    assert looks[:2] == [Look.WORKS, Look.WORKS]


def test_an_answer_without_an_end_is_cut(theirs: Server, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(home, far(theirs.port)) as server:
        monkeypatch.setattr(response_limits, "ANSWER_BYTES", 1 << 20)
        with server.connect() as connection, pytest.raises(SilentServerError, match=r"with more than 1\.0 MiB"):
            connection.execute("SELECT repeat('x', 10000) FROM generate_series(1, 10000)")


def asleep(connection: psycopg.Connection[Any]) -> bool:
    query = "SELECT FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)' AND state = 'active'"
    return connection.execute(query).rowcount > 0


@pytest.mark.parametrize("looking", [False, True])
def test_ctrl_c_cancels_the_awaited_statement(server: Server, monkeypatch: pytest.MonkeyPatch, looking: bool) -> None:
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
        wait_until(lambda: asleep(other))
        press()

    with server.connect() as other, server.connect() as connection:
        if looking:
            monkeypatch.setattr(Address, "look", look)
            monkeypatch.setattr(response_limits, "ANSWER_S", 0.3)
        else:
            threading.Thread(target=press_in_time).start()
        with pytest.raises(KeyboardInterrupt):
            connection.execute("SELECT pg_sleep(600)")
    with server.connect() as other:
        wait_until(lambda: not asleep(other))


def test_statements_that_are_answered_start_no_threads(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread for each took several times as long as the statement."""
    with server.connect() as connection:
        monkeypatch.setattr(threading.Thread, "start", lambda self: pytest.fail(f"started {self.name}"))
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM generate_series(1, 1000000)").fetchone() == (1_000_000,)
