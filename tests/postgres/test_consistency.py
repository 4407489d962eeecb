"""TPC-B's balances after a trial: consistent ones pass, and inconsistent ones are reported."""

import subprocess
from collections.abc import Iterator

import pytest

from pgdyno.prepare import Dataset
from pgdyno.programs import find_engine
from pgdyno.targets import Home, Server
from pgdyno.targets.embedded.schema import EmbeddedTarget
from tests.postgres.servers import execute, opened, preparer
from tests.present import present

SMALL = Dataset("pgbench", 1)


@pytest.fixture(scope="module")
def loaded(home: Home) -> Iterator[Server]:
    settings = {"fsync": "off", "shared_buffers": "64MB"}
    spec = EmbeddedTarget(kind="embedded", version="18", settings=settings)
    with opened(home, spec, "books") as server:
        yield server


def run(server: Server, *scripts: str) -> None:
    options = [option for script in scripts for option in ("-b", script)]
    subprocess.run(
        [find_engine().path, "--no-vacuum", "--client=2", "--transactions=50", *options],
        env=server.environment(),
        capture_output=True,
        check=True,
    )


MIXES = [("tpcb-like",), ("simple-update",), ("select-only",), ("tpcb-like", "simple-update", "select-only")]


@pytest.mark.long_cases("vacuum")
@pytest.mark.parametrize("method", ["vacuum", "template"])
@pytest.mark.parametrize("scripts", MIXES, ids="+".join)
def test_balances_hold_after_pgbench_s_scripts(loaded: Server, scripts: tuple[str, ...], method: str) -> None:
    prepare = preparer(loaded, *scripts, method=method)
    preparer(loaded, *scripts, method="reload").prepare(SMALL)
    for _ in range(2):
        prepare.prepare(SMALL)
        run(loaded, *scripts)
        checked = present(prepare.check())
        assert (checked.scope, checked.violations) == ("full", [])
        assert checked.counts["pgbench_accounts"] == 100_000
        assert (checked.counts["pgbench_history"] > 0) == (scripts != ("select-only",))


SPOILERS = [
    ("UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 7", "the sums changed by accounts"),
    ("UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = 7", "the sums changed by accounts"),
    ("UPDATE pgbench_branches SET bbalance = bbalance - 1", "the sums changed by accounts"),
    (
        "DELETE FROM pgbench_history WHERE ctid IN (SELECT ctid FROM pgbench_history WHERE delta <> 0 LIMIT 1)",
        "changed",
    ),
    ("INSERT INTO pgbench_tellers VALUES (11, 1, 0)", "pgbench_tellers has 11 rows, not 10"),
]


@pytest.mark.parametrize(("statement", "said"), SPOILERS)
def test_a_write_of_somebody_else_is_found(loaded: Server, statement: str, said: str) -> None:
    prepare = preparer(loaded, "tpcb-like", method="template")
    prepare.prepare(SMALL)
    run(loaded, "tpcb-like")
    execute(loaded, statement)
    checked = present(prepare.check())
    (violation,) = checked.violations
    assert said in violation


def test_a_history_that_goes_on_is_counted_from_where_it_was(loaded: Server) -> None:
    preparer(loaded, "tpcb-like", method="reload").prepare(SMALL)
    prepare = preparer(loaded, "tpcb-like", method="none")
    rows = []
    for _ in range(2):
        prepare.prepare(SMALL)
        run(loaded, "tpcb-like")
        checked = present(prepare.check())
        assert checked.violations == []
        rows.append(checked.counts["pgbench_history"])
    assert rows == [100, 200]


def test_a_write_between_two_trials_is_found_behind_the_next_and_only_there(loaded: Server) -> None:
    preparer(loaded, "tpcb-like", method="reload").prepare(SMALL)
    prepare = preparer(loaded, "tpcb-like", method="vacuum")
    found = []
    for number in range(3):
        prepare.prepare(SMALL)
        run(loaded, "tpcb-like")
        checked = present(prepare.check())
        found.append(len(checked.violations))
        if number == 0:
            execute(loaded, "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 7")
    assert found == [0, 1, 0]


def test_select_only_may_write_nothing(loaded: Server) -> None:
    prepare = preparer(loaded, "select-only", method="template")
    prepare.prepare(SMALL)
    execute(loaded, "INSERT INTO pgbench_history (tid, bid, aid, delta) VALUES (1, 1, 1, 0)")
    checked = present(prepare.check())
    assert checked.violations == ["the history has 1 new row, although the scripts write none"]


def test_counts_alone_see_rows_and_not_sums(loaded: Server) -> None:
    prepare = preparer(loaded, "tpcb-like", method="template", consistency="counts")
    prepare.prepare(SMALL)
    execute(loaded, "UPDATE pgbench_accounts SET abalance = 1 WHERE aid = 7")
    checked = present(prepare.check())
    assert (checked.scope, checked.violations, checked.changes) == ("counts", [], {})
    assert "pgbench_accounts" not in checked.counts
    prepare.prepare(SMALL)
    execute(loaded, "DELETE FROM pgbench_branches")
    checked = present(prepare.check())
    assert checked.violations == ["pgbench_branches has 0 rows, not 1"]


def test_no_check_where_none_is_wanted(loaded: Server) -> None:
    prepare = preparer(loaded, "tpcb-like", method="reload", consistency="none")
    prepare.prepare(SMALL)
    assert prepare.check() is None


def test_unknown_sums_are_read_before_the_next_trial(loaded: Server) -> None:
    preparer(loaded, "tpcb-like", method="reload").prepare(SMALL)
    prepare = preparer(loaded, "tpcb-like", method="vacuum")
    prepare.prepare(SMALL)
    run(loaded, "tpcb-like")
    # as after an interrupted trial: nothing was checked, and other sessions may have written
    prepare.forget()
    execute(loaded, "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 7")
    assert "read sums" in [step.name for step in prepare.prepare(SMALL).steps]
    run(loaded, "tpcb-like")
    assert present(prepare.check()).violations == []
