"""`pgdyno capture --proxy`: what real drivers send through it, what is recorded, and how it ends."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from pgdyno.errors import ExitCode
from pgdyno.targets import Home
from pgdyno.targets.cluster.installation import Installation
from tests.postgres.own_servers import OwnServer, running_server
from tests.postgres.test_capture_command import FILES, Capturing, capturing

SCHEMA = """
CREATE TABLE item (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, price numeric, at timestamptz);
INSERT INTO item (name, price) VALUES ('bread', 2.5), ('milk', 1.25)
"""


@pytest.fixture(scope="module")
def server(installed: Installation) -> Iterator[OwnServer]:
    with running_server(installed, "", "shop") as server:
        with psycopg.connect(dsn(server), autocommit=True) as connection:
            connection.execute(SCHEMA.encode())
        yield server


def dsn(server: OwnServer) -> str:
    return f"host={server.folder} port={server.port} user=postgres dbname=shop"


@contextmanager
def proxied(home: Home, folder: Path, where: str, *words: str) -> Iterator[tuple[Capturing, str]]:
    """Captures through a proxy; yields how to connect to it, without more of the capture's steps."""
    with capturing(home, folder, where, "--proxy", "127.0.0.1:0", "--json", *words) as capture:
        said = capture.errors.read_text()
        assert "connect applications to 127.0.0.1:" in said, said
        port = said.partition("connect applications to 127.0.0.1:")[2].partition(";")[0]
        yield capture, f"host=127.0.0.1 port={port} user=postgres dbname=shop"


def ended(capture: Capturing) -> dict[str, Any]:
    assert capture.ended(signal.SIGINT) == ExitCode.INTERRUPTED, capture.errors.read_text()
    assert {path.name for path in capture.folder.iterdir()} == FILES
    return json.loads(capture.output.read_text())  # type: ignore[no-any-return]


def rows(capture: Capturing, columns: str, where: str = "kind IN ('simple', 'extended')") -> list[tuple[Any, ...]]:
    return duckdb.execute(
        f"SELECT {columns} FROM '{capture.folder}/capture.parquet' WHERE {where} ORDER BY session, seq"
    ).fetchall()


def test_a_session_of_a_driver_is_recorded_with_its_answers(server: OwnServer, home: Home, tmp_path: Path) -> None:
    with proxied(home, tmp_path, dsn(server), "--values", "kept") as (capture, proxy):
        with psycopg.connect(proxy, autocommit=True) as connection:
            insert = "INSERT INTO item (name, price, at) VALUES (%s, %b, %b) RETURNING id, name, at IS NULL AS none"
            connection.execute(insert, ["tea", 3, None], prepare=True)
            with connection.transaction(), connection.cursor(binary=True) as cursor:
                cursor.execute("SELECT id, name, price FROM item WHERE id < %s ORDER BY id", [3])
            with connection.cursor() as cursor, cursor.copy("COPY item (name, price) FROM STDIN") as copy:
                copy.write_row(("rice\n", 7))
            with suppress(psycopg.errors.DivisionByZero), connection.pipeline():
                for sql, value in (("SELECT %s::int", 1), ("SELECT 1 / %s::int", 0), ("SELECT %s::int", 2)):
                    connection.execute(sql, [value])
        printed = ended(capture)
    assert (printed["source"], printed["sessions"], printed["left_out"]) == ("proxy", 1, [])
    found = rows(capture, "sql, parameters, rows, sqlstate, answer, answer_columns, copy, copy_bytes")
    assert [
        ("INSERT" in sql, parameters, *rest) for sql, parameters, *rest in found if sql not in ("BEGIN", "COMMIT")
    ] == [
        (True, ["tea", "3", None], 1, None, [["3", "tea", None]], ["id", "name", "none"], None, None),
        (False, ["3"], 2, None, [["1", "bread", "2.5"], ["2", "milk", "1.25"]], ["id", "name", "price"], None, None),
        (False, None, 1, None, None, None, [r"rice\n	7"], 9),
        (False, ["1"], 1, None, [["1"]], ["int4"], None, None),
        (False, ["0"], None, "22012", None, None, None, None),
    ]
    assert [each for (each,) in rows(capture, "DISTINCT transaction", "sql = 'COMMIT'")] == [0]
