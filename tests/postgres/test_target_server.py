"""A server from its start to its removal: its configuration, and that nothing remains."""

import os
import signal
import socket
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pgdyno.errors import ExitCode, TargetError
from pgdyno.targets import Home, Server, SilentProgress
from pgdyno.targets.cluster import instance as instance_module
from pgdyno.targets.cluster import postmaster as start_module
from pgdyno.targets.cluster.postmaster import Deadlines, free_port
from pgdyno.targets.cluster.processes import ProcessId, descendants, identify, servers_in
from tests.conninfo import conninfo
from tests.postgres.servers import QUICK, embedded, opened, value
from tests.present import present
from tests.waiting import wait_until


class Steps(SilentProgress):
    """Records messages."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def step(self, text: str) -> None:
        self.said.append(text)


def postmaster_pid(server: Server) -> int:
    return int((server.data_directory / "postmaster.pid").read_text().splitlines()[0])


def test_nothing_is_left_after_the_block(home: Home) -> None:
    with opened(home, embedded()) as server:
        postmaster = present(identify(postmaster_pid(server)))
        family = [postmaster, *descendants(postmaster)]
        assert len(family) > 3
        # a session that is busy does not hold up the end
        busy = server.connect()
        busy.execute("CREATE TABLE t AS SELECT generate_series(1, 1000) AS n")
        assert server.socket_directory.stat().st_mode & 0o777 == 0o700
        assert server.alive()
    assert not [process for process in family if process.is_alive()]
    assert servers_in(server.data_directory) == []
    assert not server.data_directory.exists()
    assert not server.log_path.parent.exists()
    assert not server.socket_directory.exists()
    assert not server.alive()
    with pytest.raises(psycopg.OperationalError):
        busy.execute("SELECT 1")


def test_nothing_is_left_when_the_block_raises(home: Home) -> None:
    with pytest.raises(ZeroDivisionError), opened(home, embedded()) as server:
        raise ZeroDivisionError
    assert servers_in(server.data_directory) == []
    assert not server.log_path.parent.exists()
    assert not server.socket_directory.exists()


def test_a_child_that_ignores_the_end_is_ended(home: Home) -> None:
    # what archive_command starts is a child of a child
    stubborn = "trap '' INT TERM QUIT; while :; do sleep 0.05; done"
    settings = {**QUICK, "archive_mode": "on", "archive_command": stubborn}
    deadlines = Deadlines(fast_s=0.5, immediate_s=0.5, kill_s=30)
    patched = pytest.MonkeyPatch()
    patched.setattr(instance_module, "Deadlines", lambda: deadlines)
    with patched.context(), opened(home, embedded(settings=settings)) as server:
        with server.connect() as connection:
            connection.execute("SELECT pg_switch_wal()")
        postmaster = present(identify(postmaster_pid(server)))

        def stubborn_children() -> list[ProcessId]:
            return [each for each in descendants(postmaster) if b"trap" in command_line(each.pid)]

        wait_until(stubborn_children)
        shells = stubborn_children()
    patched.undo()
    assert not [process for process in shells if process.is_alive()]
    assert not server.data_directory.exists()


def test_pgdyno_does_not_wait_for_orphans_of_a_killed_postmaster(home: Home) -> None:
    """An orphan may wait for ever for a lock of a killed process: in this test it is halted and does nothing."""
    with opened(home, embedded()) as server:
        session = server.connect()
        orphan = identify(session.info.backend_pid)
        postmaster = present(identify(postmaster_pid(server)))
        present(orphan).halt()
        postmaster.send(signal.SIGKILL)
        wait_until(lambda: not postmaster.is_alive())
        with pytest.MonkeyPatch.context() as patched:
            # a fast stop, which it would never end by
            patched.setattr(instance_module, "KEPT_DEADLINES", Deadlines(fast_s=1e9, immediate_s=0.2))
            server.restart()
        assert not present(orphan).is_alive()
        session.close()
        assert value(server, "SELECT 1") == 1


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_settings_of_the_plan_arrive(home: Home) -> None:
    settings = {**QUICK, "work_mem": "7MB", "max_connections": "33", "application_name": "it's a \\ back'slash"}
    with opened(home, embedded(settings=settings)) as server:
        with server.connect() as connection:
            shown = {name: connection.execute(f"SHOW {name}").fetchone() for name in ("work_mem", "max_connections")}
            written = connection.execute(
                "SELECT setting FROM pg_file_settings WHERE name = 'application_name'"
            ).fetchone()
        facts = server.facts()
    assert shown == {"work_mem": ("7MB",), "max_connections": ("33",)}
    assert written == ("it's a \\ back'slash",)
    assert facts.settings_changed["work_mem"] == "7MB"
    assert facts.settings_changed["shared_buffers"] == "16MB"


def test_facts(server: Server) -> None:
    facts = server.facts()
    assert facts.version.startswith("18.")
    assert facts.version_full.startswith(f"PostgreSQL {facts.version} on ")
    assert facts.data_checksums
    assert (facts.cluster_bytes or 0) > 10_000_000
    assert facts.settings_changed["fsync"] == "off"
    assert facts.settings_changed["cluster_name"] == "pgdyno"
    # drawn each time, and never the reason for a difference
    assert not {"port", "unix_socket_directories", "application_name"} & set(facts.settings_changed)
    # left as the server has them
    assert "work_mem" not in facts.settings_changed


def test_the_database_is_ready(server: Server) -> None:
    with server.connect() as connection:
        row = connection.execute(
            "SELECT current_database(), pg_encoding_to_char(encoding), datcollate, current_user"
            " FROM pg_database WHERE datname = current_database()"
        ).fetchone()
    assert row == ("pgdyno", "UTF8", "C", "postgres")


def test_the_password_is_shown_nowhere(server: Server) -> None:
    assert server.environment()["PGPASSWORD"] == server.password
    assert len(server.password) >= 24
    assert server.password not in repr(server)
    assert server.password not in server.log_path.read_text()
    assert not (server.log_path.parent / "password").exists()


def test_the_environment_is_enough_to_connect(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, given in server.environment().items():
        monkeypatch.setenv(name, given)
    with psycopg.connect("") as connection:
        assert connection.info.dbname == "pgdyno"
        assert connection.info.host == str(server.socket_directory)


def test_tcp_wants_the_password(server: Server) -> None:
    tcp = make_conninfo(conninfo(server), host="127.0.0.1")
    psycopg.connect(tcp, password=server.password).close()
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(tcp, password="wrong")


def test_connect_tcp(home: Home) -> None:
    with opened(home, embedded(connect="tcp")) as server:
        assert server.host == "127.0.0.1"
        assert "host=127.0.0.1" in conninfo(server)
        with server.connect() as connection:
            row = connection.execute("SELECT inet_server_port()").fetchone()
    assert row == (server.port,)


def test_restart_keeps_data_and_settings(home: Home) -> None:
    with opened(home, embedded()) as server:
        with server.connect() as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS n")
        before, port, size = postmaster_pid(server), server.port, server.log_size()
        server.restart()
        assert postmaster_pid(server) != before
        assert server.port == port
        assert value(server, "SELECT n FROM kept") == 42
        assert value(server, "SHOW fsync") == "off"
        part = server.log_path.read_bytes()[size:].decode()
    assert "received fast shutdown request" in part
    assert "ready to accept connections" in part
    assert not server.data_directory.exists()


def test_a_crash_is_seen(home: Home) -> None:
    with opened(home, embedded()) as server:
        os.kill(postmaster_pid(server), 9)
        wait_until(lambda: not server.alive())
        with pytest.raises(TargetError, match="cannot connect to"):
            server.connect()
    assert servers_in(server.data_directory) == []
    assert not server.data_directory.exists()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"wurk_mem": "4MB"}, 'unrecognized configuration parameter "wurk_mem"'),
        ({"work_mem": "12 apples"}, 'invalid value for parameter "work_mem": "12 apples"'),
        ({"wal_level": "minimal", "archive_mode": "on"}, 'when "wal_level" is "minimal"'),
        ({"shared_preload_libraries": "no_such_library"}, 'could not access file "no_such_library"'),
    ],
)
def test_a_setting_that_the_server_refuses_is_named(warm_home: Home, settings: dict[str, str], named: str) -> None:
    with pytest.raises(TargetError) as caught, opened(warm_home, embedded(settings=settings), "mine"):
        pass
    assert named in caught.value.message
    assert caught.value.message.startswith("target mine: cannot start PostgreSQL 18.")
    assert all(name in (caught.value.hint or "") for name in settings)
    assert caught.value.exit_code is ExitCode.TARGET
    assert list(warm_home.instances.iterdir()) == []


def test_settings_and_arguments_of_initdb_that_are_pgdynos_own(home: Home) -> None:
    with pytest.raises(TargetError, match="cannot set port: "), opened(home, embedded(settings={"port": "1"})):
        pass
    said = "cannot pass -D/elsewhere to initdb"
    with pytest.raises(TargetError, match=said), opened(home, embedded(initdb=["-D/elsewhere"])):
        pass


def test_arguments_of_initdb_arrive(home: Home) -> None:
    arguments = ["--no-data-checksums", "--locale=C.UTF-8", "--wal-segsize=4"]
    with opened(home, embedded(initdb=arguments)) as server:
        assert not server.facts().data_checksums
        with server.connect() as connection:
            assert connection.execute("SHOW wal_segment_size").fetchone() == ("4MB",)
            row = connection.execute("SELECT datcollate FROM pg_database WHERE datname = 'pgdyno'").fetchone()
    assert row == ("C.UTF-8",)


def test_initdbs_own_words_are_told(home: Home) -> None:
    with (
        pytest.raises(
            TargetError, match=r"cannot create a cluster with initdb 18\..*unrecognized option '--frobnicate'"
        ),
        opened(home, embedded(initdb=["--frobnicate"])),
    ):
        pass


def test_a_port_that_was_taken_is_not_the_end(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = [taken.getsockname()[1]]
        monkeypatch.setattr(start_module, "free_port", lambda: ports.pop() if ports else free_port())
        with opened(home, embedded()) as server:
            assert server.port != taken.getsockname()[1]
            assert server.facts().version.startswith("18.")
            assert "Address already in use" in server.log_path.read_text()


def test_taken_ports_are_an_error_with_the_servers_words(warm_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(start_module, "free_port", lambda: taken.getsockname()[1])
        with pytest.raises(TargetError) as caught, opened(warm_home, embedded()):
            pass
    assert "5 ports were taken: could not create any TCP/IP sockets" in caught.value.message
    assert 'could not bind IPv4 address "127.0.0.1": Address already in use' in caught.value.message


def test_two_servers_at_once(home: Home) -> None:
    with opened(home, embedded(), "a") as first, opened(home, embedded(), "b") as second:
        assert first.port != second.port
        assert first.data_directory != second.data_directory
        with first.connect() as connection:
            connection.execute("CREATE TABLE only_here ()")
        assert value(second, "SELECT to_regclass('only_here')") is None


def test_steps_are_told(home: Home) -> None:
    steps = Steps()
    with opened(home, embedded(), progress=steps):
        said = list(steps.said)
    assert [text.split(" PostgreSQL")[0] for text in said[-2:]] == ["creating a cluster of", "starting"]


def test_texts_of_a_database_without_an_encoding_are_texts(server: Server) -> None:
    with server.connect() as connection:
        connection.execute(
            "CREATE DATABASE unencoded TEMPLATE template0 ENCODING SQL_ASCII LC_COLLATE 'C' LC_CTYPE 'C'"
        )
        try:
            assert value(server, "SELECT 'text'", "unencoded") == "text"
        finally:
            connection.execute("DROP DATABASE unencoded")
