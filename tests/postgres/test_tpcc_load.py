"""TPC-C's tables as loaded by `pgdrive -i --dataset=tpcc`: cardinalities, values, conditions, resuming, resets."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from pgdyno.errors import TargetError
from pgdyno.prepare import Dataset
from pgdyno.programs import find_engine
from pgdyno.targets import Home, Server
from tests.postgres.servers import embedded, execute, opened, preparer, value
from tests.postgres.test_load import Place, end, place_of
from tests.present import present
from tests.run_program import PGDRIVE, run_program

WAREHOUSES = 2
TABLES = ("item", "warehouse", "district", "customer", "history", "stock", "orders", "new_order", "order_line")
ROWS = {
    "item": 100_000, "warehouse": WAREHOUSES, "district": 10 * WAREHOUSES, "customer": 30_000 * WAREHOUSES,
    "history": 30_000 * WAREHOUSES, "stock": 100_000 * WAREHOUSES, "orders": 30_000 * WAREHOUSES,
    "new_order": 9_000 * WAREHOUSES,
}  # fmt: skip
"""Clause 4.3.3.1; order_line has what its orders say."""


@pytest.fixture(scope="module")
def spec(server: Server) -> Iterator[Place]:
    """Two warehouses by the standard, loaded once; tests roll their changes back."""
    with place_of(server, "pgdyno_tpcc_spec") as place:
        place.load("--dataset=tpcc", f"--warehouses={WAREHOUSES}", "--tpcc-profile=spec", "--tpcc-check", "--thorough")
        yield place


@pytest.fixture(scope="module")
def spec_sums(spec: Place) -> dict[str, Any]:
    return sums(spec)


@pytest.fixture
def place(server: Server) -> Iterator[Place]:
    with place_of(server, "pgdyno_tpcc_load") as place:
        yield place


def check(place: Place, *args: str, code: int) -> subprocess.CompletedProcess[str]:
    return run_program([PGDRIVE, "--tpcc-check", *args], env=place.environment, code=code)


def sums(place: Place) -> dict[str, Any]:
    count = "SELECT count(*), sum(hashtextextended(t::text, 0)::numeric) FROM {} t"
    return {table: place.query(count.format(table))[0] for table in TABLES}


# ---- rows ----


def test_cardinalities_are_the_standards(spec: Place) -> None:
    rows = {table: spec.query(f"SELECT count(*) FROM {table}")[0][0] for table in TABLES}
    assert {name: rows[name] for name in ROWS} == ROWS
    assert spec.query("SELECT sum(o_ol_cnt) FROM orders") == [(rows["order_line"],)]
    mark = spec.mark()
    assert {table["name"]: table["rows"] for table in mark["tables"]} == rows
    assert (mark["dataset"], mark["scale"], mark["seed"]) == ("tpcc", WAREHOUSES, 1)
    assert mark["options"] == {"warehouses": "2", "tpcc-profile": "spec", "random-seed": "1"}


FACTS = """
SELECT min(o_ol_cnt), max(o_ol_cnt) FROM orders => 5, 15
SELECT min(o_carrier_id), max(o_carrier_id) FROM orders WHERE o_id < 2101 => 1, 10
SELECT count(*) FROM orders WHERE (o_id < 2101) <> (o_carrier_id IS NOT NULL) => 0
SELECT min(no_o_id), max(no_o_id) FROM new_order => 2101, 3000
SELECT count(*) FROM order_line WHERE (ol_o_id < 2101) <> (ol_delivery_d IS NOT NULL) => 0
SELECT count(*) FROM order_line WHERE (ol_o_id < 2101) <> (ol_amount = 0) OR ol_quantity <> 5 => 0
SELECT min(ol_i_id) >= 1, max(ol_i_id) <= 100000, count(DISTINCT ol_i_id) > 99000 FROM order_line => True, True, True
SELECT count(*) FROM order_line WHERE ol_supply_w_id <> ol_w_id => 0
SELECT count(*) FROM (SELECT FROM orders GROUP BY o_w_id, o_d_id HAVING count(DISTINCT o_c_id) <> 3000) d => 0
SELECT count(*) > 59000 FROM orders WHERE o_id <> o_c_id => True
SELECT min(s_quantity), max(s_quantity) FROM stock => 10, 100
SELECT min(i_price) >= 1, max(i_price) <= 100, min(i_im_id), max(i_im_id) FROM item => True, True, 1, 10000
SELECT count(*) FROM customer WHERE c_balance <> -10 OR c_ytd_payment <> 10 OR c_middle <> 'OE' => 0
SELECT count(DISTINCT c_last) FROM customer => 1000
SELECT count(*) FROM customer WHERE c_id <= 1000 AND c_d_id = 7 AND c_w_id = 2 => 1000
SELECT c_last FROM customer WHERE c_id = 372 AND c_d_id = 3 AND c_w_id = 1 => PRICALLYOUGHT
SELECT max(c_discount) <= 0.5, min(c_discount) >= 0 FROM customer => True, True
SELECT max(w_tax) <= 0.2, min(w_tax) >= 0 FROM warehouse => True, True
SELECT max(d_tax) <= 0.2, min(d_tax) >= 0 FROM district => True, True
"""


def test_values_are_the_standards(spec: Place) -> None:
    for fact in FACTS.strip().splitlines():
        statement, expected = fact.split(" => ")
        assert ", ".join(map(str, spec.query(statement)[0])) == expected, statement


def test_last_names_follow_nurand(spec: Place) -> None:
    """Drawn names are distributed as NURand(255, 0, 999), whose bits are set in three quarters of all values."""
    names = spec.query("SELECT c_last, count(*) FROM customer WHERE c_id > 1000 GROUP BY 1")
    counts = sorted((count for _, count in names), reverse=True)
    total = sum(counts)
    assert total == 2_000 * 10 * WAREHOUSES
    # of the exact distribution: how often each name is the result of all draws
    exact = [0] * 1000
    for low in range(256):
        for draw in range(1000):
            exact[(low | draw) % 1000] += 1
    exact.sort(reverse=True)
    for first in (50, 200, 500):
        expected = sum(exact[:first]) / 256_000
        found = sum(counts[:first]) / total
        # the sorted counts of a sample are a little more uneven than what they are drawn from
        assert expected - 0.02 < found < expected + 0.05, (first, expected, found)
    assert sum(exact[:200]) / 256_000 > 0.4, "uniform would be 0.2"


@pytest.mark.long
def test_half_of_hammerdbs_customers_have_bad_credit(place: Place) -> None:
    place.load("--dataset=tpcc")
    share = place.query("SELECT avg((c_credit = 'BC')::int) FROM customer")[0][0]
    assert float(share) == pytest.approx(0.5, abs=0.015)
    assert place.mark()["options"]["tpcc-profile"] == "hammerdb-6.1.1"
    assert check(place, "--thorough", code=0).stdout.count(": holds (") == 13


# ---- conditions ----


# which conditions a change breaks (0 are the cardinalities), the change, and the message of the first condition;
# the program checks a copy with all changes of a group: the condition of each is broken by no other one of its group
SPOILERS = [
    """
    0 1 | DELETE FROM district WHERE d_id = 10 AND d_w_id = 1 | district has 19 rows, not 20
    2 | UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 3 AND d_w_id = 2
        | warehouse 2 district 3: next is 3002,
    3 5 11 | DELETE FROM new_order WHERE no_d_id = 4 AND no_w_id = 1 AND no_o_id = 2500
        | warehouse 1 district 4: 899 open orders from 2101 to 3000
    4 6 | DELETE FROM order_line WHERE ol_w_id = 2 AND ol_d_id = 1 AND ol_o_id = 5 AND ol_number = 1
        | warehouse 2 district 1:
    7 | UPDATE order_line SET ol_delivery_d = NULL WHERE ol_w_id = 2 AND ol_d_id = 1 AND ol_o_id = 9 AND ol_number = 2
        | warehouse 2 district 1 order 9 line 2:
    8 9 10 | UPDATE history SET h_amount = 11 WHERE h_w_id = 2 AND h_d_id = 1 AND h_c_id = 8
        | warehouse 2: w_ytd is 300000.00, its history has 300001.00
    12 | UPDATE customer SET c_ytd_payment = 0 WHERE c_w_id = 2 AND c_d_id = 1 AND c_id = 9
        | customer 2 1 9: balance -10.00, payments 0.00
    """,
    """
    1 9 | UPDATE district SET d_ytd = d_ytd + 0.01 WHERE d_id = 3 AND d_w_id = 2
        | warehouse 2: w_ytd is 300000.00, its districts have 300000.01
    2 5 11 | DELETE FROM new_order WHERE no_d_id = 4 AND no_w_id = 1 AND no_o_id = 3000
        | warehouse 1 district 4: next is 3001, last of orders 3000, of new_order 2999
    6 4 | UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_w_id = 2 AND o_d_id = 1 AND o_id = 99
        | warehouse 2 district 1 order 99:
    10 12 | UPDATE customer SET c_balance = 0 WHERE c_w_id = 2 AND c_d_id = 1 AND c_id = 8
        | customer 2 1 8: balance 0.00,
    """,
    """
    5 7 | UPDATE orders SET o_carrier_id = 3 WHERE o_w_id = 2 AND o_d_id = 1 AND o_id = 2999
        | warehouse 2 district 1 order 2999: carrier 3, open t
    9 | UPDATE history SET h_d_id = 2 WHERE h_w_id = 2 AND h_d_id = 1 AND h_c_id = 8
        | warehouse 2 district 1: d_ytd is 30000.00, its history has 29990.00
    11 4 6 7 | DELETE FROM orders WHERE o_w_id = 2 AND o_d_id = 1 AND o_id = 8
        | warehouse 2 district 1: 2999 orders less 900 open ones
    """,
]


@pytest.mark.long_cases("group1", "group2")
@pytest.mark.usefixtures("spec")
@pytest.mark.parametrize("group", SPOILERS, ids=["group0", "group1", "group2"])
def test_a_violated_condition_is_found(server: Server, group: str) -> None:
    lines = group.replace("\n        |", " |").strip().splitlines()
    spoilers = [[field.strip() for field in line.split(" | ")] for line in lines]
    with place_of(server, "pgdyno_tpcc_spoiled", "TEMPLATE pgdyno_tpcc_spec STRATEGY file_copy") as spoiled:
        spoiled.execute(*(statement for _, statement, _ in spoilers))
        done = check(spoiled, "--warehouses=2", "--tpcc-profile=spec", "--thorough", code=3)
        assert "the database is not consistent" in done.stderr
        broken = {line.partition(": ")[0]: line for line in done.stdout.splitlines() if ": broken in " in line}
        names = [
            ["cardinalities" if number == "0" else f"condition {number}" for number in numbers.split()]
            for numbers, _, _ in spoilers
        ]
        assert broken.keys() == {name for each in names for name in each}
        for (first, *_), (_, _, message) in zip(names, spoilers, strict=True):
            assert broken[first].partition("): ")[2].startswith(message)


def test_a_check_tells_its_events_and_refuses_to_guess(spec: Place, place: Place) -> None:
    events = [json.loads(line) for line in check(spec, "--events=-", code=0).stdout.splitlines()]
    assert [event["number"] for event in events[:-1]] == [0, 1, 2, 3, 4]
    assert all(event["event"] == "condition" and event["violations"] == 0 for event in events[:-1])
    assert (events[-1]["event"], events[-1]["outcome"]) == ("end", "finished")
    assert "has no dataset stamp with the number of its warehouses" in check(place, code=1).stderr
    assert 'relation "warehouse" does not exist' in check(place, "--warehouses=1", code=1).stderr


# ---- the machinery ----

KEYS = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1"


@pytest.mark.long
def test_rows_do_not_depend_on_how_they_are_loaded(spec: Place, place: Place, spec_sums: dict[str, Any]) -> None:
    options = ("--dataset=tpcc", f"--warehouses={WAREHOUSES}", "--tpcc-profile=spec")
    place.load(*options, "--load-workers=3", "--load-chunk=17001", "--order-line-partitions=2")
    assert sums(place) == spec_sums
    partitions = place.query("SELECT count(*), min(ol_w_id), max(ol_w_id) FROM order_line_2")[0]
    assert partitions[1:] == (2, 2)
    indexes = [row for row in place.query(KEYS) if "order_line" not in row[0]]
    assert indexes == [row for row in spec.query(KEYS) if "order_line" not in row[0]]


@pytest.mark.long
def test_another_seed_makes_other_rows(spec: Place, place: Place) -> None:
    options = ("--warehouses=1", "--tpcc-profile=spec", "--random-seed=2", "--order-line-partitions=1")
    place.load("--dataset=tpcc", *options)
    # in all tables that have values drawn at random
    first = "SELECT sum(hashtextextended(t::text, 0)::numeric) FROM {} t WHERE {} = 1"
    for table, column in [
        ("item", "1"), ("warehouse", "w_id"), ("district", "d_w_id"), ("customer", "c_w_id"), ("history", "h_w_id"),
        ("stock", "s_w_id"), ("orders", "o_w_id"), ("order_line", "ol_w_id"),
    ]:  # fmt: skip
        assert place.query(first.format(table, column)) != spec.query(first.format(table, column)), table


@pytest.mark.long
def test_a_load_goes_on_where_it_was_broken_off(place: Place, spec_sums: dict[str, Any]) -> None:
    options = ["--dataset=tpcc", f"--warehouses={WAREHOUSES}", "--tpcc-profile=spec", "--load-workers=2"]
    options.append("--load-chunk=5000")
    process = place.start(*options)
    while process.poll() is None:
        try:
            if place.query("SELECT count(*) FROM pgdyno_load.done")[0][0] > 20:
                break
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    end(process, 130)
    assert place.comment() == ""
    assert "resuming: " in place.load(*options, "--resume", "--tpcc-check")
    assert sums(place) == spec_sums


def test_tables_of_somebody_else_are_not_dropped(place: Place) -> None:
    place.execute("CREATE TABLE customer(id int, name text)", "INSERT INTO customer VALUES (1, 'mine')")
    said = place.refuse("--dataset=tpcc")
    assert "there are tables of other columns than those of TPC-C: customer" in said
    assert "search_path" in said
    assert place.query("SELECT name FROM customer") == [("mine",)]


SMALL = Dataset("tpcc", 1, profile="spec")


@pytest.fixture(scope="module")
def roomy(home: Home) -> Iterator[Server]:
    with opened(home, embedded(settings={"fsync": "off", "shared_buffers": "64MB"}), "tpcc") as roomy:
        yield roomy


def run(roomy: Server) -> None:
    options = ["--workload=tpcc", "--tpcc-profile=spec", "--tpcc-pauses=off", "--client=4", "--transactions=50"]
    subprocess.run([find_engine().path, *options], env=roomy.environment(), capture_output=True, check=True)


def orders(roomy: Server) -> int:
    return int(value(roomy, "SELECT count(*) FROM orders"))


@pytest.mark.long
@pytest.mark.parametrize("method", ["template", "reload"])
def test_every_trial_begins_with_the_rows_of_the_load(roomy: Server, method: str) -> None:
    prepare = preparer(roomy, method=method, consistency="full")
    for _ in range(2):
        prepare.prepare(SMALL)
        assert orders(roomy) == 30_000
        run(roomy)
        assert orders(roomy) > 30_000
        checked = present(prepare.check())
        assert (checked.scope, checked.violations) == ("full", [])


@pytest.mark.long
def test_a_condition_that_is_broken_is_told(roomy: Server) -> None:
    prepare = preparer(roomy, method="template")
    prepare.prepare(SMALL)
    execute(roomy, "UPDATE warehouse SET w_ytd = w_ytd + 1")
    checked = present(prepare.check())
    assert checked.scope == "counts"
    (violation,) = checked.violations
    assert violation.startswith("condition 1 (")
    assert "warehouse 1: w_ytd is 300001.00" in violation
    execute(roomy, "ALTER TABLE district RENAME TO province")
    with pytest.raises(TargetError, match=r"cannot check TPC-C's consistency conditions: .*district"):
        prepare.check()
