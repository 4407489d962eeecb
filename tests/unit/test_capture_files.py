"""A log of several files is one log, in the order of their times, with each statement once, and however large."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from pgdyno.capture.left_out import lacks
from pgdyno.capture.logs.capture_logs import capture_logs
from pgdyno.capture.server.server_files import LocalFiles
from pgdyno.commands.own_load.capture import CaptureCommand
from tests.unit.capture_log_sample import KEPT, WRITERS, Entry, captured, done, formats, rows_of

pytestmark = pytest.mark.slow

LINE = (
    '2026-11-23 18:40:{second}.123 UTC,"postgres","shop",4711,"[local]",69234abc.1267,{second},"SELECT",'
    '2026-11-23 18:40:00 UTC,3/{second},0,LOG,00000,"duration: 1.5 ms  statement: SELECT {number}",,,,,,,,,"psql",'
    '"client backend",,0\n'
)
FIVE = "".join(LINE.format(second=10 + number, number=number) for number in range(5))


def test_files_are_read_in_the_order_of_their_times_each_once_and_compressed_ones_too(tmp_path: Path) -> None:
    later, earlier, hard = (tmp_path / name for name in ("a.csv", "b.csv.gz", "hard.csv"))
    later.write_text(LINE.format(second=30, number=300) + LINE.format(second=31, number=301))
    earlier.write_bytes(gzip.compress(FIVE.encode()))
    (tmp_path / "current.csv").symlink_to(later)
    hard.hardlink_to(later)
    files = [later, earlier, later, tmp_path / "current.csv", hard, tmp_path / "." / "a.csv"]
    found = capture_logs(files, tmp_path / "load", KEPT, lambda _progress: None)
    numbers = (*range(5), 300, 301)
    assert [row["sql"] for row in rows_of(tmp_path / "load") if row["sql"]] == [f"SELECT {each}" for each in numbers]
    assert (found.calls, found.sessions) == (7, 1)
    assert found.span_us >= 21_000_000


@formats
def test_files_around_the_end_of_summer_time_are_in_the_order_of_their_times(form: str, tmp_path: Path) -> None:
    # one hour passes twice: 02:10 in winter time is 40 minutes later than 02:30 in summer time
    texts = [
        WRITERS[form]([done(f"SELECT {number}", ms=0)]).replace("2026-11-23 10:00:00.000 UTC", f"2026-10-25 {stamp}")
        for number, stamp in enumerate(("02:30:00.000 CEST", "02:10:00.000 CET"))
    ]
    assert captured(tmp_path, *reversed(texts)).texts == ["SELECT 0", "SELECT 1"]


def test_a_file_with_several_names_is_copied_from_its_host_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pgdyno.commands.own_load.record_load.SshFiles", lambda _host, patterns: LocalFiles(patterns))
    log = tmp_path / "server.csv"
    log.write_text("".join(LINE.format(second=10 + number, number=number) for number in range(30)))
    (tmp_path / "current.csv").symlink_to(log)
    limit = f"{log.stat().st_size * 3 // 2}B"
    CaptureCommand(tmp_path / "load", log=[f"{tmp_path}/*.csv"], ssh="db", max_size=limit, quiet=True, json=True)()
    found = json.loads(capsys.readouterr().out)
    assert (found["calls"], found["left_out"]) == (30, [])


def test_copies_of_a_file_are_left_out_and_counted(tmp_path: Path) -> None:
    log, packed, part, other = (tmp_path / name for name in ("b.csv", "a.csv.gz", "c.csv", "d.csv"))
    log.write_text(FIVE)
    packed.write_bytes(gzip.compress(FIVE.encode()))
    part.write_text(FIVE[: FIVE.index("\n") + 71])
    # of the same moment, but not of the same entry
    other.write_text(LINE.format(second=10, number=77))
    found = capture_logs([packed, part, other, log], tmp_path / "load", KEPT)
    texts = [row["sql"] for row in rows_of(tmp_path / "load") if row["sql"]]
    assert texts == [*(f"SELECT {number}" for number in range(5)), "SELECT 77"]
    assert [(each.reason, each.count, each.first) for each in found.left_out] == [("copies", 2, f"{packed}:1")]
    assert lacks(found) == []
    # of compressed ones, the larger one is read
    packed.write_bytes(gzip.compress(FIVE[: FIVE.index("\n") + 1].encode()))
    part.with_suffix(".gz").write_bytes(gzip.compress(FIVE.encode()))
    assert capture_logs([packed, part.with_suffix(".gz")], tmp_path / "packed", KEPT).calls == 5


# ---- memory ----

CAPTURE = """
import re, sys
from pathlib import Path
from pgdyno.capture.logs.capture_logs import capture_logs
from tests.unit.capture_log_sample import KEPT
print(capture_logs([Path(sys.argv[1])], Path(sys.argv[2]), KEPT).calls)
# ru_maxrss would start at the size of the process that started this one
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""
STATEMENTS, TEXT = 1_000, 4_000
"""Statements of a piece of the log, and characters of each: a piece has 4 MB."""


def piece(number: int) -> list[Entry]:
    """Statements with texts of their own: what DuckDB holds of them cannot be a text that repeats."""
    places = range(number * STATEMENTS, (number + 1) * STATEMENTS)
    return [
        done(f"SELECT '{place:x>{TEXT}}'", pid=100 + place % 8, vxid=f"{place % 8}/0", ms=place) for place in places
    ]


# what DuckDB takes for a log of lines scatters by 50 MB, so a longer one must show that it does not grow
@pytest.mark.long
@pytest.mark.parametrize(("form", "longer"), [("csvlog", 48), ("jsonlog", 48), ("stderr", 112)])
def test_memory_does_not_grow_with_the_log(form: str, longer: int, tmp_path: Path) -> None:
    def peak_kb(pieces: int) -> int:
        log = tmp_path / f"{pieces}.log"
        with log.open("w") as file:
            for number in range(pieces):
                file.write(WRITERS[form](piece(number)))
        command = [sys.executable, "-c", CAPTURE, str(log), str(tmp_path / str(pieces))]
        root = Path(__file__).parents[2]
        out = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.split()
        log.unlink()
        assert int(out[0]) == pieces * STATEMENTS
        return int(out[1])

    # a block of the log has 16 MB
    few, many = peak_kb(16), peak_kb(longer)
    assert many - few < 0.7 * 4_000 * (longer - 16)
