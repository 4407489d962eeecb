"""Full page images, autovacuum, a killed backend, a lagging standby: the probe attributes each to its source.

Its figures of the host are the kernel's own, and it reads each source of versions 10 to 18 without an error.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pages import describe_probe
from pgdyno.prepare import Dataset
from pgdyno.targets import Home, Server
from tests.postgres.probe_process import Probe, probe_arguments, probing
from tests.postgres.servers import embedded, execute, on_replica, opened, preparer, value
from tests.present import present
from tests.waiting import wait_until

SETTINGS = {
    "shared_buffers": "64MB", "max_connections": "30", "autovacuum_naptime": "1s", "log_autovacuum_min_duration": "0",
    "checkpoint_timeout": "1h",
}  # fmt: skip
MB = 1 << 20


@pytest.fixture(scope="module")
def disturbed(home: Home) -> Iterator[Server]:
    with opened(home, embedded(settings=SETTINGS), "disturbed") as server:
        execute(
            server,
            "CREATE TABLE filled (id int, filler text) WITH (fillfactor = 50, autovacuum_enabled = off)",
            "INSERT INTO filled SELECT i, repeat('x', 400) FROM generate_series(1, 20000) i",
        )
        yield server


def more(probe: Probe, source: str, number: int = 2) -> None:
    probe.wait_for("sample", source, len(probe.of("sample", source)) + number)


def vacuums(probe: Probe, table: str) -> dict[str, str]:
    rows = [row["labels"] for line in probe.of("sample", "vacuum") for row in line["rows"]]
    return {labels["pid"]: labels["by"] for labels in rows if labels["table"] == table}


def logged_end(probe: Probe, table: str) -> str:
    """Returns the process of a vacuum in the samples, once the server's log reports its end."""

    def ended() -> list[str]:
        ends = [line for line in probe.of("log") if line["message"].startswith(f'automatic vacuum of table "{table}"')]
        seen = vacuums(probe, table.partition(".")[2])
        return [pid for pid in seen if any(line["pid"] == int(pid) for line in ends)]

    wait_until(ended)
    return ended()[0]


def test_a_burst_of_full_page_images_is_found_behind_the_checkpoint(disturbed: Server) -> None:
    times = []
    with disturbed.connect() as connection, probing(*probe_arguments(disturbed)) as probe:
        pages = value(disturbed, "SELECT pg_relation_size('filled') / 8192")
        probe.wait_for("sample", "wal", 2)
        connection.execute("CHECKPOINT")
        probe.wait_past(time.time() + 1, "wal")
        for _ in range(2):
            began = time.time()
            connection.execute("UPDATE filled SET id = id + 1 WHERE ctid::text LIKE '%,1)' OR ctid::text LIKE '%,2)'")
            times.append((began, time.time()))
            probe.wait_past(time.time() + 1, "wal")
    first, second = (probe.gained("wal", "full_page_images", *each) for each in times)
    assert first >= 0.9 * pages
    # the checkpoint has written them to the log
    assert second <= 0.1 * pages
    assert probe.gained("wal", "bytes", *times[0]) > 0.9 * pages * 2000
    said = [(line["kind"], line["phase"]) for line in probe.of("checkpoint")]
    assert said == [("checkpoint", "started"), ("checkpoint", "completed")]
    assert all(line["wall_us"] / 1e6 < times[0][0] for line in probe.of("checkpoint"))


def test_an_autovacuum_is_found_with_its_worker(disturbed: Server) -> None:
    slow = "autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 100"
    with disturbed.connect() as connection, probing(*probe_arguments(disturbed)) as probe:
        probe.wait_for("sample", "tables", 2)
        connection.execute("CREATE TABLE dusty (id int, filler text)")
        connection.execute(f"ALTER TABLE dusty SET (autovacuum_vacuum_threshold = 100, {slow})")
        connection.execute("INSERT INTO dusty SELECT i, repeat('x', 400) FROM generate_series(1, 8000) i")
        connection.execute("UPDATE dusty SET id = id + 1")
        pid = logged_end(probe, "pgdyno.public.dusty")
        connection.execute("DROP TABLE dusty")
    assert set(vacuums(probe, "public.dusty").values()) == {"autovacuum worker"}
    workers = [row["labels"] for line in probe.of("sample", "process") for row in line["rows"]]
    assert pid in {labels["pid"] for labels in workers if labels["kind"] == "autovacuum worker"}
    asleep = [look for _, look in probe.waits("autovacuum worker") if ("Timeout", "VacuumDelay") in look]
    assert asleep


