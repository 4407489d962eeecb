"""Values of a modelled load: ranges, texts, arrays, keys, times; constants as they were written."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgdyno.synthesise.constants import ConstantReader, Form, literal
from pgdyno.synthesise.transactions import Element, fold, repeats
from tests.captured_load import CapturedLoad
from tests.present import present
from tests.unit.test_synthesise_scripts import RNG_SEED, modelled, of_one


def test_a_statement_is_written_with_its_values(tmp_path: Path) -> None:
    for statement, parts in (
        (lambda rng, _: f"SELECT c FROM sbtest WHERE id BETWEEN {(first := rng.integers(1, 90_000))} AND {first + 99}",
         ["\\set id random(1, 90000)\n", "\\set id_to :id + 99\n",
          "SELECT c FROM sbtest WHERE id BETWEEN :id AND :id_to;\n"]),
        (lambda rng, _: f"SELECT * FROM u WHERE mail = 'user{rng.integers(1, 501)}@example.org'",
         ["\\set mail random(1, 500)\n", "WHERE mail = 'user:mail@example.org';\n"]),
        (lambda rng, _: "SELECT * FROM t WHERE id = ANY('{{{},{}}}')".format(*rng.integers(1, 5_001, 2)),
         ["WHERE id = ANY('{:value_1,:value_2}');\n"]),
        (lambda _, number: f"INSERT INTO ev (id, n) VALUES ({1_000 + number}, 1)",
         ["\\set id random(1600, 2147483647)\n", ";\n"]),
        (lambda _, number: f"SELECT * FROM ev WHERE at > '2026-11-23 11:{number // 600:02}:{number // 10 % 60:02}+00'",
         ["at > (now() + interval '-3600 s');\n"]),
        (lambda rng, _: f"SELECT * FROM ev WHERE day = '2025-03-{rng.integers(1, 32):02}'",
         ["\\set day random(0, 30)\n", "day = ('2025-03-01'::date + :day::int);\n"]),
        (lambda rng, _: f"UPDATE t SET a = a - {rng.integers(-500, 501)} WHERE b = -3",
         ["\\set a random(-500, 500)\n", "SET a = a - :a WHERE b = -3;\n"]),
        (lambda rng, _: f"SELECT ';' -- a\n; SELECT {rng.integers(1, 1_000)};",
         ["SELECT ';' -- a\n\\; SELECT :value;\n"]),
        (lambda rng, _: f"START TRANSACTION; SELECT {rng.integers(1, 1_000)}; COMMIT",
         ["START TRANSACTION\\; SELECT :value\\; COMMIT;\n"]),
    ):  # fmt: skip
        text = of_one(statement, tmp_path)
        assert [part for part in parts if part not in text] == []
        assert text.endswith(parts[-1])


def test_typed_constants_few_texts_and_uuids(tmp_path: Path) -> None:
    text = of_one(lambda rng, _: f"SELECT date '2025-01-{rng.integers(1, 29):02}'", tmp_path)
    assert text.count("SELECT date '2025-01-") == 12
    # few texts are variants of the statement
    text = of_one(lambda rng, _: f"SELECT * FROM t WHERE s = '{rng.choice(['its', 'b:c'], p=[0.7, 0.3])}'", tmp_path)
    assert re.search(r"^\\if :variant <= 4\d\d$", text, re.MULTILINE)
    # pgdrive would take :c for a variable
    assert "s = E'b\\x3ac';" in text
    # UUIDs without hyphens become UUIDs
    text = of_one(lambda rng, _: f"UPDATE api_check SET code = '{rng.integers(1, 100):032x}'::uuid;", tmp_path)
    assert f"code = '{'0' * 20}:code'::uuid" in text
    assert re.search(r"^.set code random\(1\d{11}, 1\d{11}\)$", text, re.MULTILINE)


def test_other_texts_keep_their_length_and_how_many_there_are(tmp_path: Path) -> None:
    def statement(rng: np.random.Generator, _: int) -> str:
        name = f"{'ab' * 8}{chr(97 + rng.integers(0, 26))}{chr(97 + rng.integers(0, 10))}"
        return f"UPDATE u SET name = '{name}' WHERE id = {rng.integers(1, 500)}"

    text = of_one(statement, tmp_path, 3_000)
    low, high = map(int, re.findall(r"\\set name random\((\d+), (\d+)\)", text)[0])
    assert 250 <= high - low <= 275
    (filler,) = re.findall(r"name = '(x+):name'", text)
    assert len(filler) + len(str(low)) == 18


@pytest.mark.parametrize(("rows", "is_simple"), [(20, True), (5_000, False)], ids=["often", "some of them twice"])
def test_columns_whose_rows_keep_their_value_stay_as_they_are(rows: int, is_simple: bool, tmp_path: Path) -> None:
    """As Django's save() writes them, a unique one too."""
    rng, load = np.random.default_rng(RNG_SEED), CapturedLoad()
    sql = 'UPDATE c SET "code" = {}::uuid, n = {}, at = {}, up = {} + 1 WHERE "c"."id" = {}'
    for number in range(600):
        row = int(rng.integers(1, rows + 1))
        code, at = f"{row * 7919:032x}", str(1000 + number)
        if is_simple:
            load.add(0, number * 100_000, sql.format(f"'{code}'", row % 7, at, row, row))
        else:
            values = [code, str(row % 7), at, str(row), str(row)]
            load.add(0, number * 100_000, sql.format(*(f"${each}" for each in range(1, 6))), parameters=[values])
    text = modelled(load, tmp_path).scripts[0].text
    assert 'UPDATE c SET "code" = "code"::uuid, n = n, at = :at, up = :up + 1 WHERE "c"."id" = :up;\n' in text
    assert '-- "code" stays as it is: updates of the same row stored the same value\n' in text


