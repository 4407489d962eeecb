"""A small capture on disk, as `pgdyno capture` writes it."""

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pgdyno.records.capture import Capture, Source, StatementClass, Values, Wait
from tests.captured_load import write_statements

COLUMNS = (
    "session", "seq", "at_us", "us", "kind", "statement", "sql", "name", "parameters", "transaction", "sqlstate",
    "rows", "lock_wait_us", "left_out",
)  # fmt: skip
"""The columns of ROWS."""

Row = Sequence[Any]
CLASSES = (
    StatementClass(text="SELECT a FROM t WHERE b = $1", calls=2, total_us=1600, p50_us=800, p99_us=812),
    StatementClass(text="BEGIN", calls=1, total_us=20, p50_us=20, p99_us=20),
    StatementClass(text="UPDATE t SET a = $1", calls=1, errors=1, total_us=90, p50_us=90, p99_us=90),
    StatementClass(text="COMMIT", calls=1, total_us=30, p50_us=30, p99_us=30),
)
ROWS: tuple[Row, ...] = (
    (0, 0, 100, None, "connect", None, None, None, None, None, None, None, None, None),
    (0, 1, 150, 20, "simple", 1, "BEGIN", None, None, 1, None, 0, None, None),
    (0, 2, 170, 812, "extended", 0, "SELECT a FROM t WHERE b = $1", "s1", ["5"], 1, None, 1, None, None),
    (0, 3, 1100, 90, "simple", 2, "UPDATE t SET a = 'é\"\\'", None, None, 1, "23505", None, None, None),
    (0, 4, 1300, 30, "simple", 3, "COMMIT", None, None, 1, None, 0, None, None),
    (0, 5, 2000, None, "disconnect", None, None, None, None, None, None, None, None, None),
    (1, 0, 900, None, "connect", None, None, None, None, None, None, None, None, None),
    (1, 1, 950, 788, "extended", 0, "SELECT a FROM t WHERE b = $1", "", [None], None, None, None, None, None),
    (1, 2, 5000, None, "disconnect", None, None, None, None, None, None, None, None, None),
)


def capture(**changes: Any) -> Capture:  # noqa: ANN401 - fields of any type
    of: dict[str, Any] = {
        "source": Source.LOG, "values": Values.ANONYMISED, "began": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        "span_us": 600_000_000, "sessions": 2, "most_sessions": 2, "transactions": 2, "calls": 5,
        "statements": list(CLASSES), "waits": [Wait(wait="CPU", sessions=0.5), Wait(wait="Lock:tuple", sessions=0.25)],
    }  # fmt: skip
    return Capture(**{**of, **changes})


def write_capture(folder: Path, rows: Sequence[Row] = ROWS, **changes: Any) -> Path:  # noqa: ANN401 - likewise
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "capture.json").write_text(capture(**changes).model_dump_json())
    write_statements(folder, [dict(zip(COLUMNS, row, strict=True)) for row in rows])
    return folder
