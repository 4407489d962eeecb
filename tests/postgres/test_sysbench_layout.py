"""A workload of several files with commands and error handling of its own, as third parties write them for sysbench.

It contains nothing specific to pgdrive: the real sysbench runs it, too.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgdyno.targets import Server
from tests.postgres.servers import value
from tests.postgres.test_pgdrive import drive
from tests.postgres.test_sysbench_differential import sysbench

SCRIPT = Path(__file__).parent / "shop" / "shop.lua"
"""A recorded probe: it calls what sysbench-tpcc calls, in the same ways."""
CLIENTS = 2
EACH = 20
# calls 4, 8… look; of the others 5, 10, 15 find no article, and 11 breaks a rule once
LOOKS, MISSING, BROKEN = 5, 3, 1


def shop(server: Server, command: str, *args: str, options: tuple[str, ...] = ("tables=2",)) -> str:
    given = [f"--lua-opt={each}" for each in options]
    done = drive(server, f"--lua={SCRIPT}", f"--lua-command={command}", f"--client={CLIENTS}", *given, *args)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def tables(server: Server) -> Iterator[Server]:
    assert shop(server, "prepare").count("prepared by pgsql") == CLIENTS
    yield server
    shop(server, "cleanup")


def orders(server: Server) -> int:
    return int(value(server, "SELECT (SELECT count(*) FROM orders1) + (SELECT count(*) FROM orders2)"))


def checked(server: Server) -> None:
    said = shop(server, "check").splitlines()
    verdicts = sorted(line for line in said if line.startswith("check of"))
    assert verdicts == [f"check of set {number}, shop {shop} PASSED" for number in (1, 2) for shop in (1, 2, 3)]


def test_a_workload_of_several_files_runs_as_it_is(tables: Server) -> None:
    assert value(tables, "SELECT count(*) FROM article2") == 3 * 300
    lines = shop(tables, "run", f"--transactions={EACH}", "--events=-", options=("tables=2", "trx-level=RC"))
    end = json.loads(lines.splitlines()[-1])
    assert end["succeeded"] == CLIENTS * EACH
    assert end["failed"] == 0
    # what the script counts itself, and what the server refused and its hook lets pass
    assert end["statements"]["ignored_errors"] == CLIENTS * (MISSING + BROKEN)
    assert end["retries"] == CLIENTS * BROKEN
    assert orders(tables) == CLIENTS * (EACH - LOOKS - MISSING)
    checked(tables)
    assert "trx-level" in shop(tables, "help")


def test_the_real_sysbench_does_the_same(tables: Server) -> None:
    options = (f"--threads={CLIENTS}", "--tables=2", "--trx_level=RC", f"--events={CLIENTS * EACH}", "--time=0")
    # it finds modules only in the folder that it is started in
    database = tables.environment()["PGDATABASE"]
    said = sysbench(tables, f"./{SCRIPT.name}", "run", *options, database=database, folder=SCRIPT.parent)
    assert f"total number of events:              {CLIENTS * EACH}" in said
    # its threads share the events as they come
    assert orders(tables) > 0
    checked(tables)


def counted(lines: str) -> dict[str, dict[str, Any]]:
    end = json.loads(lines.splitlines()[-1])
    return {each["text"]: each for each in end["scripts"][0]["statements"]}


def test_each_statement_has_its_latency(tables: Server) -> None:
    fixed = ("-r", f"--transactions={EACH}", "--events=-")
    by_text = counted(shop(tables, "run", *fixed, options=("tables=1", "trx-level=RC")))
    order = CLIENTS * (EACH - LOOKS)
    executions = {text: (each["executions"], each["failures"]) for text, each in by_text.items()}
    assert executions == {
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED": (CLIENTS, 0),
        "SELECT count(*) FROM orders1": (CLIENTS * LOOKS, 0),
        "BEGIN": (order + CLIENTS * BROKEN, 0),
        "SELECT s_next_order FROM shop1 WHERE s_id = ? FOR UPDATE": (order + CLIENTS * BROKEN, 0),
        "UPDATE shop1 SET s_next_order = ? WHERE s_id = ?": (order + 2 * CLIENTS * BROKEN, 0),
        "SELECT a_price FROM article1 WHERE a_shop = ? AND a_id = ?": (order + CLIENTS * BROKEN, 0),
        "INSERT INTO orders1 VALUES (?, ...)": (order - CLIENTS * MISSING, 0),
        "ROLLBACK": (CLIENTS * (MISSING + 2 * BROKEN), 0),
        "COMMIT": (order - CLIENTS * MISSING, 0),
    }
    assert all(each["latency_ns"]["p99"] >= each["latency_ns"]["p50"] > 0 for each in by_text.values())
    # the summary says the same, and without the option it distinguishes nothing
    assert " UPDATE shop1 SET s_next_order = ? WHERE s_id = ?\n" in shop(
        tables, "run", "-r", "-t1", options=("tables=1",)
    )
    plain = json.loads(shop(tables, "run", "-t1", "--events=-").splitlines()[-1])
    assert [each["id"] for each in plain["scripts"][0]["statements"]] == [0]
