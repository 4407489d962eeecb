"""The replay file of a capture: its lines, their order, bounded memory, and values that the server made, by site."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pgdyno.capture.key_columns import answer_columns, keys_used, labels, place_columns
from pgdyno.capture.parameter_columns import Column
from pgdyno.capture.replay_file import write_replay_file
from pgdyno.errors import StoreError
from pgdyno.records.capture import UNKNOWN_SQLSTATE, StatementClass
from tests.captured_load import PROXY_SCHEMA, write_statements
from tests.unit.capture_sample import ROWS, capture, write_capture

Line = dict[str, Any]


def lines_of(folder: Path) -> list[Line]:
    write_replay_file(folder, capture(), folder / "load.jsonl")
    return [json.loads(line) for line in (folder / "load.jsonl").read_text().splitlines()]


def test_a_file_has_a_head_classes_shared_texts_then_sessions(tmp_path: Path) -> None:
    assert lines_of(write_capture(tmp_path)) == [
        {
            "format": "pgdyno-replay", "version": 1, "sessions": 2, "most_sessions": 2, "statements": 5,
            "span_us": 600_000_000, "longest_us": 812,
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
    ]  # fmt: skip
    assert [path.name for path in tmp_path.glob("*.spilled*")] == []


OTHER = [StatementClass(text="a", calls=1)]


def test_a_capture_that_cannot_be_replayed_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    for rows, changes, message in (
        ([*ROWS[6:], *ROWS[:6]], {}, "its sessions are not in order"),
        ([ROWS[0], ROWS[3], ROWS[2], ROWS[5]], {}, "session 0 is not in order"),
        (ROWS, {"statements": OTHER}, r"classes that capture\.json lacks"),
        (None, {}, r"cannot replay .*capture\.parquet: Binder Error"),
    ):
        folder = write_capture(tmp_path, rows or ROWS)
        if rows is None:
            duckdb.execute(f"COPY (SELECT 1 AS one) TO '{folder / 'capture.parquet'}' (FORMAT parquet)")
        with pytest.raises(StoreError, match=message):
            write_replay_file(folder, capture(**changes), folder / "load.jsonl")
        assert sorted(path.name for path in folder.iterdir()) == ["capture.json", "capture.parquet"]

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


def test_unknown_errors_agree_with_any_and_rare_classes_are_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = next(row for row in ROWS if row[10] == "23505")
    unknown = (*row[:10], UNKNOWN_SQLSTATE, *row[11:])
    lines = lines_of(write_capture(tmp_path, [unknown if each == row else each for each in ROWS]))
    assert [line["error"] for line in lines if "error" in line] == ["?????"]
    monkeypatch.setattr("pgdyno.records.capture.MOST_REPORTED", 3)
    lines = lines_of(write_capture(tmp_path))
    names = ["SELECT a FROM t WHERE b = $1", "BEGIN", "other statements"]
    assert [line["sql"] for line in lines if "class" in line] == names
    assert [line["of"] for line in lines if "of" in line and "at_us" in line] == [1, 2, 2]
    assert [line["of"] for line in lines if "text" in line and "of" in line] == [0]


# ---- values that the server made, and the statements that use them: linked by site, never by value alone ----

ORDER, CART = "INSERT INTO orders (n) VALUES ($1) RETURNING id", "INSERT INTO carts (n) VALUES ($1) RETURNING id"


class Recorded:
    """The statements of sessions in their order, each 10 µs after the one before."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.classes: dict[str, int] = {}

    def add(self, session: int, sql: str, *parameters: str, of: str | None = None, **columns: Any) -> None:  # noqa: ANN401
        seq = sum(row["session"] == session for row in self.rows)
        number = self.classes.setdefault(of or sql, len(self.classes))
        kind = "extended" if "$1" in sql else "simple"
        row = {"session": session, "seq": seq, "at_us": 10 * len(self.rows), "us": 5, "kind": kind, "sql": sql}
        self.rows.append({**row, "statement": number, "parameters": list(parameters) or None, **columns})

    def makes(self, session: int, sql: str, key: str, **columns: Any) -> None:  # noqa: ANN401
        self.add(session, sql, "0", answer=[[key]], answer_columns=["id"], **columns)

    def lines(self, folder: Path, *, in_order: bool = False) -> list[dict[str, Any]]:
        """Return the head of the replay file, and the lines of statements that give, use or await something."""
        rows = sorted(self.rows, key=lambda row: (row["session"], row["seq"]))
        write_statements(folder, rows, PROXY_SCHEMA)
        classes = [StatementClass(text=text, calls=1) for text in self.classes]
        (folder / "load.jsonl").unlink(missing_ok=True)
        write_replay_file(folder, capture(statements=classes), folder / "load.jsonl", in_order=in_order)
        head, *lines = map(json.loads, (folder / "load.jsonl").read_text().splitlines())
        return [head, *(line for line in lines if {"gives", "uses", "after", "done"} & line.keys())]


