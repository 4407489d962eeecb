"""A log of several files is one log, in the order of their times, with each statement once."""

import gzip
import json
from pathlib import Path

import pytest

from pgdyno.capture.left_out import lacks
from pgdyno.capture.logs.capture_logs import Options, capture_logs
from pgdyno.capture.server.server_files import LocalFiles
from pgdyno.commands.own_load.capture import CaptureCommand
from pgdyno.records.capture import Values
from tests.unit.capture_log_sample import rows_of

pytestmark = pytest.mark.slow

LINE = (
    '2026-11-23 18:40:{second}.123 UTC,"postgres","shop",4711,"[local]",69234abc.1267,{line},"SELECT",'
    '2026-11-23 18:40:00 UTC,3/{line},0,LOG,00000,"duration: 1.5 ms  statement: SELECT {number}",,,,,,,,,"psql",'
    '"client backend",,0\n'
)


def line(second: int, number: int) -> str:
    return LINE.format(second=second, line=second, number=number)


def test_two_files_are_read_in_the_order_of_their_times(tmp_path: Path) -> None:
    later, earlier = tmp_path / "a.csv", tmp_path / "b.csv"
    later.write_text(line(30, 300) + line(31, 301))
    earlier.write_text(line(10, 100) + line(11, 101))
    found = capture_logs([later, earlier], tmp_path / "load", Options(values=Values.KEPT), lambda _progress: None)
    assert (found.calls, found.sessions) == (4, 1)
    assert found.span_us >= 21_000_000


def at(stamp: str, number: int) -> str:
    return line(10, number).replace("2026-11-23 18:40:10.123 UTC", stamp, 1)


def statements(folder: Path, *files: Path) -> list[str]:
    capture_logs(files, folder / "load", Options(values=Values.KEPT))
    return [row["sql"] for row in rows_of(folder / "load") if row["sql"]]


@pytest.mark.parametrize("form", ["csvlog", "jsonlog", "stderr"])
def test_files_around_the_end_of_summer_time_are_in_the_order_of_their_times(form: str, tmp_path: Path) -> None:
    # one hour passes twice: 02:10 in winter time is 40 minutes later than 02:30 in summer time
    stamps = ["2026-10-25 02:30:00.000 CEST", "2026-10-25 02:10:00.000 CET"]
    files = []
    for number, stamp in enumerate(stamps):
        files.append(tmp_path / f"{1 - number}.log")
        message = f"duration: 1.5 ms  statement: SELECT {number}"
        entry = {"timestamp": stamp, "user": "a", "dbname": "shop", "pid": 5, "session_id": "69234abc.5"}
        entry |= {"error_severity": "LOG", "state_code": "00000", "message": message, "backend_type": "client backend"}
        text = {
            "csvlog": at(stamp, number),
            "jsonlog": json.dumps(entry, separators=(",", ":")) + "\n",
            "stderr": f"{stamp} [5] a@shop LOG:  {message}\n{stamp} [5] a@shop LOG:  disconnection: none\n",
        }
        files[-1].write_text(text[form])
    assert statements(tmp_path, *reversed(files)) == ["SELECT 0", "SELECT 1"]


def test_a_file_with_several_names_is_read_once(tmp_path: Path) -> None:
    log = tmp_path / "server.csv"
    log.write_text(line(10, 1) + line(11, 2))
    (tmp_path / "current.csv").symlink_to(log)
    (tmp_path / "hard.csv").hardlink_to(log)
    found = statements(tmp_path, tmp_path / "current.csv", log, tmp_path / "hard.csv", tmp_path / "." / "server.csv")
    assert found == ["SELECT 1", "SELECT 2"]


def test_a_file_with_several_names_is_copied_from_its_host_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pgdyno.commands.own_load.record_load.SshFiles", lambda _host, patterns: LocalFiles(patterns))
    log = tmp_path / "server.csv"
    log.write_text("".join(line(10 + number, number) for number in range(30)))
    (tmp_path / "current.csv").symlink_to(log)
    CaptureCommand(
        tmp_path / "load",
        log=[f"{tmp_path}/*.csv"],
        ssh="db",
        max_size=f"{log.stat().st_size * 3 // 2}B",
        quiet=True,
        json=True,
    )()
    found = json.loads(capsys.readouterr().out)
    assert (found["calls"], found["left_out"]) == (30, [])


def test_copies_of_a_file_are_left_out_and_counted(tmp_path: Path) -> None:
    whole = "".join(line(10 + number, number) for number in range(5))
    log, packed, part, other = (tmp_path / name for name in ("b.csv", "a.csv.gz", "c.csv", "d.csv"))
    log.write_text(whole)
    packed.write_bytes(gzip.compress(whole.encode()))
    part.write_text(line(10, 0) + line(11, 1)[:70])
    # of the same moment, but not of the same entry
    other.write_text(line(10, 77))
    found = capture_logs([packed, part, other, log], tmp_path / "load", Options(values=Values.KEPT))
    assert [row["sql"] for row in rows_of(tmp_path / "load") if row["sql"]] == [
        *("SELECT 0", "SELECT 1", "SELECT 2", "SELECT 3", "SELECT 4"),
        "SELECT 77",
    ]
    assert [(each.reason, each.count, each.first) for each in found.left_out] == [("copies", 2, f"{packed}:1")]
    assert lacks(found) == []


def test_of_compressed_copies_the_larger_one_is_read(tmp_path: Path) -> None:
    whole = "".join(line(10 + number, number) for number in range(5))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(line(10, 0).encode()))
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(whole.encode()))
    assert len(statements(tmp_path, tmp_path / "a.csv.gz", tmp_path / "b.csv.gz")) == 5
