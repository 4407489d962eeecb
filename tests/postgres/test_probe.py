"""pgprobe against real servers: it reports what the test provokes, in the right second, with process and wait."""

import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdyno.targets import Home, Server
from pgdyno.watch.polling import backends
from tests.postgres.probe_process import Probe, probe_arguments, probing, program
from tests.postgres.servers import embedded, execute, opened
from tests.postgres.watch_process import clean
from tests.present import present
from tests.run_program import BIN, run_program
from tests.waiting import PATIENCE_S, wait_until

SETTINGS = {"shared_buffers": "32MB", "max_connections": "40", "autovacuum": "off", "checkpoint_timeout": "1h"}
pytestmark = pytest.mark.long_cases("[10]", "[13]")


@pytest.fixture(scope="module", params=["10", "13", "18"])
def server(request: pytest.FixtureRequest, home: Home) -> Iterator[Server]:
    with opened(home, embedded(request.param, settings=SETTINGS), "probed") as server:
        execute(
            server,
            "CREATE TABLE filled (id int, filler text) WITH (fillfactor = 50)",
            "INSERT INTO filled SELECT i, repeat('x', 400) FROM generate_series(1, 40000) i",
        )
        yield server


def major(server: Server) -> int:
    return int(server.facts().version.split(".")[0])


def test_a_checkpoint_is_found_in_its_second(server: Server) -> None:
    with server.connect() as connection, probing(*probe_arguments(server)) as probe:
        probe.wait_for("sample", "checkpoints", 2)
        connection.execute("UPDATE filled SET filler = repeat('y', 400)")
        probe.wait_past(time.time(), "checkpoints", "control")
        began = time.time()
        connection.execute("CHECKPOINT")
        ended = time.time()
        # counters come up to a second late
        probe.wait_past(ended + 1, "checkpoints", "control", "process")
    rows = probe.rows("checkpoints")
    assert probe.gained("checkpoints", "requested", began, ended) == 1
    assert sum(values.get("requested", 0) for at, values in rows if at < began) == 0
    assert probe.gained("checkpoints", "buffers", began, ended) > 1000
    # its file writes of that second, by the kernel's accounting, which counts no page that was dirty already
    assert probe.gained("process", "written", began, ended, kind="checkpointer") > 4_000_000
    ages = [(at, values["since_redo"]) for at, values in probe.rows("control")]
    before = max(at for at, _ in ages if at < began)
    behind = min(at for at, _ in ages if at > ended)
    assert dict(ages)[behind] < dict(ages)[before] / 10


def test_a_vacuum_is_found_with_its_process(server: Server) -> None:
    with server.connect() as connection, probing(*probe_arguments(server)) as probe:
        connection.execute("UPDATE filled SET filler = repeat('z', 400)")
        # a session reports what it did after a transaction, at most once a second
        time.sleep(1.1)
        connection.execute("SELECT 1")
        # the server's statistics may be half a second old
        probe.wait_past(time.time() + 1, "tables")
        began = time.time()
        connection.execute("SET vacuum_cost_delay = 20")
        connection.execute("SET vacuum_cost_limit = 300")
        connection.execute("VACUUM filled")
        ended = time.time()
        pid = connection.info.backend_pid
        probe.wait_past(ended + 1, "tables", "process")
    progress = probe.rows("vacuum", pid=str(pid), table="public.filled")
    assert progress
    # the last sample of a busy machine may be written when the vacuum has ended
    assert all(began - 0.1 <= at for at, _ in progress)
    assert any(at <= ended for at, _ in progress)
    assert all(values["scanned"] <= values["blocks"] for _, values in progress)
    assert probe.gained("tables", "vacuums", began, ended) == 1
    dead = [values["dead_rows"] for at, values in probe.rows("tables") if at < began]
    assert max(dead) >= 40_000
    assert probe.rows("tables")[-1][1]["dead_rows"] < max(dead)
    delayed = [
        sum(count for (kind, _), count in look.items() if kind == "Timeout") for _, look in during(probe, began, ended)
    ]
    # until 13 the delay of a vacuum was a plain sleep, which no view shows
    assert (sum(delayed) > 0) == (major(server) >= 13)
    title = [row for row in probe.of("sample", "process") for row in row["rows"] if row["labels"]["pid"] == str(pid)]
    assert any(row["labels"].get("activity") == "VACUUM" for row in title)


def during(probe: Probe, began: float, ended: float) -> list[tuple[float, dict[tuple[str, str | None], int]]]:
    return [look for look in probe.waits() if began + 0.15 <= look[0] <= ended]