def uses(lines: Sequence[dict[str, Any]]) -> list[list[list[int]]]:
    return [line["uses"] for line in lines[1:] if "uses" in line]


USES: list[tuple[str, list[str], list[str] | None, list[int]]] = [
    ("SELECT * FROM orders WHERE id = $1", ["7"], None, [1, 0, 1]),
    ("SELECT * FROM lines WHERE order_id = ANY($1)", ["{é,7}"], None, [1, 4, 5]),
    ("SELECT 'é', n FROM lines l JOIN orders o ON true WHERE o.id IN (3, 7)", [], None, [0, 68, 69]),
    ("DELETE FROM lines /* of 7 */ WHERE order_id = '7'", [], None, [0, 47, 48]),
    ("UPDATE orders SET n = (CASE WHEN id = 7 THEN '1' END)::varchar(9)", [], None, [0, 38, 39]),
    ("UPDATE lines SET order_id = (CASE n WHEN 9 THEN 7 END)::integer", [], None, [0, 48, 49]),
    ("UPDATE lines SET order_id = COALESCE(7, 0)", [], None, [0, 37, 38]),
    ("INSERT INTO lines (n, order_id) SELECT * FROM unnest(ARRAY[1, 2], ARRAY[3, 7])", [], None, [0, 75, 76]),
    ("COPY lines (n, order_id) FROM STDIN", [], ["é\t9", "1\t7"], [-1, 7, 8]),
]


def test_a_made_key_is_found_where_tables_and_columns_agree(tmp_path: Path) -> None:
    load = Recorded()
    load.makes(0, ORDER, "7")
    for sql, parameters, copy, _ in USES:
        load.add(0, sql, *parameters, copy=copy)
    head, made, *_ = lines = load.lines(tmp_path)
    assert (head["slots"], head["ambiguous"], made["gives"]) == (1, 0, [[0, 0, 0]])
    assert uses(lines) == [[[0, *place]] for *_, place in USES]
    # the names decide
    load = Recorded()
    # the same numbers, and carts are always there first
    for key in map(str, range(1, 31)):
        load.makes(0, CART, key)
        load.makes(1, ORDER, key)
        load.add(2, "UPDATE orders SET n = 1 WHERE id = $1", key)
        load.add(2, "UPDATE products SET n = 1 WHERE id = $1", key)
    lines = load.lines(tmp_path)
    assert lines[0]["slots"] == 30
    assert {line["params"][0] for line in lines[1:] if "gives" in line} == {"0"}
    # all of one statement
    assert len({line["of"] if "of" in line else line["text"] for line in lines[1:] if "gives" in line}) == 1
    assert len(uses(lines)) == 30


def test_a_column_of_another_name_is_linked_by_what_it_follows_but_not_what_an_application_sent(tmp_path: Path) -> None:
    load = Recorded()
    for number in range(40):
        load.add(0, "SELECT next FROM districts", answer=[[str(number % 25 + 100)]], answer_columns=["next"])
        # no names of columns, and a quantity that is among the keys by chance
        load.add(0, "INSERT INTO lines VALUES ($1, $2)", str(number % 25 + 100), str(100 + number * 7 % 25))
    found = uses(load.lines(tmp_path))
    assert len(found) == 40
    assert {place[1] for each in found for place in each} == {1}
    load = Recorded()
    for number in range(40):
        load.add(0, "UPDATE accounts SET balance = balance + $1", str(number))
        load.add(0, "SELECT balance FROM accounts", answer=[[str(number)]], answer_columns=["balance"])
        load.add(0, "UPDATE tellers SET balance = balance + $1", str(number))
    assert "slots" not in load.lines(tmp_path)[0]


