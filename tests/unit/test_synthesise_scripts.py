"""Scripts of captures whose transactions, values and times are known."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.plan import load_plan
from pgdyno.programs import find_engine
from pgdyno.records.capture import CAPTURE_FILE, STATEMENTS_FILE, Capture
from pgdyno.synthesise.constants import ConstantReader, Form, literal
from pgdyno.synthesise.model_folder import plan_text
from pgdyno.synthesise.modelled_load import Model, model_log
from pgdyno.synthesise.scripts import has_command
from pgdyno.synthesise.transactions import Left, Loop, Statement, fold, repeats
from tests.captured_load import CapturedLoad
from tests.forked import run_pgdyno
from tests.present import present

pytestmark = pytest.mark.slow

RNG_SEED = 20261123
TPCB = (
    "BEGIN;",
    "UPDATE pgbench_accounts SET abalance = abalance + {delta} WHERE aid = {aid};",
    "SELECT abalance FROM pgbench_accounts WHERE aid = {aid};",
    "UPDATE pgbench_tellers SET tbalance = tbalance + {delta} WHERE tid = {tid};",
    "UPDATE pgbench_branches SET bbalance = bbalance + {delta} WHERE bid = {bid};",
    "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ({tid}, {bid}, {aid}, {delta}, now());",
    "END;",
)


def modelled(load: CapturedLoad, tmp_path: Path, least: float = 0.001) -> Model:
    """The model of `load`, whose scripts pgdrive accepts."""
    folder = load.write(tmp_path / "load")
    model = model_log(folder, load.capture(), least)
    for script in model.scripts:
        path = tmp_path / script.name
        path.write_text(script.text)
        command = [str(find_engine().path), "--check", f"--protocol={model.protocol}", f"--file={path}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stderr}\n{script.text}"
        assert len(script.commands) == sum(line.endswith(";") or " \\gset " in line for line in commands(script.text))
    return model


def commands(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if line)


def of_one(statement: Callable[[np.random.Generator, int], str], tmp_path: Path, count: int = 600) -> str:
    """The script of a load of one statement, 100 ms apart, without its head."""
    rng, load = np.random.default_rng(RNG_SEED), CapturedLoad()
    for number in range(count):
        load.add(0, number * 100_000, statement(rng, number))
    (script,) = modelled(load, tmp_path).scripts
    return script.text.split("\n\n", 1)[1]


def tpcb(count: int = 1_000) -> CapturedLoad:
    rng, load = np.random.default_rng(RNG_SEED), CapturedLoad()
    at = [0] * 4
    for number in range(count):
        values = {
            "aid": rng.integers(1, 1_000_001),
            "bid": rng.integers(1, 11),
            "tid": rng.integers(1, 101),
            "delta": rng.integers(-5_000, 5_001),
        }
        session = number % 4
        at[session] = 100 + load.add(session, at[session], *(each.format(**values) for each in TPCB))
    return load


def test_tpcb_comes_back_as_one_script_of_four_variables(tmp_path: Path) -> None:
    model = modelled(tpcb(), tmp_path)
    (script,) = model.scripts
    drawn = dict(re.findall(r"^\\set (\w+) (.*)$", script.text, re.MULTILINE))
    assert drawn == {
        "abalance": "random(-5000, 5000)",
        "aid": "random(1, 1000000)",
        "tid": "random(1, 100)",
        "bid": "random(1, 10)",
    }
    statements = [line for line in commands(script.text) if not line.startswith(("\\", "--"))]
    written = {name: f":{name}" for name in ("aid", "bid", "tid")} | {"delta": ":abalance"}
    assert statements == [each.format(**written) for each in TPCB]
    assert script.weight == 1_000
    assert script.commands == list(range(7))
    assert (model.arrivals.clients, model.arrivals.rate, model.modelled) == (4, None, 1.0)


@pytest.mark.parametrize(("pause_us", "is_kept"), [(100, True), (50_000, False)], ids=["closed loop", "open loop"])
def test_each_client_keeps_the_number_that_its_session_kept(pause_us: int, is_kept: bool, tmp_path: Path) -> None:
    rng, load = np.random.default_rng(RNG_SEED), CapturedLoad()
    homes, at = [3, 1, 7, 3], [0] * 4
    for number in range(400):
        session = number % 4
        update = f"UPDATE district SET n = n + 1 WHERE w_id = {homes[session]} AND d_id = {rng.integers(1, 11)}"
        at[session] = pause_us + load.add(session, at[session], update)
    (script,) = modelled(load, tmp_path).scripts
    whens = " ".join(f"when :client_id % 4 = {place} then {home}" for place, home in enumerate(homes[:-1]))
    assert (f"\\set w_id case {whens} else 3 end\n" in script.text) is is_kept
    assert (":client_id" in script.text) is is_kept


def test_the_same_capture_gives_the_same_model(tmp_path: Path) -> None:
    load = tpcb(200)
    for each in ("first", "again"):
        (tmp_path / each).mkdir()
    assert modelled(load, tmp_path / "first") == modelled(load, tmp_path / "again")


def test_repeats_are_a_loop_and_those_that_ran_once_belong_to_it(tmp_path: Path) -> None:
    rng, load = np.random.default_rng(RNG_SEED), CapturedLoad()
    for number in range(600):
        lines = [
            each
            for _ in range(rng.integers(1, 6))
            for item in [rng.integers(1, 1_000)]
            for each in (f"SELECT price FROM item WHERE id = {item}", f"UPDATE stock SET n = n - 1 WHERE id = {item}")
        ]
        load.add(
            0, number * 10_000, "BEGIN", f"SELECT * FROM customer WHERE id = {rng.integers(1, 99)}", *lines, "COMMIT"
        )
    (script,) = modelled(load, tmp_path).scripts
    assert "\\set repeats random(1, 5)\n" in script.text
    assert script.text.count("SELECT price FROM item WHERE id = :id_2;") == 5
    assert script.text.count("UPDATE stock SET n = n - 1 WHERE id = :id_2;") == 5
    assert [int(each) for each in re.findall(r"^\\if :repeats >= (\d)$", script.text, re.MULTILINE)] == [2, 3, 4, 5]


@pytest.mark.long
def test_long_loops_are_written_as_often_as_they_ran_on_average(tmp_path: Path) -> None:
    load = CapturedLoad()
    for number in range(100):
        inserts = [f"INSERT INTO t (a) VALUES ({each % 7})" for each in range(10 + 1_000 * (number % 2))]
        load.add(0, number * 1_000_000, "BEGIN", *inserts, "COMMIT")
    (script,) = modelled(load, tmp_path).scripts
    assert script.text.count("INSERT INTO t") == 510


def test_a_range_keeps_its_width(tmp_path: Path) -> None:
    def statement(rng: np.random.Generator, _: int) -> str:
        first = rng.integers(1, 90_000)
        return f"SELECT c FROM sbtest WHERE id BETWEEN {first} AND {first + 99}"

    text = of_one(statement, tmp_path)
    assert "\\set id random(1, 90000)\n" in text
    assert "\\set id_to :id + 99\n" in text
    assert text.endswith("SELECT c FROM sbtest WHERE id BETWEEN :id AND :id_to;\n")


def test_few_texts_are_variants_of_the_statement(tmp_path: Path) -> None:
    text = of_one(lambda rng, _: f"SELECT * FROM t WHERE s = '{rng.choice(['its', 'b:c'], p=[0.7, 0.3])}'", tmp_path)
    assert re.search(r"^\\if :variant <= 4\d\d$", text, re.MULTILINE)
    # pgdrive would take :c for a variable
    assert "s = E'b\\x3ac';" in text


def test_texts_with_a_number_in_them_keep_its_distribution(tmp_path: Path) -> None:
    text = of_one(lambda rng, _: f"SELECT * FROM u WHERE mail = 'user{rng.integers(1, 501)}@example.org'", tmp_path)
    assert "\\set mail random(1, 500)\n" in text
    assert text.endswith("WHERE mail = 'user:mail@example.org';\n")


def test_other_texts_keep_their_length_and_how_many_there_are(tmp_path: Path) -> None:
    def statement(rng: np.random.Generator, _: int) -> str:
        name = f"{'ab' * 8}{chr(97 + rng.integers(0, 26))}{chr(97 + rng.integers(0, 10))}"
        return f"UPDATE u SET name = '{name}' WHERE id = {rng.integers(1, 500)}"

    text = of_one(statement, tmp_path, 3_000)
    low, high = map(int, re.findall(r"\\set name random\((\d+), (\d+)\)", text)[0])
    assert 250 <= high - low <= 275
    (filler,) = re.findall(r"name = '(x+):name'", text)
    assert len(filler) + len(str(low)) == 18


@pytest.mark.parametrize("is_simple", [True, False], ids=["simple", "extended"])
@pytest.mark.parametrize("rows", [20, 5_000], ids=["often", "some of them twice"])
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


@pytest.mark.parametrize(
    "update",
    [
        "UPDATE c SET n = {number} WHERE id = {row}",
        "UPDATE c SET n = {code} WHERE id = {number}",
        "UPDATE c SET n = f(k, m = {code}, 1) WHERE id = {row}",
        "UPDATE c SET n = {code} FROM d WHERE d.id = c.id AND c.id = {row}",
        "UPDATE c SET n = {code} + n WHERE id = {row}",
        "UPDATE c SET n = {code} WHERE id IS NOT NULL",
        "INSERT INTO c (id) VALUES ({row}) ON CONFLICT (id) DO UPDATE SET n = {code} WHERE c.id = {row}",
    ],
    ids=["changes", "never twice", "function", "join", "expression", "no row", "upsert"],
)
def test_other_stored_values_are_drawn(update: str, tmp_path: Path) -> None:
    def statement(rng: np.random.Generator, number: int) -> str:
        row = int(rng.integers(1, 300))
        return update.format(row=row, code=row * 7919 % 1000, number=number)

    assert "stays as it is" not in of_one(statement, tmp_path)


def test_uuids_without_hyphens_become_uuids(tmp_path: Path) -> None:
    def statement(rng: np.random.Generator, _: int) -> str:
        return f"UPDATE api_check SET code = '{rng.integers(1, 100):032x}'::uuid;"

    text = of_one(statement, tmp_path)
    assert f"code = '{'0' * 20}:code'::uuid" in text
    assert re.search(r"^.set code random\(1\d{11}, 1\d{11}\)$", text, re.MULTILINE)


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


def test_the_elements_of_arrays_are_drawn(tmp_path: Path) -> None:
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


def test_elements_stand_in_the_text_of_simple_statements(tmp_path: Path) -> None:
    def statement(rng: np.random.Generator, _: int) -> str:
        return f"SELECT * FROM t WHERE id = ANY('{{{rng.integers(1, 5_001)},{rng.integers(1, 5_001)}}}')"

    assert of_one(statement, tmp_path).endswith("WHERE id = ANY('{:value_1,:value_2}');\n")


def test_parameters_that_are_null_together_stay_so(tmp_path: Path) -> None:
    rng, load = np.random.default_rng(RNG_SEED), CapturedLoad()
    for number in range(600):
        values = [None, str(rng.integers(1, 10))] if rng.random() < 0.6 else [str(rng.integers(1, 3_001)), None]
        load.add(0, number * 50_000, "SELECT pay($1, $2)", parameters=[values], name="s1")
    text = modelled(load, tmp_path).scripts[0].text
    assert "random(1, 3000)" in text
    assert re.findall(r"SELECT pay\((.*)\);", text) == ["NULL, :value", ":pay, NULL"]


def test_a_session_that_waits_is_no_client_of_a_closed_loop(tmp_path: Path) -> None:
    load = tpcb()
    last = max(int(str(row["at_us"])) for row in load.rows)
    load.add(9, 0, "SELECT count(*) FROM pgbench_branches")
    load.add(9, last, "SELECT count(*) FROM pgbench_branches")
    arrivals = modelled(load, tmp_path).arrivals
    assert (arrivals.clients, arrivals.rate) == (4, None)


def test_rounded_times_make_no_client_of_a_closed_loop(tmp_path: Path) -> None:
    rng, load = np.random.default_rng(RNG_SEED), CapturedLoad()
    for session in range(4):
        now_us = 0.0
        for _ in range(500):
            us = int(rng.integers(300, 800))
            now_us += 20 + us
            # the line is of the end, in milliseconds
            load.add(session, int(now_us // 1_000) * 1_000 - us, "SELECT count(*) FROM pgbench_branches", us=us)
    arrivals = modelled(load, tmp_path).arrivals
    assert (arrivals.clients, arrivals.rate) == (4, None)


def test_commits_that_the_log_does_not_show_make_no_open_load(tmp_path: Path) -> None:
    rng, load = np.random.default_rng(RNG_SEED), CapturedLoad()
    for session in range(4):
        now_us = 0
        for _ in range(300):
            values = [str(rng.integers(1, 100))]
            load.add(session, now_us, "UPDATE t SET a = a + 1 WHERE id = $1", parameters=[values], name="s1", us=400)
            now_us += 400 + int(rng.integers(2_000, 6_000))
    arrivals = modelled(load, tmp_path).arrivals
    assert (arrivals.clients, arrivals.rate) == (4, None)


def test_new_keys_are_above_the_captured_ones(tmp_path: Path) -> None:
    text = of_one(lambda _, number: f"INSERT INTO ev (id, n) VALUES ({1_000 + number}, 1)", tmp_path)
    assert "\\set id random(1600, 2147483647)\n" in text


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


def test_numbers_of_lines_count_the_repeats_of_their_loop(tmp_path: Path) -> None:
    rng, load = np.random.default_rng(RNG_SEED), CapturedLoad()
    for number in range(300):
        lines = [f"INSERT INTO line (number, n) VALUES ({each}, {rng.integers(1, 9)})" for each in range(1, 4)]
        load.add(0, number * 10_000, "BEGIN", *lines[: rng.integers(1, 4)], "COMMIT")
    (script,) = modelled(load, tmp_path).scripts
    assert script.text.count("\\set number 0\n") == 1
    assert script.text.count("\\set number :number + 1\n") == 3
    assert script.text.index("\\set number 0\n") < script.text.index("\\set number :number + 1\n")


def test_keys_that_a_statement_returns_are_taken_from_it(tmp_path: Path) -> None:
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


def test_times_that_move_with_the_capture_stay_relative_to_now(tmp_path: Path) -> None:
    def statement(_: np.random.Generator, number: int) -> str:
        return f"SELECT * FROM ev WHERE at > '2026-11-23 11:{number // 600:02}:{number // 10 % 60:02}+00'"

    assert of_one(statement, tmp_path).endswith("at > (now() + interval '-3600 s');\n")


def test_dates_are_drawn_from_their_range(tmp_path: Path) -> None:
    text = of_one(lambda rng, _: f"SELECT * FROM ev WHERE day = '2025-03-{rng.integers(1, 32):02}'", tmp_path)
    assert "\\set day random(0, 30)\n" in text
    assert text.endswith("day = ('2025-03-01'::date + :day::int);\n")


def test_a_typed_constant_stays_one(tmp_path: Path) -> None:
    text = of_one(lambda rng, _: f"SELECT date '2025-01-{rng.integers(1, 29):02}'", tmp_path)
    assert text.count("SELECT date '2025-01-") == 12


def test_nulls_and_decimals(tmp_path: Path) -> None:
    def statement(rng: np.random.Generator, _: int) -> str:
        price = "NULL" if rng.random() < 0.25 else f"{rng.integers(100, 99_999) / 100:.2f}"
        return f"UPDATE item SET price = {price} WHERE id = 5"

    text = of_one(statement, tmp_path)
    assert re.search(r"\\set price \(random\(\d+, \d+\)\) / 100.0\n", text)
    (known,) = re.findall(r"\\if :variant <= (\d+)\nUPDATE item SET price = :price WHERE id = 5;\n\\else\n", text)
    assert 0.7 < int(known) / 600 < 0.8
    assert text.endswith("SET price = NULL WHERE id = 5;\n\\endif\n")


def test_negative_values_are_drawn_with_their_sign(tmp_path: Path) -> None:
    text = of_one(lambda rng, _: f"UPDATE t SET a = a - {rng.integers(-500, 501)} WHERE b = -3", tmp_path)
    assert "\\set a random(-500, 500)\n" in text
    assert text.endswith("SET a = a - :a WHERE b = -3;\n")


def test_parameters_are_sent_as_such(tmp_path: Path) -> None:
    rng, load = np.random.default_rng(RNG_SEED), CapturedLoad()
    sql = "SELECT * FROM t WHERE id = $1 AND name = $2 LIMIT $3"
    for number in range(500):
        values = [str(rng.integers(1, 1_001)), f"n{rng.integers(10, 99)}", "10"]
        load.add(0, number * 50_000, sql, parameters=[values], name="s1")
    model = modelled(load, tmp_path)
    assert model.protocol == "prepared"
    text = model.scripts[0].text
    assert "\\set limit 10\n" in text
    assert text.endswith("WHERE id = :id AND name = ('n' || :name) LIMIT :limit;\n")


def test_the_protocol_is_that_of_the_statements_that_can_have_parameters(tmp_path: Path) -> None:
    rng, load = np.random.default_rng(RNG_SEED), CapturedLoad()
    at_us = 0
    for _ in range(300):
        # as drivers do: BEGIN and COMMIT are simple queries, and outnumber the statements in between
        load.add(0, at_us, "BEGIN", "SELECT a FROM t WHERE id = $1", "COMMIT", parameters=[[], ["1"], []])
        for row in load.rows[-3:]:
            row["kind"] = "extended" if row["parameters"] else "simple"
        load.rows[-2]["parameters"] = [str(rng.integers(1, 1_001))]
        load.add(0, at_us + 10_000, "SET application_name = 'x'")
        at_us += 50_000
    assert modelled(load, tmp_path).protocol == "extended"


@pytest.mark.parametrize(("reason", "expected"), [("copy-data", Left.COPY), ("no-parameters", Left.CUT)])
def test_a_transaction_without_a_statement_is_not_covered(reason: str, expected: Left, tmp_path: Path) -> None:
    load = tpcb(300)
    for number in range(20):
        load.add(9, number * 10_000, "BEGIN", "COMMIT", us=5_000, left_out=reason)
    model = modelled(load, tmp_path)
    assert [(each.reason, each.count) for each in model.left] == [(expected, 20)]
    assert model.modelled < 1
    assert len(model.scripts) == 1


def test_several_statements_in_one_message_stay_together(tmp_path: Path) -> None:
    text = of_one(lambda rng, _: f"SELECT ';' -- a\n; SELECT {rng.integers(1, 1_000)};", tmp_path)
    assert text.endswith("SELECT ';' -- a\n\\; SELECT :value;\n")


def test_a_transaction_in_one_message_is_complete(tmp_path: Path) -> None:
    text = of_one(lambda rng, _: f"START TRANSACTION; SELECT {rng.integers(1, 1_000)}; COMMIT", tmp_path)
    assert text.endswith("START TRANSACTION\\; SELECT :value\\; COMMIT;\n")


def test_pauses_within_transactions_are_kept(tmp_path: Path) -> None:
    load = CapturedLoad()
    for number in range(100):
        load.add(0, number * 1_000_000, "BEGIN", "SELECT 1", "COMMIT", us=500, apart_us=20_500)
    (script,) = modelled(load, tmp_path).scripts
    assert script.text.count("\\sleep 20000 us\n") == 2


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        (("BEGIN", "SELECT 2"), Left.CUT),
        (("COMMIT",), Left.CUT),
        (("COMMIT PREPARED 'a'",), Left.CUT),
        (("BEGIN", "SELECT 2", "COMMIT AND CHAIN"), Left.CUT),
        (("BEGIN", "SELECT 2", "COMMIT; BEGIN"), Left.CUT),
        (("EXECUTE q(1)",), Left.SESSION_STATE),
        (("PREPARE q AS SELECT 1",), Left.SESSION_STATE),
        (("COPY t FROM STDIN",), Left.COPY),
        (("CREATE TABLE t ()",), Left.DEFINES),
        (("BEGIN", "/* x */ vacuum", "COMMIT"), Left.DEFINES),
        (("SELECT 2",), Left.RARE),
    ],
)
def test_what_no_script_can_have_is_left_out(statements: tuple[str, ...], reason: Left, tmp_path: Path) -> None:
    load = tpcb(300)
    load.add(9, 0, *statements, us=1)
    model = modelled(load, tmp_path)
    assert [(each.reason, each.count) for each in model.left] == [(reason, 1)]
    said = plan_text("model", model).replace("\n# ", " ")
    assert "Left out: 1 transactions, " in said
    assert f": {reason.value}." in said


def test_failed_transactions_are_left_out(tmp_path: Path) -> None:
    load = tpcb(300)
    load.add(9, 0, "BEGIN", "SELECT 1", "ROLLBACK", failed=1)
    assert [(each.reason, each.count) for each in modelled(load, tmp_path).left] == [(Left.FAILED, 1)]


def test_a_text_of_thousands_of_statements_is_named_at_once(tmp_path: Path) -> None:
    load = CapturedLoad()
    load.add(9, 0, ";".join(["SELECT 1"] * 20_000))
    assert [script.name for script in modelled(load, tmp_path).scripts] == ["01-select-1-select.sql"]


def test_a_capture_without_a_script_says_each_reason_once(tmp_path: Path) -> None:
    load = CapturedLoad()
    for number in range(3):
        load.add(9, 0, "BEGIN", f"SELECT {number} FROM t{number}", "ROLLBACK", failed=1)
    with pytest.raises(UsageError, match="can be in a script") as caught:
        modelled(load, tmp_path)
    assert caught.value.hint == f"3: {Left.FAILED.value}"


@pytest.mark.parametrize(
    ("sql", "runs"),
    [
        ("SELECT 1 \\shell touch x", True),
        ("SELECT ' $1 '\n\\setshell v touch x", True),
        ("SELECT '\\shell', E'\\'\\shell', $$\\shell$$, \"\\x\" -- \\shell\n /* \\shell */", False),
        ("SELECT 1 \\; SELECT 2", False),
    ],
)
def test_commands_of_pgdrive_are_found(sql: str, runs: bool) -> None:
    assert has_command(sql) is runs


def test_a_forged_capture_runs_no_command(tmp_path: Path) -> None:
    load = tpcb(100)
    sql = "SELECT ' '\\shell touch x' '"
    load.add(9, 0, sql)
    folder = load.write(tmp_path / "load")
    # a text that no parser makes: what is quoted in the capture is not in the script
    capture = load.capture()
    classes = [each.model_copy(update={"text": each.text.replace(sql, "SELECT ' $1 '")}) for each in capture.statements]
    model = model_log(folder, capture.model_copy(update={"statements": classes}), 0.0)
    assert not any("shell" in script.text for script in model.scripts)
    assert [each.reason for each in model.left] == [Left.UNREADABLE]


def test_texts_in_comments_stay_on_their_line(tmp_path: Path) -> None:
    text = of_one(lambda rng, _: f"SELECT 'a\n\\shell touch x {rng.integers(1, 900)}'", tmp_path)
    assert not any(line.startswith("\\shell") for line in re.sub("'[^']*'", "", text).splitlines())


def test_at_most_forty_scripts_are_written(tmp_path: Path) -> None:
    load = CapturedLoad()
    for number in range(50):
        load.add(0, number * 10_000, f"SELECT c{number} FROM t", us=1_000 + number)
    model = modelled(load, tmp_path)
    assert len(model.scripts) == 40
    assert [(each.reason, each.count) for each in model.left] == [(Left.MANY, 10)]
    assert "SELECT c49 FROM t;" in model.scripts[0].text


def test_sessions_that_pause_are_an_open_load(tmp_path: Path) -> None:
    load = CapturedLoad()
    for number in range(1_000):
        load.add(number % 5, number * 20_000, f"SELECT {number}", us=2_000)
    model = modelled(load, tmp_path)
    assert (model.arrivals.clients, model.arrivals.rate) == (5, 50.05)
    assert "\nrate = 50.05\n" in plan_text("x", model)


def test_a_log_of_whole_seconds_shows_no_pauses(tmp_path: Path) -> None:
    load = CapturedLoad()
    for number in range(400):
        load.add(0, number // 10 * 1_000_000, "SELECT 1", us=0)
    folder = load.write(tmp_path / "load")
    assert model_log(folder, load.capture(), 0).arrivals.rate is None
    arrivals = model_log(folder, load.capture().model_copy(update={"has_whole_seconds": True}), 0).arrivals
    assert arrivals.rate == pytest.approx(10, rel=0.05)
    assert "whole seconds" in arrivals.reason


def test_without_times_statements_count(tmp_path: Path) -> None:
    load = CapturedLoad()
    for number in range(200):
        load.add(0, number * 20_000, f"SELECT {number} FROM t", us=None)
    model = modelled(load, tmp_path)
    assert model.modelled == 1.0
    assert len(model.scripts) == 1


# ---- folding, constants ----


def test_the_loop_that_covers_most_wins() -> None:
    elements = fold((1, 2, 3, 2, 3, 2, 3, 4, 4))
    counts = tuple(repeats((1, 2, 3, 2, 3, 2, 3, 4, 4), elements))
    assert elements == (Statement(1), Loop((2, 3)), Loop((4,)))
    assert counts == (1, 3, 2)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40).map(tuple))
def test_a_folded_sequence_unfolds(sequence: tuple[int, ...]) -> None:
    elements = fold(sequence)
    counts = repeats(sequence, elements)
    bodies = [each.body if isinstance(each, Loop) else (each.number,) for each in elements]
    assert tuple(number for body, count in zip(bodies, counts, strict=True) for number in body * count) == sequence


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1, max_size=4))
@settings(deadline=None)
def test_constants_are_read_as_they_were_written(texts: list[str]) -> None:
    sql = "SELECT * FROM t WHERE " + " AND ".join(f"a = {literal(each, Form.TEXT)}" for each in texts)
    found = ConstantReader("SELECT * FROM t WHERE " + " AND ".join(f"a = ${place}" for place, _ in enumerate(texts, 1)))
    read = present(found.read(sql, ()))
    # a text with a colon is written with escapes
    plain = [place for place, form in enumerate(read.forms) if form is Form.TEXT]
    assert [read.values[place] for place in plain] == [texts[place] for place in plain]


def test_a_list_of_many_constants_is_read_at_once() -> None:
    count = 20_000
    listed = ", ".join(f"${number}" for number in range(1, count + 1))
    found = present(ConstantReader(f"SELECT {listed}").read(f"SELECT {', '.join(map(str, range(count)))}", ()))
    assert found.values == tuple(map(str, range(count)))


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("select -5, +3, 1.5e3", ("-5", "3", "1.5e3")),
        ("select 0x1F, true, NULL", ("0x1f", "true", None)),
        ("select E'a\\'b', $$x$$, B'01'", ("E'a\\'b'", "$$x$$", "B'01'")),
        ("select 'a''b' , '' , ';';", ("a'b", "", ";")),
    ],
)
def test_all_kinds_of_constants(sql: str, values: tuple[str | None, ...]) -> None:
    read = present(ConstantReader("select $1, $2, $3").read(sql.replace(" ,", ","), ()))
    assert read.values == values


# ---- the command ----


def synthesise(*words: str, at: Path) -> subprocess.CompletedProcess[str]:
    return run_pgdyno(["synthesise", *words], cwd=at, env=dict(os.environ))


def test_the_command_writes_a_plan(tmp_path: Path) -> None:
    tpcb(200).write(tmp_path / "shop")
    done = synthesise("shop", at=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "01-update-pgbench_accounts.sql  200 of 200 transactions (100.0 %)" in done.stdout
    made = tmp_path / "shop-model"
    assert {each.name for each in made.iterdir()} == {*("plan.toml", CAPTURE_FILE), "01-update-pgbench_accounts.sql"}
    capture = Capture.model_validate_json((made / CAPTURE_FILE).read_text())
    assert capture.commands == {"01-update-pgbench_accounts.sql": list(range(7))}
    # an ordinary role may not run CHECKPOINT
    assert not load_plan(made / "plan.toml").plan.reset.checkpoint
    done = run_pgdyno(["plan", "check", "shop-model/plan.toml"], cwd=tmp_path, env=dict(os.environ))
    assert done.returncode == 0, done.stderr


def cut(folder: Path) -> None:
    parquet = folder / STATEMENTS_FILE
    parquet.write_bytes(parquet.read_bytes()[:-9])


def foreign(folder: Path) -> None:
    """Has statements of classes that capture.json does not name."""
    path = folder / CAPTURE_FILE
    capture = Capture.model_validate_json(path.read_text())
    path.write_text(capture.model_copy(update={"statements": capture.statements[:2]}).model_dump_json())


def nothing(folder: Path) -> None:
    path = folder / CAPTURE_FILE
    capture = Capture.model_validate_json(path.read_text())
    path.write_text(capture.model_copy(update={"calls": 0}).model_dump_json())


@pytest.mark.parametrize(
    ("damage", "code", "message"),
    [
        (lambda folder: (folder / CAPTURE_FILE).unlink(), 2, "is not a capture"),
        (lambda folder: (folder / STATEMENTS_FILE).unlink(), 6, STATEMENTS_FILE),
        (lambda folder: (folder / STATEMENTS_FILE).write_bytes(b"x" * 100), 6, "cannot read"),
        (cut, 6, "cannot read"),
        (foreign, 6, "a class that capture.json does not have"),
        (nothing, 2, "has no statements"),
        (lambda folder: (folder.parent / "shop-model" / "x").mkdir(parents=True), 2, "exists and is not empty"),
    ],
)
def test_bad_folders_are_refused(damage: Callable[[Path], object], code: int, message: str, tmp_path: Path) -> None:
    damage(tpcb(50).write(tmp_path / "shop"))
    done = synthesise("shop", at=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert message in done.stderr
    assert not (tmp_path / "shop-model" / "plan.toml").exists()


def test_statistics_need_a_database(tmp_path: Path) -> None:
    folder = tpcb(50).write(tmp_path / "shop")
    path = folder / CAPTURE_FILE
    path.write_text(path.read_text().replace('"source":"log"', '"source":"pg_stat_statements"'))
    done = synthesise("shop", at=tmp_path)
    assert done.returncode == 2
    assert "--dsn" in done.stderr


def test_the_samples_are_sorted_as_a_capture_is() -> None:
    rows = tpcb(50).rows
    for session in range(4):
        times = [int(str(row["at_us"])) for row in rows if row["session"] == session]
        assert all(one <= other for one, other in pairwise(times))
