"""A log of several files is one log, in the order of their times."""

from __future__ import annotations

from pathlib import Path

from pgdyno.capture.logs.capture_logs import Options, capture_logs
from pgdyno.records.capture import Values

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
    assert found.calls == 4
    assert found.sessions == 1
    assert found.span_us >= 21_000_000