DRAWN = [
    # it changes
    "UPDATE c SET n = {number} WHERE id = {row}",
    # never twice the same row
    "UPDATE c SET n = {code} WHERE id = {number}",
    "UPDATE c SET n = f(k, m = {code}, 1) WHERE id = {row}",
    "UPDATE c SET n = {code} FROM d WHERE d.id = c.id AND c.id = {row}",
    "UPDATE c SET n = {code} + n WHERE id = {row}",
    "UPDATE c SET n = {code} WHERE id IS NOT NULL",
    "INSERT INTO c (id) VALUES ({row}) ON CONFLICT (id) DO UPDATE SET n = {code} WHERE c.id = {row}",
]


@pytest.mark.parametrize("update", DRAWN)
def test_other_stored_values_are_drawn(update: str, tmp_path: Path) -> None:
    def statement(rng: np.random.Generator, number: int) -> str:
        row = int(rng.integers(1, 300))
        return update.format(row=row, code=row * 7919 % 1000, number=number)

    assert "stays as it is" not in of_one(statement, tmp_path)


def test_texts_that_a_statement_looks_for_are_captured_ones(tmp_path: Path) -> None:
    def statement(rng: np.random.Generator, _: int) -> str:
        # half of them are one name, as of a customer who orders often
        letters = "zz" if rng.random() < 0.5 else "".join(chr(97 + each) for each in rng.integers(0, 26, 2))
        return f"SELECT * FROM u WHERE name = 'ab{letters}'"

    text = of_one(statement, tmp_path)
    names = re.findall(r"WHERE name = '(ab[a-z]{2})';", text)
    assert len(names) == len(set(names)) == 7
    assert "-- 7 of " in text
    assert "\\set variant random(1, 12)\n" in text
    assert re.search(r":variant <= 6\n.*\n\\else\n.*name = 'abzz';", text)


def test_elements_of_arrays_are_drawn_and_parameters_null_together(tmp_path: Path) -> None:
    rng, load = np.random.default_rng(RNG_SEED), CapturedLoad()
    sql = "SELECT add_order($1, $2, $3)"
    for number in range(600):
        count = int(rng.integers(2, 5))
        arrays = ["{" + ",".join(map(str, rng.integers(1, most + 1, count))) + "}" for most in (5_000, 10)]
        load.add(0, number * 50_000, sql, parameters=[[str(rng.integers(1, 1_001)), *arrays]], name="s1")
    text = modelled(load, tmp_path).scripts[0].text
    assert "\\set value_1 random(1, 5000)\n\\set value_2 random(1, 5000)\n" in text
    sent = re.findall(r"add_order\(:add_order, ARRAY\[([^]]*)\]::int\[\], ARRAY\[([^]]*)\]::int\[\]\);", text)
    assert sorted((items.count(":"), quantities.count(":")) for items, quantities in sent) == [(2, 2), (3, 3), (4, 4)]
    # arrays of one statement are as long as each other, and each length is as frequent as captured
    bounds = [int(each) for each in re.findall(r":variant <= (\d+)", text)]
    assert [150 < length < 250 for length in np.diff([0, *bounds, 600])] == [True] * 3
    # parameters that are null together stay so
    rng, load = np.random.default_rng(RNG_SEED), CapturedLoad()
    for number in range(600):
        values = [None, str(rng.integers(1, 10))] if rng.random() < 0.6 else [str(rng.integers(1, 3_001)), None]
        load.add(0, number * 50_000, "SELECT pay($1, $2)", parameters=[values], name="s1")
    text = modelled(load, tmp_path).scripts[0].text
    assert "random(1, 3000)" in text
    assert re.findall(r"SELECT pay\((.*)\);", text) == ["NULL, :value", ":pay, NULL"]


def test_keys_that_rise_within_groups_are_new_ones(tmp_path: Path) -> None:
    next_order = np.full((3, 11), 3_001)

    def statement(rng: np.random.Generator, _: int) -> str:
        warehouse, district = int(rng.integers(1, 3)), int(rng.integers(1, 11))
        next_order[warehouse, district] += 1
        lines = rng.integers(5, 16)
        return (
            f"INSERT INTO ev (w, d, o, n) VALUES ({warehouse}, {district}, {next_order[warehouse, district]}, {lines})"
        )

    text = of_one(statement, tmp_path)
    assert f"\\set o random({next_order.max() + 1}, 2147483647)\n" in text
    assert "\\set d random(1, 10)\n" in text
    assert "\\set n random(5, 15)\n" in text


