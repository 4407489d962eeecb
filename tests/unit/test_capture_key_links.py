"""Values that the server made, and the statements that use them: linked by site, never by value alone."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pgdyno.capture.key_columns import answer_columns, keys_used, labels, place_columns
from pgdyno.capture.parameter_columns import Column
from pgdyno.capture.replay_file import write_replay_file
from pgdyno.records.capture import StatementClass
from tests.captured_load import PROXY_SCHEMA, write_statements
from tests.unit.capture_sample import capture

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


def test_a_made_key_is_found_wherever_it_is_used(tmp_path: Path) -> None:
    load = Recorded()
    load.makes(0, ORDER, "7")
    for sql, parameters, copy, _ in USES:
        load.add(0, sql, *parameters, copy=copy)
    head, made, *_ = lines = load.lines(tmp_path)
    assert (head["slots"], head["ambiguous"], made["gives"]) == (1, 0, [[0, 0, 0]])
    assert uses(lines) == [[[0, *place]] for *_, place in USES]


def test_the_names_of_tables_and_columns_decide(tmp_path: Path) -> None:
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


def test_a_column_of_another_name_is_linked_by_what_it_follows(tmp_path: Path) -> None:
    load = Recorded()
    for number in range(40):
        load.add(0, "SELECT next FROM districts", answer=[[str(number % 25 + 100)]], answer_columns=["next"])
        # no names of columns, and a quantity that is among the keys by chance
        load.add(0, "INSERT INTO lines VALUES ($1, $2)", str(number % 25 + 100), str(100 + number * 7 % 25))
    found = uses(load.lines(tmp_path))
    assert len(found) == 40
    assert {place[1] for each in found for place in each} == {1}


def test_what_an_application_sent_and_then_read_is_its_own(tmp_path: Path) -> None:
    load = Recorded()
    for number in range(40):
        load.add(0, "UPDATE accounts SET balance = balance + $1", str(number))
        load.add(0, "SELECT balance FROM accounts", answer=[[str(number)]], answer_columns=["balance"])
        load.add(0, "UPDATE tellers SET balance = balance + $1", str(number))
    assert "slots" not in load.lines(tmp_path)[0]


def test_values_that_several_rows_may_have_given_stay_and_are_counted(tmp_path: Path) -> None:
    load = Recorded()
    load.makes(0, ORDER, "7")
    load.makes(1, ORDER, "7")
    load.add(0, "UPDATE orders SET n = 1 WHERE id = $1", "7")
    load.add(2, "UPDATE orders SET n = 1 WHERE id = $1", "7")
    head, *_ = lines = load.lines(tmp_path)
    # session 0 has its own
    assert (head["slots"], head["ambiguous"], len(uses(lines))) == (1, 1, 1)


def test_values_that_were_used_before_they_were_given_are_not_linked(tmp_path: Path) -> None:
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


def test_uuids_and_timestamps_are_the_same_in_the_form_of_an_application(tmp_path: Path) -> None:
    load = Recorded()
    uuid, at = "0f4fd8d6-16c2-4c0e-b1ab-2b6b3a4f8d11", "2026-01-02 03:04:05.12+00"
    load.add(0, "INSERT INTO o (n) VALUES (1) RETURNING a, b", answer=[[uuid, at]], answer_columns=["a", "b"])
    load.add(0, "SELECT FROM o WHERE a = $1 AND b = $2", uuid.replace("-", ""), "2026-01-02 03:04:05.120000+00:00")
    assert [[place[1:] for place in each] for each in uses(load.lines(tmp_path))] == [[[1, 0, 32], [2, 0, 32]]]


def test_rows_that_may_come_in_another_order_have_their_captured_value(tmp_path: Path) -> None:
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


def test_known_foreign_keys_decide_instead_of_names() -> None:
    references = {"country.entity_ptr_id": "entity.id", "city.country_id": "country.entity_ptr_id", "a.b": "entity.id"}
    keys = [Column("id", ((None, "entity"),)), Column("country_id", ((None, "city"),)), Column("b", ((None, "a"),))]
    assert set.intersection(*(set(labels(each, references)) for each in keys)) == {"=entity.id"}
    assert not labels(Column("id", ((None, "country"),)), references) & labels(keys[1], references)


def test_names_of_columns_agree_with_foreign_keys_and_sequences() -> None:
    assert labels(Column("order_id", ((None, "lines"),))) & labels(Column("id", ((None, "shop_orders"),)))
    assert not labels(Column("id", ((None, "carts"),))) & labels(Column("id", ((None, "orders"),)))
    assert not labels(Column("stock", ((None, "products"),)))
    (drawn,) = answer_columns("SELECT nextval('public.orders_id_seq')", ["nextval"])
    assert drawn.is_made
    assert drawn.labels & labels(place_columns("INSERT INTO orders (id) VALUES (5)")[-1])
    first, second = answer_columns("SELECT o.id AS x, l.* FROM orders o, lines l", ["x", "n"])
    assert (first.is_made, second.is_made) == (False, False)