def test_a_killed_backend_is_found_with_its_process_and_its_second(disturbed: Server) -> None:
    def burn() -> None:
        with pytest.raises(psycopg.OperationalError):
            # 400 million pairs
            victim.execute("SELECT count(*) FROM filled AS a, filled AS b WHERE a.id + b.id = -1")

    with disturbed.connect() as victim, probing(*probe_arguments(disturbed)) as probe:
        pid = victim.info.backend_pid
        victim.execute("SET max_parallel_workers_per_gather = 0")
        burner = threading.Thread(target=burn)
        burner.start()
        more(probe, "process", 2)
        more(probe, "database", 1)
        killed = time.time()
        os.kill(pid, signal.SIGKILL)
        burner.join()
        died = time.time()
        probe.wait_for("connected", number=2)
        more(probe, "process", 2)
        over = time.time()
    crash = [line for line in probe.of("log") if f"(PID {pid}) was terminated by signal 9" in line["message"]]
    assert len(crash) == 1, probe.of("log")
    assert crash[0]["pid"] == int((disturbed.data_directory / "postmaster.pid").read_text().split()[0])
    # the log is read ten times a second
    assert killed <= crash[0]["wall_us"] / 1e6 <= over
    assert any("ready to accept connections" in line["message"] for line in probe.of("log"))
    lost = [line for line in probe.of("gap", "server") if line.get("reason") == "session_lost"]
    assert lost
    assert killed <= lost[0]["wall_us"] / 1e6 <= probe.of("connected")[1]["wall_us"] / 1e6
    seen = [
        line["wall_us"] / 1e6
        for line in probe.of("sample", "process")
        if any(row["labels"]["pid"] == str(pid) for row in line["rows"])
    ]
    assert seen
    assert max(seen) <= died
    assert any(("CPU", None) in look for at, look in probe.waits() if at < killed)
    assert all(("CPU", None) not in look for at, look in probe.waits() if at > died + 1)


def test_a_standby_that_falls_behind_is_found_on_both_sides(home: Home) -> None:
    with opened(home, embedded(replicas={"count": 1}), "lagging") as server:
        preparer(server).prepare(Dataset("pgbench", 1))
        (environment,) = server.replica_environments()
        standby = server.data_directory.with_name("replica-1") / "data"
        with probing(*probe_arguments(server)) as primary, probing(environment, [f"--data={standby}"]) as replica:
            primary.wait_for("sample", "replication", 2)
            replica.wait_for("sample", "wal_position", 2)
            on_replica(server, "SELECT pg_wal_replay_pause()::text")
            began = time.time()
            execute(server, "UPDATE pgbench_accounts SET abalance = 1", "CHECKPOINT")
            more(primary, "replication", 3)
            more(replica, "wal_position", 3)
            ended = time.time()
            on_replica(server, "SELECT pg_wal_replay_resume()::text")
            wait_until(lambda: primary.rows("replication", application="pgdyno_1")[-1][1]["unreplayed"] <= MB)
            with server.replica_addresses()[0].connect(server.dbname) as connection:
                connection.execute("CHECKPOINT")
            replica.wait_for("checkpoint", number=2)
    rows = primary.rows("replication", application="pgdyno_1", state="streaming")
    assert all(values["unreplayed"] < MB for at, values in rows if at < began)
    during = [values for at, values in rows if began + 0.5 < at < ended]
    assert during[-1]["unreplayed"] > 10 * MB
    # it came there, and was not applied
    assert during[-1]["unflushed"] < MB
    assert during[-1]["replay_lag"] > 1000 or during[-1]["replay_lag"] > during[-1]["flush_lag"]
    there = [values["unreplayed"] for at, values in replica.rows("wal_position") if began < at < ended]
    assert there[-1] > 10 * MB
    assert replica.rows("wal_position")[-1][1]["unreplayed"] < MB
    ((_, slot), *_) = primary.rows("slots", slot="pgdyno_1", kind="physical", status="reserved")
    assert slot["active"] == 1
    assert {(line["kind"], line["phase"]) for line in replica.of("checkpoint")} >= {
        ("restartpoint", "started"),
        ("restartpoint", "completed"),
    }