def test_numbers_of_lines_count_the_repeats_of_their_loop_and_keys_are_those_returned(tmp_path: Path) -> None:
    rng, load = np.random.default_rng(RNG_SEED), CapturedLoad()
    for number in range(300):
        lines = [f"INSERT INTO line (number, n) VALUES ({each}, {rng.integers(1, 9)})" for each in range(1, 4)]
        load.add(0, number * 10_000, "BEGIN", *lines[: rng.integers(1, 4)], "COMMIT")
    (script,) = modelled(load, tmp_path).scripts
    assert script.text.count("\\set number 0\n") == 1
    assert script.text.count("\\set number :number + 1\n") == 3
    assert script.text.index("\\set number 0\n") < script.text.index("\\set number :number + 1\n")
    # keys that a statement returns are taken from it
    rng, load = np.random.default_rng(RNG_SEED), CapturedLoad()
    for number in range(300):
        key = 7_000 + number
        lines = [f"INSERT INTO line (of, n) VALUES ({key}, {rng.integers(1, 9)})" for _ in range(rng.integers(1, 4))]
        order = f'INSERT INTO "order" (customer) VALUES ({rng.integers(1, 500)}) RETURNING "order"."id"'
        load.add(0, number * 10_000, "BEGIN", order, *lines, f"SELECT * FROM line WHERE of = {key}", "COMMIT")
    (script,) = modelled(load, tmp_path).scripts
    assert 'INSERT INTO "order" (customer) VALUES (:customer) RETURNING "order"."id" \\gset new1_\n' in script.text
    assert script.text.count("INSERT INTO line (of, n) VALUES (:new1_id, :n);\n") == 3
    assert "SELECT * FROM line WHERE of = :new1_id;\n" in script.text


def test_nulls_and_decimals(tmp_path: Path) -> None:
    def statement(rng: np.random.Generator, _: int) -> str:
        price = "NULL" if rng.random() < 0.25 else f"{rng.integers(100, 99_999) / 100:.2f}"
        return f"UPDATE item SET price = {price} WHERE id = 5"

    text = of_one(statement, tmp_path)
    assert re.search(r"\\set price \(random\(\d+, \d+\)\) / 100.0\n", text)
    (known,) = re.findall(r"\\if :variant <= (\d+)\nUPDATE item SET price = :price WHERE id = 5;\n\\else\n", text)
    assert 0.7 < int(known) / 600 < 0.8
    assert text.endswith("SET price = NULL WHERE id = 5;\n\\endif\n")


def test_the_loop_that_covers_most_wins() -> None:
    elements = fold((1, 2, 3, 2, 3, 2, 3, 4, 4))
    counts = tuple(repeats((1, 2, 3, 2, 3, 2, 3, 4, 4), elements))
    assert elements == (Element((1,)), Element((2, 3), True), Element((4,), True))
    assert counts == (1, 3, 2)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40).map(tuple))
def test_a_folded_sequence_unfolds(sequence: tuple[int, ...]) -> None:
    elements = fold(sequence)
    counts = repeats(sequence, elements)
    assert (
        tuple(number for each, count in zip(elements, counts, strict=True) for number in each.body * count) == sequence
    )


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1, max_size=4))
@settings(deadline=None)
def test_constants_are_read_as_they_were_written(texts: list[str]) -> None:
    sql = "SELECT * FROM t WHERE " + " AND ".join(f"a = {literal(each, Form.TEXT)}" for each in texts)
    found = ConstantReader("SELECT * FROM t WHERE " + " AND ".join(f"a = ${place}" for place, _ in enumerate(texts, 1)))
    read = present(found.read(sql, ()))
    # a text with a colon is written with escapes
    plain = [place for place, form in enumerate(read.forms) if form is Form.TEXT]
    assert [read.values[place] for place in plain] == [texts[place] for place in plain]


def test_all_kinds_of_constants_and_many() -> None:
    for sql, values in (
        ("select -5, +3, 1.5e3", ("-5", "3", "1.5e3")),
        ("select 0x1F, true, NULL", ("0x1f", "true", None)),
        ("select E'a\\'b', $$x$$, B'01'", ("E'a\\'b'", "$$x$$", "B'01'")),
        ("select 'a''b' , '' , ';';", ("a'b", "", ";")),
    ):
        read = present(ConstantReader("select $1, $2, $3").read(sql.replace(" ,", ","), ()))
        assert read.values == values
    # a list of many is read at once
    count = 20_000
    listed = ", ".join(f"${number}" for number in range(1, count + 1))
    found = present(ConstantReader(f"SELECT {listed}").read(f"SELECT {', '.join(map(str, range(count)))}", ()))
    assert found.values == tuple(map(str, range(count)))
