"""The records of a proxy as a capture: times, binary values, and what is left out."""

import json
from pathlib import Path
from typing import Any

from pgdyno.capture.logs.capture_logs import Options
from pgdyno.capture.proxy.capture_proxy import capture_records
from pgdyno.records.capture import Capture, Source, Values
from tests.unit.capture_log_sample import rows_of

BEGAN_US = 1_800_000_000_000_000


def captured(folder: Path, *records: dict[str, Any], cut: str = "") -> tuple[Capture, list[tuple[Any, ...]]]:
    """Captures records of session 0, which is connected for 100 s; times are in s since its begin."""
    common = {"session": 0, "database": "shop", "user": "clerk", "application": "till"}
    lines = [{"kind": "connect", "at": 0}, *({"kind": "done"} | each for each in records)]
    lines.append({"kind": "disconnect", "at": 100})
    path = folder / "records"
    text = "".join(
        json.dumps(common | each | {"at": BEGAN_US + int(1e6 * each["at"])}, separators=(",", ":")) + "\n"
        for each in lines
    )
    path.write_text(text + cut)
    capture = capture_records(path, folder / "capture", Options(values=Values.KEPT))
    rows = [row for row in rows_of(folder / "capture") if row["sql"] is not None]
    columns = ("us", "sql", "parameters", "answer")
    return capture, [(row["at_us"] / 1e6, *(row[name] for name in columns)) for row in rows]


def test_times_are_the_records_own_however_late_they_were_written(tmp_path: Path) -> None:
    capture, rows = captured(
        tmp_path,
        {"at": 60, "us": 2_000_000, "sql": "SELECT 1", "rows": 1},
        # it still ran when the session ended
        {"at": 70, "sql": "SELECT pg_sleep(60)"},
        cut='{"kind":"do',
    )
    assert (capture.source, capture.span_us, capture.began.timestamp()) == (Source.PROXY, 100_000_000, BEGAN_US / 1e6)
    assert rows == [(60, 2_000_000, "SELECT 1", None, None), (70, None, "SELECT pg_sleep(60)", None, None)]
    assert [(each.reason, each.count) for each in capture.left_out] == [("cut", 1)]


def test_binary_parameters_become_text_or_are_left_out(tmp_path: Path) -> None:
    for oid, sent, text in (
        (2950, "12345678123456781234567812345678", "12345678-1234-5678-1234-567812345678"),
        (1082, "00000001", "2000-01-02"),
        (1114, "0000000000000001", "2000-01-01 00:00:00.000001"),
        (1700, "0002000000000002000107d0", "1.20"),
        (1007, "000000010000000000000017000000020000000100000004000000070000000400000008", "{7,8}"),
        (999_999, "00", None),
        (1082, "00", None),
    ):
        value = {"oid": oid, "hex": sent}
        capture, rows = captured(
            tmp_path,
            {"at": 1, "us": 5, "sql": "SELECT $1", "name": "", "parameters": [value, None]},
            {"at": 2, "us": 5, "sql": "SELECT 1", "answer": [value], "answer_columns": ["key"]},
        )
        if text is None:
            assert [(each.reason, each.count) for each in capture.left_out] == [("binary", 1)]
            assert [row[2:] for row in rows] == [("SELECT 1", None, None)]
        else:
            assert [row[3:] for row in rows] == [([text, None], None), (None, [[text]])]
