"""TPC-B's balances after a trial: consistent ones pass, and inconsistent ones are reported."""

from collections.abc import Iterator

import pytest

from pgdyno.prepare import Dataset
from pgdyno.programs import find_engine
from pgdyno.targets import Home, Server
from tests.postgres.servers import embedded, execute, opened, preparer
from tests.present import present
from tests.run_program import run_program

SMALL = Dataset("pgbench", 1)


@pytest.fixture(scope="module")
def loaded(home: Home) -> Iterator[Server]:
    with opened(home, embedded(), "balances") as server:
        yield server


def run(server: Server, *scripts: str) -> None:
    options = [option for script in scripts for option in ("-b", script)]
    command = [str(find_engine().path), "--no-vacuum", "--client=2", "--transactions=50", *options]
    run_program(command, env=server.environment(), check=True)


MIXES = ["tpcb-like", "simple-update", "select-only", "tpcb-like simple-update select-only"]


@pytest.mark.long_cases("vacuum", "[simple-update")
@pytest.mark.parametrize("method", ["vacuum", "template"])
@pytest.mark.parametrize("mix", MIXES)
def test_balances_hold_after_pgbench_s_scripts(loaded: Server, mix: str, method: str) -> None:
    scripts = mix.split()
    prepare = preparer(loaded, *scripts, method=method)
    preparer(loaded, *scripts, method="reload").prepare(SMALL)
    for _ in range(2):
        prepare.prepare(SMALL)
        run(loaded, *scripts)
        checked = present(prepare.check())
        assert (checked.scope, checked.violations) == ("full", [])
        assert checked.counts["pgbench_accounts"] == 100_000
        assert (checked.counts["pgbench_history"] > 0) == (mix != "select-only")


A_DELTA = "SELECT ctid FROM pgbench_history WHERE delta <> 0 LIMIT 1"


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 7", "the sums changed by accounts"),
        ("UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = 7", "the sums changed by accounts"),
        ("UPDATE pgbench_branches SET bbalance = bbalance - 1", "the sums changed by accounts"),
        (f"DELETE FROM pgbench_history WHERE ctid IN ({A_DELTA})", "changed"),
        ("INSERT INTO pgbench_tellers VALUES (11, 1, 0)", "pgbench_tellers has 11 rows, not 10"),
    ],
)
def test_a_write_of_somebody_else_is_found(loaded: Server, statement: str, said: str) -> None:
    prepare = preparer(loaded, "tpcb-like", method="template")
    prepare.prepare(SMALL)
    run(loaded, "tpcb-like")
    execute(loaded, statement)
    (violation,) = present(prepare.check()).violations
    assert said in violation


SPOIL = "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 7"


@pytest.mark.parametrize(("method", "violations", "rows"), [("none", [0, 0], 100), ("vacuum", [0, 1, 0], None)])
def test_trials_that_go_on_with_a_history(loaded: Server, method: str, violations: list[int], rows: int | None) -> None:
    """It is counted from where it was; a write between two trials is found after the next, and only there."""
    preparer(loaded, "tpcb-like", method="reload").prepare(SMALL)
    prepare = preparer(loaded, "tpcb-like", method=method)
    for number, found in enumerate(violations, start=1):
        prepare.prepare(SMALL)
        run(loaded, "tpcb-like")
        checked = present(prepare.check())
        assert len(checked.violations) == found
        assert rows is None or checked.counts["pgbench_history"] == rows * number
        if number == 1 and 1 in violations:
            execute(loaded, SPOIL)


def test_what_is_checked(loaded: Server) -> None:
    # counts alone see rows and not sums
    prepare = preparer(loaded, "tpcb-like", method="template", consistency="counts")
    prepare.prepare(SMALL)
    execute(loaded, SPOIL)
    checked = present(prepare.check())
    assert (checked.scope, checked.violations, checked.changes) == ("counts", [], {})
    assert "pgbench_accounts" not in checked.counts
    prepare.prepare(SMALL)
    execute(loaded, "DELETE FROM pgbench_branches")
    assert present(prepare.check()).violations == ["pgbench_branches has 0 rows, not 1"]
    # select-only may write nothing
    prepare = preparer(loaded, "select-only", method="template")
    prepare.prepare(SMALL)
    execute(loaded, "INSERT INTO pgbench_history (tid, bid, aid, delta) VALUES (1, 1, 1, 0)")
    assert present(prepare.check()).violations == ["the history has 1 new row, although the scripts write none"]
    # no check where none is wanted
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
    execute(loaded, SPOIL)
    assert "read sums" in [step.name for step in prepare.prepare(SMALL).steps]
    run(loaded, "tpcb-like")
    assert present(prepare.check()).violations == []
