"""Files are read by their names, whatever these mean to DuckDB: patterns, and folders that would be columns."""

import json
import shutil
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from pgdyno.capture.logs.capture_logs import capture_logs
from pgdyno.capture.replay_file import write_replay_file
from pgdyno.importers.pgbench_logs.read_log import LogKind, read_log
from pgdyno.records import PlacedLines
from pgdyno.records.capture import STATEMENTS_FILE
from pgdyno.store import RunFolder, load_run, query
from pgdyno.store.duckdb_session import quote_text, reading_below, table_function
from pgdyno.store.probe_queries import probe_averages
from pgdyno.store.probe_tables import AMOUNTS, rows_within, write_probed
from pgdyno.synthesise.transactions import CapturedStatements
from tests.unit.capture_log_sample import KEPT, csvlog, done, rows_of
from tests.unit.events_sample import sample_events
from tests.unit.store_sample import add_trial, ingested, sample_manifest

pytestmark = pytest.mark.slow

NAMES = {
    # the folder, and one that it matches as a pattern
    "load[1]": "load1",
    "a*b": "axb",
    "what?": "whats",
    'it\'s [a-c] "*"': 'it\'s b "x"',
    "back\\slash": "backslash",
    "back\\slash[1]": "back\\slash1",
    "clients=99": "clients",
    "trial=x": "trial",
    "second=x/statement=7/t_us=7": "second",
    "source=x[1]": "source=x1",
}
names = pytest.mark.parametrize("name", NAMES)


@names
def test_a_run_has_its_own_rows(name: str, tmp_path: Path) -> None:
    events = [sample_events(4, 2, 500, 900, seed=1), sample_events(8, 2, 700, 900, seed=2)]
    folder = RunFolder.create(tmp_path / name, sample_manifest())
    slugs = [add_trial(folder, number, each).name for number, each in enumerate(events, start=1)]
    other = tmp_path / NAMES[name] / folder.path.name
    shutil.copytree(folder.path, other)
    for table in folder.trial_paths()[1].glob("*.parquet"):
        shutil.copy(table, other / "trials" / slugs[0] / table.name)

    run = load_run(folder.path)
    rows = [ingested(number, each) for number, each in enumerate(events, start=1)]
    assert run.intervals() == rows[0].intervals + rows[1].intervals
    assert run.events(1) == rows[0].events
    assert run.statements(2) == rows[1].statements
    (trials,) = query("SELECT list(DISTINCT trial ORDER BY trial) FROM intervals", [folder]).rows
    assert trials == ([1, 2],)
    (clients,) = query("SELECT list(DISTINCT clients ORDER BY clients) FROM intervals", [folder]).rows
    assert clients == (sorted({row.clients or 0 for each in rows for row in each.intervals}),)