MODES = {
    "user": ("user", "nice"), "system": ("system",), "irq": ("irq", "softirq"), "idle": ("idle",),
    "iowait": ("iowait",), "steal": ("steal",),
}  # fmt: skip
"""The kernel's modes of a processor (proc(5)) that each of ours sums up; guests are in theirs, not in ours."""
ROUNDED_S = 0.05
"""The kernel counts in ticks."""
Counts = dict[tuple[str, str, str], float]


def counts() -> Counts:
    """Returns what the kernel has counted since the boot in the probe's units: by source, metric and device."""
    text = Path("/proc/stat").read_text()
    cores = len(re.findall(r"^cpu\d", text, re.MULTILINE))
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    ticks = dict(zip(names, text.split("\n", 1)[0].split()[1:], strict=False))
    per_s = os.sysconf("SC_CLK_TCK") * cores
    found = {("cpu", ours, ""): sum(int(ticks[each]) for each in modes) / per_s for ours, modes in MODES.items()}
    for metric, name in (("context_switches", "ctxt"), ("forks", "processes")):
        found["kernel", metric, ""] = float(re.findall(rf"^{name} (\d+)", text, re.MULTILINE)[0])
    for line in Path("/proc/diskstats").read_text().splitlines():
        _, _, device, *words = line.split()
        for metric, word, unit in (("reads", 0, 1), ("read", 2, 512), ("writes", 4, 1), ("written", 6, 512)):
            found["disk", metric, device] = float(words[word]) * unit
    return found


