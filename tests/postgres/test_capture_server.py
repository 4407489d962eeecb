"""Captures of real servers: what they must log, how the log is read while it grows, and what statistics say."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pgdyno.capture.server.log_copy import LogCopy
from pgdyno.capture.server.recording import Recording
from pgdyno.capture.server.server_check import ServerLog, check_server_log
from pgdyno.capture.server.server_files import LocalFiles, SqlFiles
from pgdyno.capture.server.server_session import CapturedServer, reach_server
from pgdyno.capture.server.server_settings import Setting, remedy
from pgdyno.capture.server.statement_statistics import StatementStatistics
from pgdyno.capture.server.wait_samples import WaitSamples
from pgdyno.errors import UsageError
from pgdyno.records.capture import Ended
from pgdyno.targets import Home, SilentProgress
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.embedded.kind import find_embedded
from pgdyno.targets.embedded.schema import EmbeddedTarget
from tests.postgres.own_servers import LOGS_STATEMENTS, OwnServer, running_server
from tests.waiting import wait_until

BIG = 1 << 40


@pytest.fixture(scope="module")
def logging_server(installed: Installation) -> Iterator[OwnServer]:
    with running_server(installed, LOGS_STATEMENTS, "shop") as server:
        yield server


def reached(server: OwnServer, user: str = "postgres") -> CapturedServer:
    return reach_server(server.dsn("shop", user), None)


def checked(server: OwnServer, user: str = "postgres") -> ServerLog:
    return check_server_log(reached(server, user), through_sql=True, files_given=False)


def is_fit(server: OwnServer) -> bool:
    with suppress(UsageError):
        return bool(checked(server).statements)
    return False


def refusal(check: Callable[[], object]) -> tuple[str, list[str], list[str]]:
    """The message of an error, and the statements of its remedy: those before the capture, and those after it."""
    with pytest.raises(UsageError) as caught:
        check()
    return caught.value.message, *statements(caught.value.hint)


def statements(hint: str | None) -> tuple[list[str], list[str]]:
    """The statements of a remedy: those before the capture, and those after it."""
    before, after = (hint or "").split("and after it")
    return tuple([line.strip() for line in part.splitlines() if line.startswith("  ")] for part in (before, after))  # type: ignore[return-value]


def apply(server: OwnServer, lines: list[str]) -> None:
    for line in lines:
        if line == "-- then restart the server":
            server.restart("fast")
        elif not line.startswith("-- until it is revoked"):
            assert not line.startswith("--"), line
            server.execute(line, dbname="shop")


def settings(server: OwnServer) -> dict[str, str]:
    return dict(server.rows("SELECT name, setting FROM pg_settings WHERE name LIKE 'log%'"))


@contextmanager
def other_settings(server: OwnServer, changes: dict[str, str]) -> Iterator[None]:
    """A reload reaches a new session a moment later."""
    good = settings(server)
    sets = [f"ALTER SYSTEM SET {name} = '{value}'" for name, value in changes.items()]
    server.execute(*sets, "SELECT pg_reload_conf()")
    wait_until(lambda: settings(server) != good)
    yield
    server.execute("ALTER SYSTEM RESET ALL", "SELECT pg_reload_conf()")
    wait_until(lambda: settings(server) == good)


# ---- what the server logs ----


@pytest.mark.parametrize(
    ("setting", "missing", "others"),
    [
        ("log_min_duration_statement = -1", "it has no statements", {}),
        ("log_min_duration_statement = 250ms", "it has only slower statements", {}),
        ("log_parameter_max_length = 5B", "values of parameters are cut or missing", {}),
        ("log_min_messages = panic", "it has neither statements nor errors", {}),
        ("log_destination = stderr", "log_line_prefix lacks the time (%m), session (%c) or", {}),
        ("log_destination = syslog", "the log goes elsewhere", {}),
        ("log_error_verbosity = terse", "it has no values of parameters",
         {"log_destination": "stderr", "log_line_prefix": "%m [%p] %d "}),
    ],
)  # fmt: skip
def test_a_remedy_works_and_is_undone(
    logging_server: OwnServer, setting: str, missing: str, others: dict[str, str]
) -> None:
    name, _, value = setting.partition(" = ")
    with other_settings(logging_server, {name: value, **others}):
        before = settings(logging_server)
        message, to_set, to_restore = refusal(lambda: checked(logging_server))
        assert f"{setting}: {missing}" in message
        apply(logging_server, to_set)
        wait_until(lambda: is_fit(logging_server))
        apply(logging_server, to_restore)
        wait_until(lambda: settings(logging_server) == before)


def test_without_a_collector_the_remedy_restarts_the_server(installed: Installation) -> None:
    with running_server(installed, "", "shop") as server:
        before = settings(server)
        message, to_set, to_restore = refusal(lambda: checked(server))
        for each in ("logging_collector = off", "log_min_duration_statement = -1", "log_destination = stderr"):
            assert each in message
        assert to_set[-1] == to_restore[-1] == "-- then restart the server"
        apply(server, to_set)
        found = checked(server)
        assert (found.format, found.statements) == ("csvlog", "log_min_duration_statement = 0")
        assert found.notes == []
        apply(server, to_restore)
        assert settings(server) == before


def test_a_setting_of_the_command_line_is_not_set_by_alter_system() -> None:
    line = Setting("log_min_duration_statement", "-1", "-1", source="command line")
    to_set, to_restore = statements(remedy([(line, "0")]))
    assert to_set[0].startswith("-- log_min_duration_statement is on the server's command line")
    assert to_restore[0] == "-- start the server with -c log_min_duration_statement=-1 again"


@pytest.mark.parametrize(
    "ways",
    [
        {"log_min_duration_statement": "-1", "log_statement": "all", "log_duration": "on"},
        {"log_min_duration_statement": "-1", "log_transaction_sample_rate": "1"},
        {"log_min_duration_statement": "-1", "log_min_duration_sample": "0", "log_statement_sample_rate": "1"},
        {"log_destination": "stderr,jsonlog"},
        {"log_destination": "stderr", "log_line_prefix": "%m [%p] %q%u@%d "},
    ],
)
def test_every_way_to_log_all_statements_will_do(logging_server: OwnServer, ways: dict[str, str]) -> None:
    with other_settings(logging_server, ways):
        # the collector opens the file of another format a moment later
        wait_until(lambda: is_fit(logging_server))
        assert checked(logging_server).format == ways.get("log_destination", "csvlog").split(",")[-1]


def test_a_role_with_settings_of_its_own_is_named(logging_server: OwnServer) -> None:
    logging_server.execute("CREATE ROLE quiet LOGIN; ALTER ROLE quiet SET log_min_duration_statement = -1")
    # as administrators do, to keep their own statements out of the log
    logging_server.execute("ALTER ROLE postgres SET log_min_duration_statement = -1")
    notes = [str(note) for note in checked(logging_server).notes]
    logging_server.execute("ALTER ROLE postgres RESET ALL; DROP ROLE quiet")
    assert any(note.startswith("quiet has a value of its own for log_min_duration_statement") for note in notes), notes


# before 17, pg_monitor may not execute pg_current_logfile
@pytest.mark.long_cases("[15]")
@pytest.mark.parametrize("version", ["15", "17"])
def test_a_role_without_rights_gets_what_grants_them(home: Home, tmp_path: Path, version: str) -> None:
    installation = find_embedded(EmbeddedTarget(kind="embedded", version=version), home, SilentProgress())
    with running_server(installation, LOGS_STATEMENTS, "shop") as server:
        server.execute('CREATE ROLE "the reader" LOGIN')
        message, to_set, to_restore = refusal(lambda: checked(server, "'the reader'"))
        assert 'the role "the reader" may not read files through SQL' in message
        assert ("(pg_current_logfile)" in message) == (version == "15")
        (risk,) = [line for line in to_set if line.startswith("-- until it is revoked")]
        assert '"the reader" may read every file of the data directory' in risk
        assert "pg_read_binary_file" in to_set[to_set.index(risk) + 1]
        apply(server, to_set)
        with copying(server, tmp_path, user="'the reader'") as copied:
            copied.begin()
            server.execute("SELECT 'readable'", dbname="shop")
            wait_until(lambda: copied.step(last=False) and b"readable" in text(copied))
        apply(server, to_restore)
        assert refusal(lambda: checked(server, "'the reader'"))[0] == message


# ---- reading the log ----


@contextmanager
def copying(server: OwnServer, folder: Path, most: int = BIG, user: str = "postgres") -> Iterator[LogCopy]:
    log = checked(server, user)
    files = SqlFiles(reached(server, user), log.directory, log.pattern)
    try:
        yield LogCopy(files, folder / "copies", most)
    finally:
        files.close()


def text(copied: LogCopy) -> bytes:
    # a copy is listed before its file is there
    return b"".join(path.read_bytes() for path in copied.copies if path.exists())


def rotate(server: OwnServer) -> None:
    before = log_of(server)
    # the name has the second in it: another file only in another second
    wait_until(lambda: server.value("SELECT pg_rotate_logfile()") and log_of(server) != before)


def log_of(server: OwnServer) -> Path:
    return server.data / str(server.value("SELECT pg_current_logfile('csvlog')"))


def test_the_log_read_through_sql_is_the_file(logging_server: OwnServer, tmp_path: Path) -> None:
    with logging_server.connect("shop") as connection, copying(logging_server, tmp_path) as copied:
        connection.execute("SELECT 'before'")
        wait_until(lambda: b"'before'" in log_of(logging_server).read_bytes())
        copied.begin()
        file = log_of(logging_server)
        connection.execute("SELECT 'after', %s", ["x" * 9_000_000])
        connection.execute("SELECT 'a line\nand\ttext, 日本'")
        wait_until(lambda: copied.step(last=False) and "日本".encode() in text(copied))
    (copy,) = copied.copies
    assert (copy.name, copy.stat().st_mode & 0o777) == (file.name, 0o600)
    content, whole = copy.read_bytes(), file.read_bytes()
    at = whole.index(content)
    assert b"'before'" in whole[:at]
    assert whole[at:].startswith(content)
    assert len(content) > 9_000_000
    # pgdyno's own statements are not logged
    assert b"pg_read_binary_file" not in content


def test_a_rotation_loses_nothing(logging_server: OwnServer, tmp_path: Path) -> None:
    with logging_server.connect("shop") as connection, copying(logging_server, tmp_path) as copied:
        copied.begin()
        for number in range(3):
            connection.execute(f"SELECT 'statement {number}'".encode())
            rotate(logging_server)
        connection.execute("SELECT 'the end'")
        wait_until(lambda: copied.step(last=False) and b"the end" in text(copied))
    assert len(copied.copies) == 4
    content = text(copied)
    places = [content.index(each) for each in (b"statement 0", b"statement 1", b"statement 2", b"the end")]
    assert places == sorted(places)


NEXT = b"longer than the file before\n"


def append(log: Path, line: bytes) -> None:
    with log.open("ab") as file:
        file.write(line)


@pytest.mark.parametrize(
    ("way", "copies", "truncated"),
    [("truncated", [b"again\n", b"new\n"], 1), ("renamed", [NEXT, b"new\nlate\n"], 0), ("replaced", [NEXT], 1)],
)
def test_a_truncated_renamed_or_replaced_file(tmp_path: Path, way: str, copies: list[bytes], truncated: int) -> None:
    log = tmp_path / "a.csv"
    log.write_bytes(b"old\n")
    copied = LogCopy(LocalFiles([str(tmp_path / "*.csv")]), tmp_path / "copies", BIG)
    copied.begin()
    if way != "replaced":
        append(log, b"new\n")
        assert copied.step(last=False)
    if way == "truncated":
        log.write_bytes(b"again\n")
    else:
        other = log.rename(tmp_path / ("a.1.csv" if way == "renamed" else "a.csv.1"))
        if way == "renamed":
            # the server writes to the renamed file until it opens the new one
            append(other, b"late\n")
        log.write_bytes(NEXT)
    assert copied.step(last=True)
    assert (sorted(path.read_bytes() for path in copied.copies), copied.truncated) == (copies, truncated)


def test_the_limit_ends_a_capture(logging_server: OwnServer, tmp_path: Path) -> None:
    with logging_server.connect("shop") as connection, copying(logging_server, tmp_path, most=1000) as copied:
        recording = Recording(copied, None, 3600)
        recording.start()
        connection.execute("SELECT %s", ["x" * 2000])
        recording.wait(lambda _: None)
    assert recording.ended is Ended.LIMIT
    assert copied.copied_bytes == len(text(copied)) == 1000


def test_a_server_that_is_killed_loses_nothing(installed: Installation, tmp_path: Path) -> None:
    with running_server(installed, LOGS_STATEMENTS, "shop") as server, copying(server, tmp_path) as copied:
        samples = WaitSamples(reached(server))
        recording = Recording(copied, samples, 3600)
        recording.start()
        server.execute("SELECT 'before the crash'", dbname="shop")
        server.stop("immediate")
        wait_until(lambda: recording.lost is not None)
        assert "no connection to the server" in recording._progress()
        server.start()
        server.execute("SELECT 'after the crash'", dbname="shop")
        wait_until(lambda: b"after the crash" in text(copied))
        wait_until(lambda: samples.now != "")
        recording.stop()
        assert (recording.ended, recording.lost) == (Ended.INTERRUPTED, None)
        samples.close()
        assert [text(copied).count(each) for each in (b"before the crash", b"after the crash")] == [1, 1]
        (tmp_path / "last").mkdir()
        with copying(server, tmp_path / "last") as copied_last:
            recording = Recording(copied_last, None, 3600)
            recording.start()
            server.execute("SELECT 'the last one'", dbname="shop")
            wait_until(lambda: b"the last one" in text(copied_last))
            server.stop("immediate")
            wait_until(lambda: recording.lost is not None)
            recording.stop()
            assert recording.ended is Ended.SERVER_LOST
            assert b"the last one" in text(copied_last)


# ---- waits ----


def test_sessions_are_sampled_by_wait_and_pgdynos_own_are_not(logging_server: OwnServer) -> None:
    samples = WaitSamples(reached(logging_server))
    probe = logging_server.connect("shop", application="pgprobe")
    with probe, logging_server.connect("shop") as holder, logging_server.connect("shop") as waiter:
        holder.execute("SELECT pg_advisory_lock(1)")
        thread = threading.Thread(target=lambda: waiter.execute("SELECT pg_advisory_lock(1)"))
        thread.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory'"
        wait_until(lambda: logging_server.value(waiting) == 1)
        for _ in range(4):
            samples.sample()
        holder.execute("SELECT pg_advisory_unlock(1)")
        thread.join()
    assert (samples.now, samples.most_sessions, samples.transactions) == ("2 sessions", 2, 4)
    assert [(each.wait, each.sessions) for each in samples.waits()] == [("Lock:advisory", 1.0)]
    samples.close()


def test_a_role_that_sees_no_other_sessions_samples_none(logging_server: OwnServer) -> None:
    logging_server.execute("CREATE ROLE blind LOGIN")
    samples = WaitSamples(reached(logging_server, "blind"))
    # in its sight, there is no session of others
    with logging_server.connect():
        samples.sample()
    assert (samples.may_see, samples.waits(), samples.now) == (False, [], "")
    samples.close()
    logging_server.execute("DROP ROLE blind")


# ---- statistics ----


@pytest.fixture(scope="module", params=["13", "14", "15", "16", "17", "18"])
def counting_server(request: pytest.FixtureRequest, home: Home) -> Iterator[OwnServer]:
    installation = find_embedded(EmbeddedTarget(kind="embedded", version=request.param), home, SilentProgress())
    with running_server(installation, "", "shop") as server:
        yield server


def counted_by(statistics: StatementStatistics) -> dict[str, tuple[int, int | None]]:
    return {each.text: (each.calls, each.rows) for each in statistics.classes()[0]}


@pytest.mark.long_cases("[13]", "[14]", "[15]", "[16]", "[17]")
def test_statistics_are_what_ran_and_each_remedy_works(counting_server: OwnServer) -> None:
    server = counting_server

    def begin_statistics(user: str = "postgres") -> StatementStatistics:
        return StatementStatistics(reached(server, user))

    message, to_set, to_restore = refusal(begin_statistics)
    assert message == "the server does not load pg_stat_statements"
    apply(server, to_set)
    server.execute("CREATE ROLE reader LOGIN", "DROP EXTENSION pg_stat_statements", dbname="shop")
    for expected in ("does not have the extension", "the role reader may not see the statements of others"):
        message, to_grant, _ = refusal(lambda: begin_statistics("reader"))
        assert expected in message
        apply(server, to_grant)

    statistics = begin_statistics("reader")
    samples = WaitSamples(reached(server, "reader"))
    with server.connect("shop") as connection:
        connection.execute("CREATE TABLE item (id int, name text)")
        connection.execute("SELECT count(*) FROM item WHERE id = 0")
        statistics.begin()
        for number in range(7):
            connection.execute(f"INSERT INTO item VALUES ({number}, 'a')".encode())
        for number in range(5):
            connection.execute(f"SELECT count(*) FROM item WHERE id = {number}".encode())
        connection.execute("PREPARE pgprobe_1 AS SELECT 1")
        for own in ("EXECUTE pgprobe_1", "SELECT /* pgprobe */ 2", "select /* pgdyno */ 3"):
            connection.execute(own.encode())
        connection.execute("/* user='a secret' */ SELECT id FROM item -- a secret")
        connection.execute("SET application_name = 'a secret'")
        if server.installation.major >= 14:
            # a statement within a function is a part of the one that called it; before 14, nothing tells them apart
            connection.execute("SET pg_stat_statements.track = 'all'")
            connection.execute("DO $$ BEGIN PERFORM count(*) FROM item WHERE name = 'nested'; END $$")
        samples.sample()
    # another database does not count
    server.value("SELECT count(*) FROM pg_class WHERE relname = 'elsewhere'")
    statistics.step(last=True)
    found = counted_by(statistics)
    # PostgreSQL 18 replaces these constants, too
    for name in ("application_name", "pg_stat_statements.track"):
        assert found.pop(f"SET {name} = $1", (1, 0)) == (1, 0)
    assert found == {
        "INSERT INTO item VALUES ($1, $2)": (7, 7),
        "SELECT count(*) FROM item WHERE id = $1": (5, 5),
        "SELECT id FROM item": (1, 7),
    }
    classes, left_out = statistics.classes()
    assert all(each.total_us is not None and each.total_us > 0 for each in classes)
    assert {each.reason: each.count for each in left_out} in (
        {"text-with-constants": 3},
        {"text-with-constants": 1},
        {},
    )
    assert "secret" not in str(classes)
    samples.close()

    # a reset loses what was not read; the rest stays
    server.execute("SELECT pg_stat_statements_reset()", "SELECT id FROM item", dbname="shop")
    statistics.step(last=True)
    found = counted_by(statistics)
    assert found["INSERT INTO item VALUES ($1, $2)"] == (7, 7)
    assert found["SELECT id FROM item"] == (2, 14)
    assert next(each.count for each in statistics.classes()[1] if each.reason == "statistics-dropped") >= 2
    statistics.close()
    server.execute("DROP ROLE reader", dbname="shop")
    apply(server, to_restore)
    assert "does not load" in refusal(begin_statistics)[0]