def test_a_lock_queue_is_found_with_who_blocks_whom(server: Server) -> None:
    def update() -> None:
        execute(server, "UPDATE filled SET id = id WHERE id = 1")

    with server.connect() as holder, probing(*probe_arguments(server)) as probe:
        probe.wait_for("waits", number=3)
        with holder.transaction():
            holder.execute("UPDATE filled SET id = id WHERE id = 1")
            began = time.time()
            waiting = [threading.Thread(target=update) for _ in range(3)]
            for thread in waiting:
                thread.start()
            wait_until(lambda: queue(probe) == 3)
            queued = time.time()
            wait_until(lambda: len(during(probe, queued, time.time())) >= 15)
            ended = time.time()
        for thread in waiting:
            thread.join()
        wait_until(lambda: queue(probe) == 0)
        over = time.time()
        probe.wait_past(over + 1, "sessions")
        blocker = holder.info.backend_pid
    queues = [in_queue(look) for _, look in during(probe, queued, ended)]
    assert set(queues) == {3}
    waits = {wait for _, look in during(probe, queued, ended) for kind, wait in look if kind == "Lock"}
    assert waits == {"transactionid", "tuple"}
    # no session waits before and after
    assert all(kind != "Lock" for at, look in probe.waits() if at < began or at > over for kind, _ in look)
    blocked = [row for line in probe.of("blockers") for row in line["rows"]]
    first = [row for row in blocked if row["blocked_by"] == blocker]
    assert first
    assert {(row["lock"], row["state"]) for row in first} == {("transactionid", "idle in transaction")}
    # once a second, and only then
    assert 1 <= len(probe.of("blockers")) <= over - began + 1.5
    assert all(began <= line["wall_us"] / 1e6 <= over for line in probe.of("blockers"))


def in_queue(look: dict[tuple[str, str | None], int]) -> int:
    return sum(count for (kind, _), count in look.items() if kind == "Lock")


def queue(probe: Probe) -> int:
    looks = probe.waits()
    return in_queue(looks[-1][1]) if looks else 0


def test_a_commit_storm_waits_for_wal(server: Server) -> None:
    stop = threading.Event()
    commits = [0] * 6

    def commit(number: int) -> None:
        with server.connect() as connection:
            # one writes the log late, and the others wait for it, however fast the disk is
            connection.execute("SET commit_delay = 5000; SET commit_siblings = 0")
            while not stop.is_set():
                connection.execute("INSERT INTO storm VALUES (1)")
                commits[number] += 1

    execute(server, "DROP TABLE IF EXISTS storm", "CREATE TABLE storm (id int)")
    with probing(*probe_arguments(server)) as probe:
        probe.wait_for("sample", "database", 2)
        began = time.time()
        storm = [threading.Thread(target=commit, args=(number,)) for number in range(6)]
        for thread in storm:
            thread.start()
        wait_until(lambda: len(during(probe, began + 0.5, time.time())) >= 25 and min(commits) > 0)
        stop.set()
        for thread in storm:
            thread.join()
        ended = time.time()
        # sessions tell their last statistics when they end
        probe.wait_past(ended + 1, "database", "wal_position", "processes")
    looks = during(probe, began + 0.5, ended - 0.2)
    of_wal = 0
    for _, look in looks:
        of_wal += sum(count for (kind, wait), count in look.items() if "wal" in f"{kind}{wait}".lower())
    assert of_wal / len(looks) > 0.3, looks
    own = 2 * probe.of("sample", "probe")[-1]["t_us"] / 1e6 * 11
    assert sum(commits) <= probe.gained("database", "commits", began, ended) <= sum(commits) + own + 50
    inserted = probe.gained("database", "rows_inserted", began, ended)
    assert inserted == sum(commits)
    clients = probe.gained("processes", "cpu", began, ended, kind="client backend")
    # in microseconds: no commit does with less, and those of a busy machine are few
    assert clients > 10 * sum(commits)
    if major(server) >= 14:
        assert probe.gained("wal", "records", began, ended) >= 2 * sum(commits)
        assert probe.gained("wal", "syncs", began, ended) > 0
    assert probe.gained("wal_position", "inserted", began, ended) > 30 * sum(commits)


def test_a_restart_is_a_gap_and_not_a_figure(server: Server) -> None:
    with probing(*probe_arguments(server)) as probe:
        probe.wait_for("sample", "database", 2)
        began = time.time()
        server.restart()
        ended = time.time()
        seen = len(probe.of("sample", "database"))
        probe.wait_for("sample", "database", seen + 2)
        probe.wait_for("sample", "process", len(probe.of("sample", "process")) + 1)
    lost = [line for line in probe.of("gap", "server") if line.get("reason") == "session_lost"]
    assert lost
    _, again = probe.of("connected")
    assert began <= lost[0]["wall_us"] / 1e6 <= again["wall_us"] / 1e6
    assert all(values.get("commits", 0) >= 0 for _, values in probe.rows("database"))
    # the postmaster is another one, and its processes are found
    assert any(at > ended for at, _ in probe.rows("processes", kind="checkpointer"))


def test_a_role_without_rights_is_told_once(server: Server) -> None:
    execute(server, "DROP ROLE IF EXISTS humble", "CREATE ROLE humble LOGIN PASSWORD 'humble'")
    environment = {**server.environment(), "PGUSER": "humble", "PGPASSWORD": "humble"}
    with server.connect(), probing(environment, ["--no-host"]) as probe:
        probe.wait_for("sample", "database", 2)
    warnings = probe.of("warning")
    assert [line["source"] for line in warnings if "GRANT pg_monitor" in line["message"]] == ["waits"]
    assert len({(line["source"], line["message"]) for line in warnings}) == len(warnings)
    assert len(probe.of("sample", "database")) >= 2
    # sessions that it cannot see are unknown, not absent
    assert not probe.of("sample", "sessions")