def test_figures_of_the_host_are_the_kernel_s_own(scratch: Path) -> None:
    """The sum of all samples lies between the increase of the kernel's counts within them and around them."""
    outer, outer_began = counts(), time.monotonic()
    with probing(options=["--no-server", f"--data={scratch}", f"--wal={scratch}"]) as probe:
        for source in ("cpu", "disk", "kernel", "memory"):
            probe.wait_for("sample", source, 1)
        inner, inner_began = counts(), time.monotonic()
        content = os.urandom(32 << 20)
        with (scratch / "written").open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        inner_end, inner_s = counts(), time.monotonic() - inner_began
        probe.wait_past(time.time(), "cpu", "disk", "kernel")
    outer_end, outer_s = counts(), time.monotonic() - outer_began
    assert inner_s <= sum(line["span_us"] or 0 for line in probe.of("sample", "cpu")) / 1e6 <= outer_s
    devices = {row["labels"]["device"] for line in probe.of("sample", "disk") for row in line["rows"]}
    for key in outer_end:
        source, metric, device = key
        if source == "disk" and device not in devices:
            continue
        if source == "cpu":
            lines = [(line["span_us"] or 0, line["rows"][0]["values"]) for line in probe.of("sample", source)]
            ours, rounded = sum(span_us * values.get(metric, 0.0) for span_us, values in lines) / 1e6, ROUNDED_S
        else:
            ours, rounded = probe.total(source, metric, **({"device": device} if device else {})), 0.0
        low, high = inner_end.get(key, 0) - inner.get(key, 0), outer_end[key] - outer.get(key, 0)
        assert low - rounded <= ours <= high + rounded, key
    assert max(probe.total("disk", "written", device=device) for device in devices) >= len(content)
    meminfo = dict(re.findall(r"^(\w+):\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE))
    memory = probe.rows("memory")[-1][1]
    assert memory["total"] == int(meminfo["MemTotal"]) * 1024
    assert abs(memory["cached"] - int(meminfo["Cached"]) * 1024) < 2 << 30
    assert abs(memory["shared"] - int(meminfo["Shmem"]) * 1024) < 1 << 30
    # the disk of the data is named
    device_of_data = scratch.stat().st_dev
    numbers = [str(os.major(device_of_data)), str(os.minor(device_of_data))]
    lines_of_disks = [line.split() for line in Path("/proc/diskstats").read_text().splitlines()]
    rows = [row["labels"] for line in probe.of("sample", "disk") for row in line["rows"]]
    holding = {labels["device"] for labels in rows if labels.get("holds") == "data wal"}
    assert holding == {words[2] for words in lines_of_disks if words[:2] == numbers}
    # its server does not run, which is reported once
    assert [line["source"] for line in probe.of("warning")] == ["process"]


CHILD = """\
import os, sys, time
with open(sys.argv[1], "wb") as file:
    file.write(bytes(8 << 20))
    os.fsync(file.fileno())
end = time.time() + 1
while time.time() < end:
    pass
io = dict(line.split(": ") for line in open("/proc/self/io").read().splitlines())
print(time.process_time(), io["write_bytes"], io["wchar"], flush=True)
sys.stdin.read()
"""


def test_a_process_is_found_by_its_parent_with_what_it_uses(scratch: Path) -> None:
    """A child with a title of PostgreSQL's works: the samples of its seconds say as much as it says itself."""
    # exec -a gives it a title, as a backend gives itself one
    started = f'exec -a "postgres: ann shop [local] SELECT" {sys.executable} -c "$0" {scratch}/written'
    with probing(options=["--no-server", f"--postmaster={os.getpid()}"]) as probe:
        probe.wait_for("sample", "cpu", 2)
        command = ["bash", "-c", started, CHILD]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            cpu_s, written, written_calls = map(float, present(process.stdout).readline().split())
            probe.wait_past(time.time(), "process", "processes")
            backend = {"user": "ann", "database": "shop", "client": "[local]", "kind": "client backend"}
            ours = {metric: probe.total("process", metric, **backend) for metric in ("cpu", "written", "written_calls")}
            process.communicate()
    assert ours["cpu"] / 1e6 == pytest.approx(cpu_s, rel=0.1, abs=0.1)
    assert probe.total("processes", "cpu", kind="client backend") / 1e6 == pytest.approx(cpu_s, rel=0.1, abs=0.1)
    assert written >= 8 << 20
    assert (ours["written"], ours["written_calls"]) == pytest.approx((written, written_calls), rel=0.01)


MAJORS = range(10, 19)
VERSIONED_SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements", "wal_level": "logical", "archive_mode": "on",
    "archive_command": "true", "fsync": "off", "shared_buffers": "16MB", "max_connections": "20",
}  # fmt: skip
WHILE_IT_LASTS = {"vacuum", "replication"}
"""Sources that have a row only while there is one."""


def documented(major: int) -> set[str]:
    _, table = describe_probe().split("### Sources by version of the server\n\n")
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line]
    place = lines[0].index(str(major))
    return {cells[0].strip("`") for cells in lines[2:] if cells[place]}


@pytest.mark.long_cases("[10]", "[11]", "[12]", "[13]", "[14]", "[15]", "[16]", "[17]")
@pytest.mark.parametrize("major", MAJORS)
def test_every_source_of_every_version_answers(home: Home, major: int) -> None:
    with opened(home, embedded(str(major), settings=VERSIONED_SETTINGS), "versions") as server:
        prepare(server)
        with probing(server.environment(), [f"--data={server.data_directory}"]) as probe:
            probe.wait_for("sample", "archiver", 1)
            work(server)
            probe.wait_for("sample", "archiver", len(probe.of("sample", "archiver")) + 2)
            probe.wait_for("checkpoint", number=2)
            if "statements" in probe.of("connected")[0]["sources"]:
                probe.wait_for("sample", "statements", 1)
    assert probe.of("warning") == []
    # on a busy machine a look may come too late; nothing else is missing
    assert all("left out" in line["message"] for line in probe.of("gap"))
    asked = set(probe.of("connected")[0]["sources"])
    assert asked == documented(major)
    seen = {line["source"] for line in probe.of("sample")}
    of_the_host = {"cpu", "kernel", "memory", "disk", "process", "processes", "probe"}
    assert seen >= (asked - WHILE_IT_LASTS) | of_the_host
    metrics_are_documented(probe)
    checkpoints(probe, major)
    statements(probe)
    relations(probe)


def metrics_are_documented(probe: Probe) -> None:
    sections = {part.split("\n", 1)[0]: part for part in describe_probe().split("### ")[1:]}
    for line in probe.of("sample"):
        for metric in {metric for row in line["rows"] for metric in row["values"]}:
            assert f"| `{metric}` |" in sections[line["source"]], (line["source"], metric)


