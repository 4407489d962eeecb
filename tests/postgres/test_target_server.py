"""A server from its start to its removal: its configuration, who may connect, and what remains."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
import pytest

from pgdyno.errors import ExitCode, TargetError
from pgdyno.targets import Home, Server, SilentProgress, sweep_leftovers
from pgdyno.targets.cluster import instance as instance_module
from pgdyno.targets.cluster import postmaster as start_module
from pgdyno.targets.cluster.instance_record import make_claim
from pgdyno.targets.cluster.postmaster import Deadlines, free_port
from pgdyno.targets.cluster.processes import ProcessId, descendants, identify, servers_in
from pgdyno.targets.cluster.reconfigure import reconfigure
from tests.conninfo import conninfo
from tests.postgres.servers import QUICK, embedded, execute, opened, rows, value
from tests.present import present
from tests.processes import command_line
from tests.waiting import wait_until


class Steps(SilentProgress):
    def __init__(self) -> None:
        self.said: list[str] = []

    def step(self, text: str) -> None:
        self.said.append(text)


def postmaster_of(server: Server) -> ProcessId:
    return present(identify(int((server.data_directory / "postmaster.pid").read_text().splitlines()[0])))


def test_a_server_is_alone_restarts_and_leaves_nothing(home: Home, server: Server) -> None:
    steps = Steps()
    with opened(home, embedded(), progress=steps) as own:
        assert [text.split(" PostgreSQL")[0] for text in steps.said[-2:]] == ["creating a cluster of", "starting"]
        assert (own.port, own.data_directory) != (server.port, server.data_directory)
        execute(own, "CREATE TABLE only_here AS SELECT 42 AS n")
        assert value(server, "SELECT to_regclass('only_here')") is None
        before, port, size = postmaster_of(own), own.port, own.log_size()
        # the server outlives the thread that starts it
        thread = threading.Thread(target=own.restart)
        thread.start()
        thread.join()
        assert postmaster_of(own) != before
        assert own.port == port
        assert (value(own, "SELECT n FROM only_here"), value(own, "SHOW fsync")) == (42, "off")
        with own.connect() as connection, pytest.raises(psycopg.errors.QueryCanceled):
            # had the kernel sent its signal at the end of the thread, the session would be gone
            connection.execute("SET statement_timeout = 500; SELECT pg_sleep(60)")
        stop, ready, since = own.log_path.read_bytes()[size:].decode().partition("ready to accept connections")
        assert "received fast shutdown request" in stop
        assert ready
        assert "received fast shutdown request" not in since
        family = [postmaster_of(own), *descendants(postmaster_of(own))]
        assert len(family) > 3
        # a session that is busy does not hold up the end
        busy = own.connect()
        busy.execute("CREATE TABLE t AS SELECT generate_series(1, 1000) AS n")
        assert own.socket_directory.stat().st_mode & 0o777 == 0o700
        assert own.alive()
    assert not [process for process in family if process.is_alive()]
    assert_nothing_is_left(own)
    assert not own.alive()
    with pytest.raises(psycopg.OperationalError):
        busy.execute("SELECT 1")


def assert_nothing_is_left(server: Server) -> None:
    assert servers_in(server.data_directory) == []
    left = (server.data_directory, server.log_path.parent, server.socket_directory)
    assert not [folder for folder in left if folder.exists()]


def test_nothing_is_left_of_a_server_on_tcp_when_the_block_raises(home: Home) -> None:
    with suppress(ZeroDivisionError), opened(home, embedded(connect="tcp")) as server:
        assert server.host == "127.0.0.1"
        assert "host=127.0.0.1" in conninfo(server)
        assert value(server, "SELECT inet_server_port()") == server.port
        raise ZeroDivisionError
    assert_nothing_is_left(server)


def test_a_child_that_ignores_the_end_is_ended(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    # what archive_command starts is a child of a child
    stubborn = "trap '' INT TERM QUIT; while :; do sleep 0.05; done"
    settings = {**QUICK, "archive_mode": "on", "archive_command": stubborn}
    deadlines = Deadlines(fast_s=0.5, immediate_s=0.5, kill_s=30)
    monkeypatch.setattr(instance_module, "Deadlines", lambda: deadlines)
    with opened(home, embedded(settings=settings)) as server:
        value(server, "SELECT pg_switch_wal()::text")
        postmaster = postmaster_of(server)

        def stubborn_children() -> list[ProcessId]:
            return [each for each in descendants(postmaster) if b"trap" in command_line(each.pid)]

        wait_until(stubborn_children)
        shells = stubborn_children()
    assert not [process for process in shells if process.is_alive()]
    assert not server.data_directory.exists()


def test_pgdyno_does_not_wait_for_orphans_of_a_killed_postmaster(home: Home) -> None:
    """An orphan may wait for ever for a lock of a killed process: in this test it is halted and does nothing."""
    with opened(home, embedded()) as server:
        session = server.connect()
        orphan = present(identify(session.info.backend_pid))
        postmaster = postmaster_of(server)
        orphan.halt()
        postmaster.send(signal.SIGKILL)
        wait_until(lambda: not postmaster.is_alive())
        with pytest.MonkeyPatch.context() as patched:
            # a fast stop, which it would never end by
            patched.setattr(instance_module, "KEPT_DEADLINES", Deadlines(fast_s=1e9, immediate_s=0.2))
            server.restart()
        assert not orphan.is_alive()
        session.close()
        assert value(server, "SELECT 1") == 1
        # a crash is seen
        os.kill(postmaster_of(server).pid, signal.SIGKILL)
        wait_until(lambda: not server.alive())
        with pytest.raises(TargetError, match="cannot connect to"):
            server.connect()
    assert_nothing_is_left(server)


def test_settings_of_the_plan_arrive_also_if_a_port_was_taken(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"work_mem": "7MB", "statement_timeout": "20s", "application_name": "it's a \\ back'slash"}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = [taken.getsockname()[1]]
        monkeypatch.setattr(start_module, "free_port", lambda: ports.pop() if ports else free_port())
        with opened(home, embedded(settings=QUICK | settings)) as server:
            assert server.port != taken.getsockname()[1]
            assert "Address already in use" in server.log_path.read_text()
            assert value(server, "SHOW work_mem") == "7MB"
            written = "SELECT setting FROM pg_file_settings WHERE name = 'application_name'"
            assert value(server, written) == "it's a \\ back'slash"
            changed = server.facts().settings_changed
            assert [changed[name] for name in ("work_mem", "statement_timeout")] == ["7MB", "20s"]
            # limits that pgdyno lifts for its own sessions
            limits = {"statement_timeout": "25s", "lock_timeout": "26s"}
            assert present(reconfigure(server, QUICK | settings | limits)).values == limits


def test_taken_ports_are_an_error_with_the_servers_words(warm_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(start_module, "free_port", lambda: taken.getsockname()[1])
        with pytest.raises(TargetError) as caught, opened(warm_home, embedded()):
            pass
    assert "5 ports were taken: could not create any TCP/IP sockets" in caught.value.message
    assert 'could not bind IPv4 address "127.0.0.1": Address already in use' in caught.value.message


def test_facts_of_a_server_and_its_database(server: Server) -> None:
    facts = server.facts()
    assert facts.version.startswith("18.")
    assert facts.version_full.startswith(f"PostgreSQL {facts.version} on ")
    assert facts.data_checksums
    assert (facts.cluster_bytes or 0) > 10_000_000
    changed = facts.settings_changed
    assert (changed["fsync"], changed["shared_buffers"], changed["cluster_name"]) == ("off", "16MB", "pgdyno")
    # drawn each time, and never the reason for a difference; and what is left as the server has it
    assert not {"port", "unix_socket_directories", "application_name", "work_mem"} & set(changed)
    query = "SELECT pg_encoding_to_char(encoding), datcollate, current_user FROM pg_database WHERE datname = 'pgdyno'"
    assert rows(server, query) == [("UTF8", "C", "postgres")]
    # texts of a database without an encoding are texts
    with server.connect() as connection:
        connection.execute("CREATE DATABASE unencoded TEMPLATE template0 ENCODING SQL_ASCII LOCALE 'C'")
        try:
            assert value(server, "SELECT 'text'", "unencoded") == "text"
        finally:
            connection.execute("DROP DATABASE unencoded")


def test_a_password_is_drawn_and_shown_nowhere(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert server.environment()["PGPASSWORD"] == server.password
    assert len(server.password) >= 24
    assert server.password not in repr(server)
    assert server.password not in server.log_path.read_text()
    assert not (server.log_path.parent / "password").exists()
    with rejection("password authentication failed"):
        connect(server, host="127.0.0.1", password="wrong")
    # the environment is enough to connect
    for name, given in server.environment().items():
        monkeypatch.setenv(name, given)
    with psycopg.connect("") as connection:
        assert (connection.info.dbname, connection.info.host) == ("pgdyno", str(server.socket_directory))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"wurk_mem": "4MB"}, 'unrecognized configuration parameter "wurk_mem"'),
        ({"work_mem": "12 apples"}, 'invalid value for parameter "work_mem": "12 apples"'),
        ({"wal_level": "minimal", "archive_mode": "on"}, 'when "wal_level" is "minimal"'),
        ({"shared_preload_libraries": "no_such_library"}, 'could not access file "no_such_library"'),
    ],
)
def test_a_setting_that_the_server_refuses_is_named(warm_home: Home, settings: dict[str, str], said: str) -> None:
    with pytest.raises(TargetError) as caught, opened(warm_home, embedded(settings=settings), "mine"):
        pass
    assert said in caught.value.message
    assert caught.value.message.startswith("target mine: cannot start PostgreSQL 18.")
    assert all(name in (caught.value.hint or "") for name in settings)
    assert caught.value.exit_code is ExitCode.TARGET
    assert list(warm_home.instances.iterdir()) == []


def test_arguments_of_initdb_arrive_or_are_refused(home: Home) -> None:
    for fields, said in (
        ({"settings": {"port": "1"}}, "cannot set port: "),
        ({"initdb": ["-D/elsewhere"]}, "cannot pass -D/elsewhere to initdb"),
        ({"initdb": ["--frob"]}, r"cannot create a cluster with initdb 18\..*unrecognized option '--frob'"),
    ):
        with pytest.raises(TargetError, match=said), opened(home, embedded(**fields)):
            pass
    arguments = ["--no-data-checksums", "--locale=C.UTF-8", "--wal-segsize=4"]
    with opened(home, embedded(initdb=arguments)) as server:
        assert not server.facts().data_checksums
        assert value(server, "SHOW wal_segment_size") == "4MB"
        assert value(server, "SELECT datcollate FROM pg_database WHERE datname = 'pgdyno'") == "C.UTF-8"


NEEDED = "no password supplied"


def connect(server: Server, **parameters: str | None) -> tuple[object, ...] | None:
    """Returns the user of a session, for which no file has a password."""
    with psycopg.connect(conninfo(server), passfile="/dev/null", **parameters) as connection:  # type: ignore[arg-type]
        return connection.execute("SELECT current_user").fetchone()


@contextmanager
def rejection(said: str, home: Home | None = None) -> Iterator[None]:
    """A connection of this process is rejected, as the user of servers in `home`."""
    if home is not None:
        os.seteuid(home.account.uid)
    try:
        with pytest.raises(psycopg.OperationalError, match=said):
            yield
    finally:
        if home is not None:
            os.seteuid(0)


def only_passwords_let_others_in(server: Server, home: Home) -> None:
    assert connect(server) == ("postgres",)
    execute(server, "CREATE ROLE other LOGIN SUPERUSER PASSWORD 'its own'")
    with rejection(NEEDED):
        connect(server, user="other")
    assert connect(server, user="other", password="its own") == ("other",)
    with rejection(NEEDED):
        connect(server, host="127.0.0.1")
    assert connect(server, host="127.0.0.1", password=server.password) == ("postgres",)
    # only root's servers run as another user
    if os.geteuid() == 0:
        with rejection('Peer authentication failed for user "postgres"', home):
            connect(server)
        with rejection(NEEDED, home):
            connect(server, user="other")
        with rejection(NEEDED, home):
            # what a standby asks for, which runs as that user
            psycopg.connect(conninfo(server), passfile="/dev/null", replication="true").close()
    execute(server, "DROP ROLE other")


def test_only_passwords_let_others_in(server: Server, home: Home) -> None:
    only_passwords_let_others_in(server, home)


def test_kept_data_is_used_again_by_one_run_at_a_time(warm_home: Home) -> None:
    kept = embedded(keep_data=True)
    with opened(warm_home, kept, "first") as first:
        execute(first, "CREATE TABLE loaded AS SELECT 42 AS n")
        assert first.data_directory.is_relative_to(warm_home.clusters)
        with pytest.raises(TargetError) as caught, opened(warm_home, kept, "second"):
            pass
        assert caught.value.message.startswith("target second: cannot use the kept cluster ")
        assert "target first of process " in caught.value.message
        assert caught.value.hint == "wait until that run ends, or set keep_data = false"
        for name in ("killed", "killed too"):
            # as a run leaves it that was killed after another one had looked for leftovers
            claim = make_claim(warm_home, name)
            claim.note(data_directory=str(first.data_directory), keep_data=True, owner_start_ticks=0)
            claim._lock.release()
        said = [str(each) for each in sweep_leftovers(warm_home)]
        assert [each.startswith("found the folder of a server of target killed") for each in said] == [True, True]
        assert first.alive()
        assert value(first, "SELECT n FROM loaded") == 42
    assert servers_in(first.data_directory) == []
    assert list(warm_home.instances.iterdir()) == []
    assert not first.socket_directory.exists()
    # other arguments of initdb make another cluster, and one that could not be made is not kept
    with (
        pytest.raises(TargetError, match="cannot create a cluster"),
        opened(warm_home, embedded(keep_data=True, initdb=["--encoding=NONE"])),
    ):
        pass
    assert list(warm_home.clusters.glob("*/data")) == [first.data_directory]
    assert list(warm_home.instances.iterdir()) == []
    other = embedded(keep_data=True, settings={"shared_buffers": "24MB"}, connect="tcp")
    with opened(warm_home, other) as second:
        assert second.data_directory == first.data_directory
        # over TCP: the new password counts, the old one doesn't
        assert value(second, "SELECT n FROM loaded") == 42
        # settings are those of this start alone
        assert value(second, "SHOW shared_buffers") == "24MB"
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(conninfo(second), password=first.password)
        assert (second.data_directory / "postgresql.conf").read_text().count("shared_buffers = '") == 1
        assert str(second.password) not in second.log_path.read_text()
        for process in servers_in(second.data_directory):
            process.send(9)  # type: ignore[arg-type]
    (second.data_directory / "pg_hba.conf").write_text("local all all trust\nhost all all 0.0.0.0/0 trust\n")
    with opened(warm_home, kept) as third:
        # one that trusted everybody does so no more
        assert "trust" not in (third.data_directory / "pg_hba.conf").read_text()
        only_passwords_let_others_in(third, warm_home)
        assert value(third, "SELECT n FROM loaded") == 42
        assert "automatic recovery in progress" in third.log_path.read_text()
