"""The replay file of a capture: its lines, their order, and memory that does not grow with the statements."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pgdyno.capture.replay_file import write_replay_file
from pgdyno.errors import StoreError
from pgdyno.records.capture import UNKNOWN_SQLSTATE, StatementClass
from tests.unit.capture_sample import ROWS, Row, capture, write_capture

Line = dict[str, Any]


def lines_of(folder: Path) -> list[Line]:
    write_replay_file(folder, capture(), folder / "load.jsonl")
    return [json.loads(line) for line in (folder / "load.jsonl").read_text().splitlines()]


def test_a_file_has_a_head_classes_shared_texts_then_sessions(tmp_path: Path) -> None:
    assert lines_of(write_capture(tmp_path)) == [
        {
            "format": "pgdyno-replay",
            "version": 1,
            "sessions": 2,
            "most_sessions": 2,
            "statements": 5,
            "span_us": 600_000_000,
            "longest_us": 812,
        },
        {"class": 0, "sql": "SELECT a FROM t WHERE b = $1"},
        {"class": 1, "sql": "BEGIN"},
        {"class": 2, "sql": "UPDATE t SET a = $1"},
        {"class": 3, "sql": "COMMIT"},
        {"text": 0, "of": 0, "sql": "SELECT a FROM t WHERE b = $1"},
        {"session": 0, "at_us": 100, "until_us": 2000},
        {"at_us": 150, "of": 1, "sql": "BEGIN", "us": 20, "rows": 0},
        {"at_us": 170, "text": 0, "name": "s1", "params": ["5"], "us": 812, "rows": 1, "block": True},
        {"at_us": 1100, "of": 2, "sql": "UPDATE t SET a = 'é\"\\'", "us": 90, "error": "23505", "block": True},
        {"at_us": 1300, "of": 3, "sql": "COMMIT", "us": 30, "rows": 0, "block": True},
        {"end": 2000},
        {"session": 1, "at_us": 900, "until_us": 5000},
        {"at_us": 950, "text": 0, "params": [None], "us": 788},
        {"end": 5000},
    ]
    assert [path.name for path in tmp_path.glob("*.spilled*")] == []


def test_classes_beyond_those_that_pgdrive_reports_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgdyno.records.capture.MOST_REPORTED", 3)
    lines = lines_of(write_capture(tmp_path))
    names = ["SELECT a FROM t WHERE b = $1", "BEGIN", "other statements"]
    assert [line["sql"] for line in lines if "class" in line] == names
    assert [line["of"] for line in lines if "of" in line and "at_us" in line] == [1, 2, 2]
    assert [line["of"] for line in lines if "text" in line and "of" in line] == [0]


OTHER = [StatementClass(text="a", calls=1)]


@pytest.mark.parametrize(
    ("rows", "changes", "message"),
    [
        ([*ROWS[6:], *ROWS[:6]], {}, "its sessions are not in order"),
        ([ROWS[0], ROWS[3], ROWS[2], ROWS[5]], {}, "session 0 is not in order"),
        (ROWS, {"statements": OTHER}, r"classes that capture\.json lacks"),
        (None, {}, r"cannot replay .*capture\.parquet: Binder Error"),
    ],
)
def test_a_capture_that_cannot_be_replayed_is_refused_and_nothing_is_left(
    tmp_path: Path, rows: Sequence[Row] | None, changes: dict[str, Any], message: str
) -> None:
    folder = write_capture(tmp_path, rows or ROWS)
    if rows is None:
        duckdb.execute(f"COPY (SELECT 1 AS one) TO '{folder / 'capture.parquet'}' (FORMAT parquet)")
    with pytest.raises(StoreError, match=message):
        write_replay_file(folder, capture(**changes), folder / "load.jsonl")
    assert sorted(path.name for path in folder.iterdir()) == ["capture.json", "capture.parquet"]


def test_a_file_that_cannot_be_completed_is_removed(tmp_path: Path) -> None:
    def is_full(_rows: int) -> None:
        raise StoreError("the disk is full")

    folder = write_capture(tmp_path)
    with pytest.raises(StoreError, match="the disk is full"):
        write_replay_file(folder, capture(), folder / "load.jsonl", is_full)
    assert not (folder / "load.jsonl").exists()


WRITE = """
import re, sys
from pathlib import Path
from pgdyno.capture import replay_file
from tests.unit.capture_sample import capture
folder = Path(sys.argv[1])
# less than the statements have: what does not fit is on disk
replay_file.MEMORY = "128MiB"
replay_file.write_replay_file(folder, capture(), folder / "load.jsonl")
# ru_maxrss would start at the size of the process that started this one
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.long
def test_memory_does_not_grow_with_the_statements(tmp_path: Path) -> None:
    def peak_kb(statements: int) -> int:
        folder = tmp_path / str(statements)
        write_capture(folder)
        with duckdb.connect() as connection:
            # every text is another one, and has 400 bytes
            connection.execute(
                f"""COPY (
                    SELECT (i // 1000)::INTEGER AS session, (i % 1000)::INTEGER AS seq, i AS at_us, 5::BIGINT AS us,
                           'simple' AS kind, 0 AS statement, repeat('x', 390) || i AS sql, NULL::VARCHAR AS name,
                           NULL::VARCHAR[] AS parameters, NULL::INTEGER AS transaction, NULL::VARCHAR AS sqlstate,
                           1::BIGINT AS rows, NULL::BIGINT AS lock_wait_us
                    FROM range({statements}) AS r(i)
                ) TO '{folder / "capture.parquet"}' (FORMAT parquet)"""
            )
        command = [sys.executable, "-c", WRITE, str(folder)]
        root = Path(__file__).parents[2]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
        with (folder / "load.jsonl").open() as file:
            assert sum(1 for _ in file) == 5 + statements + 2 * (statements // 1000)
        return int(done.stdout)

    # DuckDB reads 122,880 rows at a time
    few, many = peak_kb(125_000), peak_kb(400_000)
    # the statements that the second has more are 110 MB
    assert many < few + 60_000


def test_an_error_whose_code_is_unknown_agrees_with_any(tmp_path: Path) -> None:
    row = next(row for row in ROWS if row[10] == "23505")
    unknown = (*row[:10], UNKNOWN_SQLSTATE, *row[11:])
    lines = lines_of(write_capture(tmp_path, [unknown if each == row else each for each in ROWS]))
    assert [line["error"] for line in lines if "error" in line] == ["?????"]