SLOW_STATEMENTS = """
    ALTER FUNCTION pg_stat_statements(boolean) RENAME TO really;
    CREATE TABLE pause AS SELECT 60 AS length_s;
    CREATE FUNCTION pg_stat_statements(showtext boolean) RETURNS SETOF pg_stat_statements LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_sleep(length_s) FROM public.pause;
        RETURN QUERY SELECT * FROM public.really(showtext);
    END $$"""


@pytest.mark.slow
def test_statements_of_a_role_that_may_only_look_and_after_a_timeout(home: Home) -> None:
    with opened(home, embedded(settings=VERSIONED_SETTINGS), "versions") as server, server.connect() as connection:
        prepare(server)
        connection.execute("CREATE ROLE watcher LOGIN PASSWORD 'w' IN ROLE pg_monitor")
        environment = {**server.environment(), "PGUSER": "watcher", "PGPASSWORD": "w"}
        with probing(environment, ["--no-host"]) as looking:
            looking.wait_for("sample", "archiver", 2)
            connection.execute("UPDATE grown SET filler = '' WHERE id < 5")
        connection.execute(SLOW_STATEMENTS)
        with probing(server.environment(), ["--no-host"]) as probe:
            probe.wait_for("warning", "statements")
            connection.execute("UPDATE pause SET length_s = 0")

            def is_sampled() -> bool:
                connection.execute("SELECT 'seen'")
                return bool(probe.of("sample", "statements"))

            wait_until(is_sampled)
    assert looking.of("warning") == []
    (line,) = looking.of("statements")
    texts = [row["text"] for row in line["rows"]]
    assert any(text.startswith("UPDATE grown") for text in texts)
    # its own statements between transactions cannot be distinguished from others'
    assert not any("pg_stat" in text or "pgprobe" in text for text in texts if text not in ("BEGIN", "COMMIT"))
    assert "statement timeout" in probe.of("warning", "statements")[0]["message"]
    (line,) = probe.of("statements")
    assert "SELECT $1" in {row["text"] for row in line["rows"]}


def prepare(server: Server) -> None:
    execute(
        server,
        "CREATE EXTENSION pg_stat_statements",
        "CREATE TABLE grown (id int PRIMARY KEY, filler text)",
        "INSERT INTO grown SELECT i, repeat('x', 100) FROM generate_series(1, 2000) i",
        "SELECT pg_create_physical_replication_slot('kept', true)",
    )


def work(server: Server) -> None:
    with server.connect() as connection:
        for _ in range(3):
            connection.execute("UPDATE grown SET filler = repeat('y', 100) WHERE id < 500")
        connection.execute("ALTER ROLE postgres PASSWORD 'hidden-words'")
        connection.execute("CHECKPOINT")


def checkpoints(probe: Probe, major: int) -> None:
    """log_checkpoints is read from the file that the server's standard error leads to."""
    started, completed = probe.of("checkpoint")[-2:]
    assert (started["kind"], started["phase"], started["reason"]) == ("checkpoint", "started", "immediate force wait")
    assert completed["phase"] == "completed"
    assert completed["buffers"] > 10
    assert completed["total_ms"] >= completed["write_ms"] >= 0
    assert completed["distance_bytes"] > 0
    assert ("redo_lsn" in completed) == (major >= 16)


def statements(probe: Probe) -> None:
    """The table has the trial's statements with their texts, none of the probe's, and no password."""
    (line,) = probe.of("statements")
    by_text = {row["text"]: row["values"] for row in line["rows"]}
    update = next(values for text, values in by_text.items() if text.startswith("UPDATE grown"))
    assert (update["calls"], update["rows"]) == (3, 3 * 499)
    assert update["exec_time"] > 0
    assert not any("pgprobe" in text for text in by_text)
    assert "hidden-words" not in str(line)
    assert any("password" in text for text in by_text)


def relations(probe: Probe) -> None:
    ((_, values), *_) = probe.rows("relations", table="public.grown")
    assert values["size"] > 2000 * 100
    assert values["indexes"] > 2000 * 8
    ((_, values), *_) = probe.rows("indexes", index="public.grown_pkey", table="public.grown")
    assert values["size"] > 2000 * 8
