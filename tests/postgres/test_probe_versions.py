"""Every major version from 10 to 18: the probe reads each of its sources without an error."""

import pytest

from pages import describe_probe
from pgdyno.targets import Home, Server
from tests.postgres.probe_process import Probe, probing
from tests.postgres.servers import embedded, execute, opened
from tests.waiting import wait_until

MAJORS = range(10, 19)
SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "wal_level": "logical",
    "archive_mode": "on",
    "archive_command": "true",
    "fsync": "off",
    "shared_buffers": "16MB",
    "max_connections": "20",
}
WHILE_IT_LASTS = {"vacuum", "replication"}
"""Sources that have a row only while there is one."""


def documented(major: int) -> set[str]:
    _, table = describe_probe().split("### Sources by version of the server\n\n")
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line]
    place = lines[0].index(str(major))
    return {cells[0].strip("`") for cells in lines[2:] if cells[place]}


@pytest.mark.long_cases("[11]", "[12]", "[13]", "[14]", "[15]", "[16]", "[17]")
@pytest.mark.parametrize("major", MAJORS)
def test_every_source_of_every_version_answers(home: Home, major: int) -> None:
    with opened(home, embedded(str(major), settings=SETTINGS), "versions") as server:
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
    with opened(home, embedded(settings=SETTINGS), "versions") as server, server.connect() as connection:
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
