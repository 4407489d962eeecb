"""Folders as `pgdyno capture` writes them, from lists of statements."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa

from pgdyno.capture.parser import normalise
from pgdyno.records.capture import CAPTURE_FILE, STATEMENTS_FILE, Capture, Source, StatementClass, Values

BEGAN = datetime(2026, 11, 23, 12, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        *((name, pa.int32()) for name in ("session", "seq", "statement", "transaction")),
        *((name, pa.int64()) for name in ("at_us", "us", "rows", "lock_wait_us")),
        *((name, pa.string()) for name in ("kind", "sql", "name", "sqlstate", "left_out")),
        ("parameters", pa.list_(pa.string())),
    ]
)
"""The columns of capture.parquet, as docs/design/own-load.md lists them."""
_LIST = pa.list_(pa.string())
PROXY_SCHEMA = pa.schema([*SCHEMA, ("answer", pa.list_(_LIST)), ("answer_columns", _LIST), ("copy", _LIST)])
"""The same with those of a proxy."""


def write_statements(folder: Path, rows: Iterable[Mapping[str, object]], schema: pa.Schema = SCHEMA) -> None:
    """Writes capture.parquet; columns that a row lacks are null."""
    with duckdb.connect() as connection:
        connection.register("captured", pa.Table.from_pylist(list(rows), schema=schema))
        connection.execute(f"COPY captured TO '{folder / STATEMENTS_FILE}' (FORMAT parquet)")


@dataclass
class CapturedLoad:
    """Statements of sessions."""

    rows: list[dict[str, object]] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    """The class of each normalised text."""
    _places: Counter[int] = field(default_factory=Counter)
    _blocks: Counter[int] = field(default_factory=Counter)

    def add(
        self,
        session: int,
        at_us: int,
        *statements: str,
        us: int | None = 500,
        apart_us: int = 600,
        parameters: Sequence[Sequence[str | None]] | None = None,
        name: str = "",
        failed: int | None = None,
        left_out: str | None = None,
    ) -> int:
        """Adds a transaction, a block if it begins with BEGIN, and returns when it ended.

        With `parameters`, of each statement, they are of the extended protocol; `failed` is the place of an error.
        `left_out` says why the capture lacks a statement before the last one.
        """
        is_block = statements[0].lower().startswith("begin")
        self._blocks[session] += is_block
        for place, sql in enumerate(statements):
            text = normalise(sql) or sql
            self.rows.append(
                {
                    "session": session,
                    "seq": self._places[session],
                    "at_us": at_us,
                    "us": us,
                    "kind": "simple" if parameters is None else "extended",
                    "statement": self.numbers.setdefault(text, len(self.numbers)),
                    "sql": sql,
                    "name": name if parameters is not None else None,
                    "parameters": list(parameters[place]) if parameters is not None else None,
                    "transaction": self._blocks[session] if is_block else None,
                    "sqlstate": "40001" if place == failed else None,
                    "left_out": left_out if place == len(statements) - 1 else None,
                }
            )
            self._places[session] += 1
            at_us += apart_us
        return at_us

    def capture(self) -> Capture:
        """What capture.json says of it."""
        counts, times = Counter[object](), Counter[object]()
        for row in self.rows:
            counts[row["statement"]] += 1
            times[row["statement"]] += int(str(row["us"] or 0))
        return Capture(
            source=Source.LOG,
            values=Values.KEPT,
            database="shop",
            began=BEGAN,
            span_us=max((int(str(row["at_us"])) + int(str(row["us"] or 0)) for row in self.rows), default=0),
            sessions=len(self._places),
            most_sessions=len(self._places),
            calls=len(self.rows),
            statements=[
                StatementClass(text=text, calls=counts[number], total_us=float(times[number]))
                for text, number in self.numbers.items()
            ],
        )

    def write(self, folder: Path) -> Path:
        """Writes the folder, and returns it."""
        folder.mkdir(exist_ok=True)
        (folder / CAPTURE_FILE).write_text(self.capture().model_dump_json())
        write_statements(folder, sorted(self.rows, key=lambda row: (int(str(row["session"])), int(str(row["seq"])))))
        return folder
