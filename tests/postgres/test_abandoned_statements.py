"""A load that ends early leaves no statement running, and no trial runs alongside statements of an earlier one."""

import fcntl
import os
import resource
import signal
import struct
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import LiteralString, Self, cast

import psycopg
import pytest

from pgdyno.errors import TargetError
from pgdyno.experiment import earlier_sessions
from pgdyno.experiment.earlier_sessions import end_leftovers, sessions_name
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.plan import PlannedTrial
from pgdyno.records import Manifest, Outcome
from pgdyno.targets import Home, Server
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.connection import Address
from tests.postgres.relay import Relay
from tests.postgres.runs import active_sessions, engines, fast_plan, running, the_run
from tests.postgres.tls_server import PASSWORD, TlsServer, running_tls_server
from tests.present import present
from tests.run_program import PGDRIVE, run_program
from tests.waiting import PATIENCE_S, wait_until

Observer = psycopg.Connection[tuple[object, ...]]

SLEEP_S = 1800
"""A statement that outlives every test unless it is cancelled."""


class Load:
    """A pgdrive whose sessions have their own name, by which the server lists them."""

    def __init__(
        self, environment: Mapping[str, str], observer: Observer, *args: str | Path, program: Path = PGDRIVE
    ) -> None:
        self.name = f"abandoned {uuid.uuid4().hex[:8]}"
        self._observer = observer
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        variables, pipe = {**clean, **environment, "PGAPPNAME": self.name}, subprocess.PIPE
        command = [program, *args]
        self.process = subprocess.Popen(command, env=variables, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def count(self, condition: str) -> int:
        """Returns how many of its sessions fulfil a condition of SQL."""
        sql = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND {condition}"
        (count,) = present(self._observer.execute(sql.encode(), [self.name]).fetchone())
        assert isinstance(count, int)
        return count

    def active(self) -> int:
        return self.count("state = 'active'")

    def await_active(self, count: int) -> None:
        wait_until(lambda: self.active() == count)

    def await_blocked(self) -> None:
        wait_until(lambda: self.count("wait_event_type = 'Lock'"))

    def assert_signal_ends(self, number: int = signal.SIGINT) -> None:
        """Sends the signal: when the load ends, none of its statements runs."""
        self.process.send_signal(number)
        said = self.finish()
        assert self.process.returncode == 128 + number, said
        assert self.active() == 0
        assert "may still run" not in said

    def finish(self) -> str:
        return self.process.communicate(timeout=PATIENCE_S)[1]

    def assert_nothing_left(self) -> None:
        wait_until(lambda: self.count("true") == 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Neither it nor its statements outlive the block."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
        self._observer.execute(sql, [self.name])


@pytest.fixture
def observer(server: Server) -> Iterator[Observer]:
    with server.connect() as connection:
        yield connection


@pytest.fixture
def sleeping(tmp_path: Path) -> Path:
    script = tmp_path / "sleep.sql"
    script.write_text(f"SELECT pg_sleep({SLEEP_S});\n")
    return script


def over_tcp(server: Server, port: int) -> dict[str, str]:
    return {**server.environment(), "PGHOST": "127.0.0.1", "PGPORT": str(port)}


def test_the_drain_limit_ends_the_statements_too(server: Server, observer: Observer, sleeping: Path) -> None:
    args = ("-n", "-f", sleeping, "-c", "2", "-T", "1", "--drain-limit=1")
    with Load(server.environment(), observer, *args) as running:
        said = running.finish()
        assert running.process.returncode == 2
        assert "(--drain-limit)" in said
        assert running.active() == 0
        running.assert_nothing_left()


def test_the_end_of_the_parent_ends_the_statements_too(server: Server, observer: Observer, sleeping: Path) -> None:
    args = ("-n", "-f", sleeping, "-c", "2", "-T", "600", "--parent-lease")
    with Load(server.environment(), observer, *args) as running:
        running.await_active(2)
        present(running.process.stdin).close()
        running.process.stdin = None
        running.finish()
        assert running.process.returncode == 129
        assert running.active() == 0


def test_a_lease_that_runs_out_ends_them_unread(server: Server, observer: Observer, sleeping: Path) -> None:
    args = ("-n", "-f", sleeping, "-c", "2", "-T", "600", "--lease=3", "--events=-")
    with Load(server.environment(), observer, *args) as running:
        # so little room that the engine soon waits for a reader
        fcntl.fcntl(present(running.process.stdout), fcntl.F_SETPIPE_SZ, 4096)
        running.await_active(2)
        # nobody writes to its input or reads its output
        wait_until(lambda: running.process.poll() is not None)
        wait_until(lambda: running.active() == 0)


SLEEP = f"SELECT pg_sleep({SLEEP_S});\n"
LUA = f"""
function thread_init() drv = sysbench.sql.driver() con = drv:connect() end
function event() con:query("SELECT pg_sleep({SLEEP_S})") end
"""
# the first transaction is over at once: the connection that counts is the second one
RECONNECTS = f"\\set n :n + 1\nSELECT pg_sleep(CASE WHEN :n > 1 THEN {SLEEP_S} ELSE 0 END);\n"
PIPELINE = f"\\startpipeline\n{SLEEP}\\syncpipeline\n{SLEEP}{SLEEP}\\endpipeline\n"


def test_a_signal_ends_the_statements_of_any_script(server: Server, observer: Observer, tmp_path: Path) -> None:
    socket, tcp = server.environment(), over_tcp(server, server.port)
    for text, args, environment, number in (
        (SLEEP, "-n -f script --io=epoll", socket, signal.SIGINT),
        (SLEEP, "-n -f script --io=io_uring", socket, signal.SIGINT),
        (SLEEP, "-n -f script --io=epoll", tcp, signal.SIGTERM),
        (SLEEP, "-n -f script --io=io_uring", tcp, signal.SIGTERM),
        (SLEEP, "-n -f script -Mextended", socket, signal.SIGINT),
        (SLEEP, "-n -f script -Mprepared", socket, signal.SIGINT),
        (PIPELINE, "-n -f script -Mextended --io=epoll", socket, signal.SIGINT),
        (PIPELINE, "-n -f script -Mextended --io=io_uring", socket, signal.SIGINT),
        (RECONNECTS, "-n -f script -C -D n=0", socket, signal.SIGINT),
        (LUA, "--lua=script", socket, signal.SIGINT),
    ):
        (tmp_path / "script").write_text(text)
        named = args.replace("script", str(tmp_path / "script")).split()
        with Load(environment, observer, *named, "-c", "3", "-T", "600") as running:
            running.await_active(3)
            running.assert_signal_ends(number)
            running.assert_nothing_left()


def test_a_client_that_reconnected_leaves_no_statement(server: Server, observer: Observer, sleeping: Path) -> None:
    args = ("-n", "-f", sleeping, "-c", "3", "-T", "600", "--reconnect")
    with Load(server.environment(), observer, *args) as running:
        running.await_active(3)
        pids = "SELECT pid FROM pg_stat_activity WHERE application_name = %s AND state = 'active' ORDER BY pid"
        before = observer.execute(pids, [running.name]).fetchall()
        kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
        observer.execute(kill, [running.name])
        wait_until(lambda: len({*observer.execute(pids, [running.name]).fetchall()} - {*before}) == 3)
        running.await_active(3)
        running.assert_signal_ends()


@pytest.mark.parametrize("workers", ["1", "4"])
def test_many_clients(server: Server, observer: Observer, tmp_path: Path, workers: str) -> None:
    # some sleep in the server, the others between two statements
    script = tmp_path / "mixed.sql"
    script.write_text(
        f"\\if :client_id % 4\nSELECT pg_sleep({SLEEP_S});\n\\else\nBEGIN;\n\\sleep 600 s\nEND;\n\\endif\n"
    )
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert limit > 200
    args = ("-n", "-f", script, "-c", "80", "-j", workers, "-T", "600")
    with Load(server.environment(), observer, *args) as running:
        running.await_active(60)
        running.assert_signal_ends()
        running.assert_nothing_left()


@pytest.mark.parametrize("name", ["pgdrive", "pgbench"])
def test_a_statement_that_is_only_prepared(server: Server, observer: Observer, tmp_path: Path, name: str) -> None:
    program = tmp_path / name
    program.symlink_to(PGDRIVE)
    script = tmp_path / "locked.sql"
    script.write_text("SELECT count(*) FROM abandoned;\n")
    with server.connect() as blocker:
        blocker.execute("DROP TABLE IF EXISTS abandoned")
        blocker.execute("CREATE TABLE abandoned ()")
        blocker.execute("BEGIN; LOCK TABLE abandoned")
        args = ("-n", "-f", script, "-c", "2", "-T", "600", "-Mprepared")
        with Load(server.environment(), observer, *args, program=program) as running:
            # Parse waits for the lock
            running.await_blocked()
            running.await_active(2)
            running.assert_signal_ends()
        blocker.execute("DROP TABLE abandoned; COMMIT")


def test_statements_of_the_set_up_and_of_a_load_of_rows(server: Server, observer: Observer) -> None:
    run_program([PGDRIVE, "-i", "-q"], env={**os.environ, **server.environment()}, check=True)
    with Relay(server.port) as relay, server.connect() as blocker:
        blocker.execute("BEGIN; LOCK TABLE pgbench_branches")
        # a vacuum
        with Load(server.environment(), observer, "-S", "-T", "600") as running:
            running.await_blocked()
            # the lock is still held: it does not end by itself
            running.assert_signal_ends()
        # a load of rows does not wait for a server that takes no requests
        with Load(over_tcp(server, relay.port), observer, "-i", "-q") as running:
            running.await_blocked()
            relay.is_silent = True
            running.process.send_signal(signal.SIGINT)
            said = running.finish()
            assert running.process.returncode == 130, said
            assert "Could not send cancel request: timeout expired" in said
        blocker.execute("ROLLBACK")


@pytest.fixture(scope="module")
def secure(installed: Installation) -> Iterator[TlsServer]:
    with running_tls_server(installed) as server:
        yield server


SSL_REQUEST = struct.pack(">II", 8, 80877103)
TLS = (
    "host=127.0.0.1 user=by_scram sslmode=require",
    "host=localhost user=only_tls sslmode=verify-full sslrootcert={root}.crt",
    "host=127.0.0.1 user=only_tls sslmode=require sslnegotiation=direct",
    "host=127.0.0.1 user=by_cert sslmode=require sslcert={by_cert}.crt sslkey={by_cert}.key",
    "host=127.0.0.1 user=only_tls",
    "host=/nowhere,127.0.0.1 user=only_tls sslmode=require",
)


@pytest.mark.parametrize("target", TLS)
def test_cancel_requests_are_encrypted_over_tls(secure: TlsServer, sleeping: Path, target: str) -> None:
    secure.use("server")
    certificates = {name: secure.certificates[name] for name in ("root", "by_cert")}
    home = secure.folder / "home"
    home.mkdir(exist_ok=True)
    environment = {"PGPASSWORD": PASSWORD, "HOME": str(home)}
    with Relay(secure.port) as relay:
        target = f"port={relay.port} dbname=postgres {target.format(**certificates)}"
        with (
            secure.connect() as observer,
            Load(environment, observer, "-n", "-f", sleeping, "-c", "3", "-T", "600", target) as running,
        ):
            running.await_active(3)
            running.assert_signal_ends()
            running.assert_nothing_left()
    # the clients' sessions, that of the set-up, and a request for each statement
    assert len(relay.first_bytes) >= 3 + 1 + 3
    begin = b"\x16\x03" if "direct" in target else SSL_REQUEST
    assert {first[: len(begin)] for first in relay.first_bytes.values()} == {begin}


def test_a_server_that_takes_no_requests_does_not_keep_it(server: Server, observer: Observer, sleeping: Path) -> None:
    with (
        Relay(server.port) as relay,
        Load(over_tcp(server, relay.port), observer, "-n", "-f", sleeping, "-c", "40", "-T", "600") as running,
    ):
        running.await_active(40)
        # it accepts new connections, and never answers on them
        relay.is_silent = True
        began = time.monotonic()
        running.process.send_signal(signal.SIGINT)
        said = running.finish()
        assert running.process.returncode == 130, said
        assert relay.unanswered
        # it says 5 s, for all of them together: one after the other, they would take that for each
        assert time.monotonic() - began < 40 * 5
        assert "the server may still run 40 statements: they did not end within 5 s of being canceled" in said


def test_the_second_signal_ends_it_at_once(server: Server, observer: Observer, sleeping: Path) -> None:
    with (
        Relay(server.port) as relay,
        Load(over_tcp(server, relay.port), observer, "-n", "-f", sleeping, "-c", "2", "-T", "600") as running,
    ):
        running.await_active(2)
        relay.is_silent = True
        running.process.send_signal(signal.SIGINT)
        wait_until(lambda: len(relay.unanswered) > 0)
        running.process.send_signal(signal.SIGINT)
        running.finish()
        # by the signal itself
        assert running.process.returncode == -signal.SIGINT


PLAN = fast_plan(
    'scripts = ["sleep.sql"]\ndataset = "none"\nvariables = { nap = 0 }',
    "clients = [2]\nvariables.nap = [1800, 0]",
    'duration = "1s"\norder = "as-listed"\n[probe]\nenabled = false',
)
SCRIPT = """\
\\if :client_id = 0
SELECT pg_sleep(:nap);
\\else
-- being canceled does not end it
DO $$ BEGIN PERFORM pg_sleep(:nap); EXCEPTION WHEN query_canceled THEN PERFORM pg_sleep(:nap); END $$;
\\endif
"""


@pytest.mark.long
def test_statements_of_a_killed_engine_end_before_the_next_trial(warm_home: Home, tmp_path: Path) -> None:
    (tmp_path / "sleep.sql").write_text(SCRIPT)
    plan = tmp_path / "leftovers.toml"
    plan.write_text(PLAN)
    with running(warm_home, tmp_path, plan) as process:
        wait_until(lambda: active_sessions(warm_home) == 2)
        for engine in engines(warm_home):
            os.kill(engine, signal.SIGKILL)
        said = process.communicate(timeout=PATIENCE_S)[1]
    folder = the_run(tmp_path)
    first, second = folder.trials()
    assert first.outcome is Outcome.FAILED
    assert first.leftovers is None
    assert second.outcome is Outcome.FINISHED, said
    left = present(second.leftovers)
    assert (left.sessions, left.canceled, left.terminated) == (2, 2, 1)
    # both of them had their time to end by themselves
    assert left.seconds > 2 * earlier_sessions.WAIT_S
    expected = "trial 2: 2 sessions of an earlier trial had not ended; statements canceled: 2, sessions terminated: 1"
    assert expected in folder.manifest.notes
    assert expected in " ".join(said.split())


def manifest(day: int) -> Manifest:
    begun = datetime(2026, 1, day, tzinfo=UTC)
    return cast("Manifest", SimpleNamespace(run="a run", started_at=begun))


MANIFEST = manifest(1)
PROGRESS = cast("RunProgress", SimpleNamespace(set_up=lambda _text: None, note=lambda _text: None))
FIRST, SECOND = (cast("PlannedTrial", SimpleNamespace(number=number)) for number in (1, 2))
BUSY = "SELECT 1 FROM pg_stat_activity WHERE application_name = %s AND usename = %s AND state = 'active'"


@contextmanager
def busy(server: Server, name: str, user: str | None = None) -> Iterator[None]:
    """A session of this name whose statement does not end by itself; another user's has `PASSWORD`."""
    parameters = {**server.address.parameters, "application_name": name, "user": user or server.user}
    address = Address(parameters, server.password if user is None else PASSWORD)
    with server.connect() as watching, closing(address.connect(server.dbname)) as session:
        session.pgconn.send_query(b"SELECT pg_sleep(1800)")
        wait_until(lambda: watching.execute(BUSY, [name, address.parameters["user"]]).fetchone() is not None)
        yield
        watching.execute("SELECT pg_terminate_backend(%s)", [session.info.backend_pid])


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earlier_sessions, "WAIT_S", 0.5)


def test_names_tell_run_and_trial() -> None:
    first = sessions_name(MANIFEST, FIRST)
    assert first.startswith("pgdrive ")
    assert first.endswith("/1")
    assert len(first) < 64
    assert sessions_name(MANIFEST, SECOND)[:-1] == first[:-1]
    assert sessions_name(manifest(2), FIRST) != first


@pytest.mark.usefixtures("impatient")
def test_sessions_of_others_are_left_alone(server: Server) -> None:
    ours = sessions_name(MANIFEST, FIRST)
    with server.connect() as admin:
        admin.execute(f"CREATE ROLE somebody_else LOGIN SUPERUSER PASSWORD '{PASSWORD}'")
        with busy(server, "pgdrive"), busy(server, "pgdrive 00000000/1"), busy(server, ours, user="somebody_else"):
            assert end_leftovers(MANIFEST, SECOND, server, PROGRESS) is None
            for name, user in (("pgdrive", server.user), ("pgdrive 00000000/1", server.user), (ours, "somebody_else")):
                assert admin.execute(BUSY, [name, user]).fetchone() is not None
        admin.execute("DROP ROLE somebody_else")


@pytest.mark.usefixtures("impatient")
def test_a_role_without_privileges_can_end_its_own(server: Server) -> None:
    with server.connect() as admin:
        admin.execute(f"CREATE ROLE of_little_right LOGIN PASSWORD '{PASSWORD}'")
        address = Address({**server.address.parameters, "user": "of_little_right"}, PASSWORD)
        restricted = Server(address, [], machine=None, dbname=server.dbname)
        with busy(server, sessions_name(MANIFEST, FIRST), user="of_little_right"):
            left = present(end_leftovers(MANIFEST, SECOND, restricted, PROGRESS))
        # once canceled, it is idle in a connection that is still open
        assert (left.sessions, left.canceled, left.terminated) == (1, 1, 1)
        admin.execute("DROP ROLE of_little_right")


@pytest.mark.usefixtures("impatient")
def test_an_idle_session_is_terminated(server: Server) -> None:
    name = sessions_name(MANIFEST, FIRST)
    with closing(server.address.connect(server.dbname, application_name=name)) as idle:
        left = present(end_leftovers(MANIFEST, SECOND, server, PROGRESS))
        assert (left.sessions, left.canceled, left.terminated) == (1, 0, 1)
        with pytest.raises(psycopg.OperationalError):
            idle.execute("SELECT 1")


@pytest.mark.usefixtures("impatient")
def test_a_statement_that_cannot_be_ended_fails_the_trial(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: LiteralString = "SELECT count(*) FILTER (WHERE false) FROM pg_stat_activity WHERE application_name LIKE %s"
    monkeypatch.setattr(earlier_sessions, "_CANCEL", nothing)
    monkeypatch.setattr(earlier_sessions, "_TERMINATE", nothing)
    with busy(server, sessions_name(MANIFEST, FIRST)), pytest.raises(TargetError) as raised:
        end_leftovers(MANIFEST, SECOND, server, PROGRESS)
    assert "sessions of earlier trials are still active on the server" in raised.value.message
    assert "of trial 1 (active: SELECT pg_sleep(1800))" in raised.value.message
    assert raised.value.hint is not None