@names
def test_the_samples_of_a_probe_and_the_rows_of_a_query_are_those_of_the_folder(name: str, tmp_path: Path) -> None:
    for folder, value in ((tmp_path / NAMES[name], 5.0), (tmp_path / name, 3.0)):
        folder.mkdir(parents=True)
        sample = {"event": "sample", "t_us": 7, "wall_us": 8, "source": "wal", "rows": [{"values": {"bytes": value}}]}
        lines = [{"event": "start", "t_us": 0, "wall_us": 1}, sample]
        (folder / "probe.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        write_probed(folder, 1, [PlacedLines(folder / "probe.jsonl", 0)])
    found = rows_within({1: tmp_path / name / "series.parquet"}, {1: [(0, 10)]}, AMOUNTS, [("wal", "bytes")])
    assert list(found) == [(1, 0, "wal", "bytes", 3.0)]
    for folder, value in ((tmp_path / NAMES[name], 5), (tmp_path / name, 3)):
        (folder / "trials" / "1").mkdir(parents=True)
        path = str(folder / "trials" / "1" / "intervals.parquet")
        duckdb.sql(f"COPY (SELECT {value} AS second, 1 AS trial) TO {quote_text(path)} (FORMAT parquet)")
    source = reading_below(str(tmp_path / name), "trials/*/intervals.parquet")
    if "\\" not in name:
        assert duckdb.execute(f"SELECT * FROM {source}").fetchall() == [(3, 1)]


def test_a_run_without_a_probe_in_such_a_folder_has_no_averages(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "trial=x[1]", sample_manifest())
    add_trial(folder, 1)
    assert probe_averages(load_run(folder.path)) == []


@pytest.mark.long_cases("[a*b]", "back", 'c] "*"]', "clients", "source", "t_us", "trial", "what")
@names
def test_a_capture_has_its_own_statements(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # several blocks, and several parts of the table
    monkeypatch.setattr("pgdyno.capture.logs.log_blocks.BLOCK_BYTES", 1000)
    # DuckDB makes folders of a name with backslashes when it writes partitions
    if "\\" not in name:
        monkeypatch.setattr("pgdyno.capture.capture_table.PART_BYTES", 1000)
    texts = [f"SELECT {number}" for number in range(30)]
    for folder, first in ((tmp_path / NAMES[name], 100), (tmp_path / name, 0)):
        folder.mkdir(parents=True)
        log = folder / "server.csv"
        entries = [done(f"SELECT {first + number}", pid=1 + number % 3, ms=number) for number in range(30)]
        log.write_text(csvlog(entries))
        capture = capture_logs([log], folder / "capture", KEPT)
    folder = tmp_path / name / "capture"
    assert sorted(row["sql"] for row in rows_of(folder) if row["sql"]) == sorted(texts)
    assert (capture.calls, len(capture.statements), capture.sessions) == (30, 1, 3)

    write_replay_file(folder, capture, tmp_path / "load.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "load.jsonl").read_text().splitlines()]
    assert sorted(line["sql"] for line in lines if "at_us" in line and "sql" in line) == sorted(texts)

    with closing(CapturedStatements.open(folder / STATEMENTS_FILE, len(capture.statements))) as statements:
        assert statements.classes(capture.statements, 0.0).count == 30


def test_columns_of_captured_blocks_are_those_of_the_files(tmp_path: Path) -> None:
    # names of columns of the files that a capture writes on its way
    into = tmp_path / "line=9" / "session=9" / "block=9" / "message=x" / "part=9"
    log = tmp_path / "server.csv"
    log.write_text(csvlog([done("SELECT 1"), done("SELECT 2")]))
    assert capture_logs([log], into, KEPT).calls == 2
    assert [row["sql"] for row in rows_of(into) if row["sql"]] == ["SELECT 1", "SELECT 2"]


@names
def test_a_log_of_pgbench_has_its_own_transactions(name: str, tmp_path: Path) -> None:
    def written(folder: Path, count: int) -> Path:
        folder.mkdir(parents=True)
        path = folder / "pgbench_log[12].7"
        for each in (path, folder / "pgbench_log1.7"):
            lines = [f"{client} {number} 5000 0 1700000000 {number}\n" for number in range(count) for client in (0, 1)]
            each.write_text("".join(lines))
            count += 1
        return path

    written(tmp_path / NAMES[name], 50)
    path = written(tmp_path / name, 20)
    found = read_log([path], 1, LogKind.TRANSACTIONS)
    assert (found.lines, found.clients, found.summary.succeeded) == (40, 2, 40)


def test_a_folder_named_with_a_tilde_is_no_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = RunFolder.create(Path("~x"), sample_manifest())
    events = [sample_events(4, 2, 500, 900, seed=seed) for seed in (1, 2)]
    for number, each in enumerate(events, start=1):
        add_trial(folder, number, each)
    assert folder.path.parts[0] == "~x"
    assert load_run(folder.path).intervals(1) == ingested(1, events[0]).intervals


def test_sql_of_files_has_one_quoted_pattern_each() -> None:
    # a query for users is short where it can be
    assert reading_below("s3://bucket/run", "*.parquet") == "'s3://bucket/run/*.parquet'"
    assert reading_below("s3://bucket/run[1]", "*.parquet") == "'s3://bucket/run[[]1]/*.parquet'"
    assert reading_below("n=1", "*.parquet") == "read_parquet('n=1/*.parquet', hive_partitioning = false)"
    assert table_function("read_parquet", [Path("a'b"), Path("/c?")], "union_by_name = true") == (
        "read_parquet(['a''b', '/c[?]'], hive_partitioning = false, union_by_name = true)"
    )