def test_names_are_read_in_any_encoding(server: Server) -> None:
    execute(server, "CREATE DATABASE latin TEMPLATE template0 ENCODING LATIN1 LC_COLLATE 'C' LC_CTYPE 'C'")
    environment = {**server.environment(), "PGDATABASE": "latin"}
    execute(server, 'CREATE TABLE "tä"()', 'CREATE TABLE "tö"()', dbname="latin")
    with probing(environment, ["--no-host"]) as probe:
        probe.wait_for("sample", "relations")
    names = {row["labels"]["table"] for row in probe.of("sample", "relations")[0]["rows"]}
    assert names == {'public."tä"', 'public."tö"'}


def test_no_server_is_said_once_and_the_host_goes_on(scratch: Path) -> None:
    with probing({"PGHOST": str(scratch)}, []) as probe:
        probe.wait_for("sample", "cpu", 4)
    assert [line["source"] for line in probe.of("warning")] == ["server"]
    assert "No such file or directory" in probe.of("warning")[0]["message"]


@pytest.mark.parametrize("how", ["lease", "signal", "reader"])
def test_the_probe_does_not_outlive_its_parent(how: str) -> None:
    command = [program(), "--no-server", "--parent-lease"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        stdin, stdout = present(process.stdin), present(process.stdout)
        stdout.readline()
        if how == "lease":
            stdin.close()
        elif how == "signal":
            process.send_signal(signal.SIGINT)
        else:
            stdout.close()
        if how != "reader":
            assert stdout.read().splitlines()[-1].startswith(b'{"event":"end"')
        assert process.wait(PATIENCE_S) == 0


def test_a_broken_connection_string_is_refused() -> None:
    assert "frob" in run_program([program(), "host=x frob=1"], code=1).stderr


def test_sessions_of_the_probe_are_left_out_and_its_password_is_nowhere(server: Server) -> None:
    with server.connect(), probing(*probe_arguments(server, "--waits-hz=50")) as probe:
        probe.wait_for("waits", number=60)
    looks = probe.waits()
    busy = sum(bool(look) for _, look in looks)
    assert busy <= len(looks) * 0.1, [look for _, look in looks if look]
    assert {values["total"] for _, values in probe.rows("sessions")} == {1}
    assert server.password
    assert server.password not in str(probe.lines)


CLIENT_READ = ("Client", "ClientRead")


def seen(probe: Probe, since: float) -> Counter[tuple[str, str | None]]:
    total: Counter[tuple[str, str | None]] = Counter()
    for at, look in probe.waits():
        total.update(look if at > since else {})
    return total


def is_waiting(server: Server, pid: int) -> bool:
    with server.connect() as connection:
        return [row["wait"] for row in backends(connection)["rows"] if row["pid"] == pid] == ["Client:ClientRead"]


@pytest.mark.long
def test_short_statements_are_on_a_processor(server: Server, tmp_path: Path) -> None:
    """The server copies the states of sessions before it reads their waits."""
    (tmp_path / "short.sql").write_text("SELECT id FROM filled WHERE ctid = '(0,1)';\n")
    load = [str(BIN / "pgdrive"), "-n", "-f", "short.sql", "-M", "prepared", "-c", "4", "-T", "600"]
    with (
        subprocess.Popen(load, cwd=tmp_path, env=clean(server.environment()), stdout=subprocess.DEVNULL) as process,
        probing(server.environment(), ["--no-host", "--waits-hz=50"]) as probe,
    ):
        try:
            wait_until(lambda: sum(seen(probe, 0).values()) > 100)
        finally:
            process.kill()
    found = seen(probe, 0)
    assert found["CPU", None] > 0.9 * sum(found.values()), found
    assert found[CLIENT_READ] < 0.05 * sum(found.values()), found


def test_a_copy_and_a_pipeline_that_stays_open_wait_for_their_client(server: Server) -> None:
    with server.connect() as connection, probing(server.environment(), ["--no-host"]) as probe:
        connection.execute("CREATE TEMPORARY TABLE copied (id int)")
        with connection.cursor().copy("COPY copied FROM STDIN") as copy:
            copy.write("1\n")
            began = time.time()
            wait_until(lambda: seen(probe, began)[CLIENT_READ] >= 3)
            assert is_waiting(server, connection.info.backend_pid)
        raw = connection.pgconn
        raw.enter_pipeline_mode()
        raw.send_query_params(b"SELECT 1", None)
        raw.send_flush_request()
        raw.flush()
        began = time.time()
        # that it waits for its client is known after a second
        wait_until(lambda: seen(probe, began)[CLIENT_READ] >= 3)
        assert is_waiting(server, connection.info.backend_pid)
        assert min(at for at, look in probe.waits() if at > began and look.get(CLIENT_READ)) - began > 0.9
        connection.close()