def test_values_that_several_rows_gave_or_that_were_used_before_are_not_linked(tmp_path: Path) -> None:
    load = Recorded()
    load.makes(0, ORDER, "7")
    load.makes(1, ORDER, "7")
    load.add(0, "UPDATE orders SET n = 1 WHERE id = $1", "7")
    load.add(2, "UPDATE orders SET n = 1 WHERE id = $1", "7")
    head, *_ = lines = load.lines(tmp_path)
    # session 0 has its own
    assert (head["slots"], head["ambiguous"], len(uses(lines))) == (1, 1, 1)
    load = Recorded()
    load.add(0, "UPDATE orders SET n = 1 WHERE id = $1", "7")
    load.makes(0, ORDER, "7")
    # a statement does not give what it looked for
    load.add(0, "SELECT id FROM orders WHERE id = $1", "8", answer=[["8"]], answer_columns=["id"])
    load.add(0, "UPDATE orders SET n = 1 WHERE id = $1", "8")
    assert "slots" not in load.lines(tmp_path)[0]


def test_another_session_waits_for_the_end_of_the_transaction(tmp_path: Path) -> None:
    load = Recorded()
    load.add(0, "BEGIN", transaction=1)
    load.makes(0, ORDER, "7", transaction=1)
    load.add(0, "COMMIT", transaction=1)
    load.add(1, "UPDATE orders SET n = 1 WHERE id = $1", "7")
    _, made, ended, used = load.lines(tmp_path)
    assert made["gives"] == [[0, 0, used["uses"][0][0]]]
    assert used["after"] == [ended["done"]]


def test_values_are_linked_in_the_form_of_an_application_and_from_rows_in_any_order(tmp_path: Path) -> None:
    load = Recorded()
    uuid, at = "0f4fd8d6-16c2-4c0e-b1ab-2b6b3a4f8d11", "2026-01-02 03:04:05.12+00"
    load.add(0, "INSERT INTO o (n) VALUES (1) RETURNING a, b", answer=[[uuid, at]], answer_columns=["a", "b"])
    load.add(0, "SELECT FROM o WHERE a = $1 AND b = $2", uuid.replace("-", ""), "2026-01-02 03:04:05.120000+00:00")
    assert [[place[1:] for place in each] for each in uses(load.lines(tmp_path))] == [[[1, 0, 32], [2, 0, 32]]]
    load = Recorded()
    load.add(0, "SELECT id FROM orders", answer=[["7"], ["8"]], answer_columns=["id"])
    load.add(0, "UPDATE orders SET n = 1 WHERE id = $1", "8")
    assert load.lines(tmp_path)[1]["gives"] == [[1, 0, 0, "8"]]


def test_without_answers_statements_that_make_keys_of_a_table_can_wait_for_each_other(tmp_path: Path) -> None:
    load = Recorded()
    # the first was done last
    for session, sql, us in ((0, ORDER, 35), (1, ORDER, 5), (2, "INSERT INTO orders VALUES ($1)", 5), (2, CART, 5)):
        load.add(session, sql, "0", us=us)
    assert load.lines(tmp_path)[1:] == []
    last, first, second, *_ = load.lines(tmp_path, in_order=True)[1:]
    assert second["done"] in last["after"]
    assert first["done"] in second["after"]
    statements = [
        StatementClass(text=text, fingerprint="f", calls=calls)
        for text, calls in ((ORDER, 3), ("UPDATE orders SET n = $1 WHERE id = $2", 4), ("DELETE FROM carts", 5))
    ]
    assert keys_used(statements) == (4, [ORDER])


def test_names_of_columns_agree_with_foreign_keys_and_sequences() -> None:
    references = {"country.entity_ptr_id": "entity.id", "city.country_id": "country.entity_ptr_id", "a.b": "entity.id"}
    keys = [Column("id", ((None, "entity"),)), Column("country_id", ((None, "city"),)), Column("b", ((None, "a"),))]
    assert set.intersection(*(set(labels(each, references)) for each in keys)) == {"=entity.id"}
    assert not labels(Column("id", ((None, "country"),)), references) & labels(keys[1], references)
    assert labels(Column("order_id", ((None, "lines"),))) & labels(Column("id", ((None, "shop_orders"),)))
    assert not labels(Column("id", ((None, "carts"),))) & labels(Column("id", ((None, "orders"),)))
    assert not labels(Column("stock", ((None, "products"),)))
    (drawn,) = answer_columns("SELECT nextval('public.orders_id_seq')", ["nextval"])
    assert drawn.is_made
    assert drawn.labels & labels(place_columns("INSERT INTO orders (id) VALUES (5)")[-1])
    first, second = answer_columns("SELECT o.id AS x, l.* FROM orders o, lines l", ["x", "n"])
    assert (first.is_made, second.is_made) == (False, False)
