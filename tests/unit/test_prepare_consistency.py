"""The rules of TPC-B's balances, without a server."""

from pathlib import Path

from pgdyno.plan.workload import scripts_that_run
from pgdyno.prepare.dataset import Dataset
from pgdyno.report.run_notes import preparation_line
from pgdyno.workloads.pgbench.consistency import (
    FULL_UP_TO_SCALE,
    Balances,
    Rule,
    check_balances,
    check_counts,
    rule_for,
    scope_for,
)
from tests.unit.events_sample import sample_events
from tests.unit.plan_sample import load, small_plan
from tests.unit.store_sample import sample_record

START = Balances(accounts=10, tellers=20, branches=30, history=40, rows={"pgbench_history": 5})

PLAN = small_plan('scripts = ["select-only@2", "tpcb-like@0"]', trial="")


def test_scripts_that_run_are_those_with_a_weight_in_use_and_have_a_rule(tmp_path: Path) -> None:
    phase = '[[phase]]\nname = "{}"\nduration = "1s"\n'
    mixed = phase.format("a") + 'mix = { "tpcb-like" = 1, "select-only" = 0 }\n'
    for more, scripts in (
        ('duration = "1s"', {"select-only"}),
        (mixed, {"tpcb-like"}),
        (mixed + phase.format("b"), {"select-only", "tpcb-like"}),
        (phase.format("a") + 'mix = { "2" = 1 }\n', {"tpcb-like"}),
    ):
        assert scripts_that_run(load(tmp_path, PLAN + more)) == scripts
    for names, rule in (
        ({"tpcb-like"}, Rule.ALL_ALIKE),
        ({"tpcb-like", "select-only"}, Rule.ALL_ALIKE),
        ({"simple-update", "select-only"}, Rule.ACCOUNTS_ONLY),
        ({"simple-update", "tpcb-like"}, Rule.MIXED),
        ({"select-only"}, Rule.NOTHING_CHANGES),
        ({"tpcb-like", "mine.sql"}, Rule.UNKNOWN),
    ):
        assert rule_for(names) is rule


def later(accounts: int, tellers: int, branches: int, history: int, rows: int = 1) -> Balances:
    return Balances(10 + accounts, 20 + tellers, 30 + branches, 40 + history, {"pgbench_history": 5 + rows})


def test_changes_against_the_rule() -> None:
    for rule, after, holds in (
        (Rule.ALL_ALIKE, later(7, 7, 7, 7), True),
        (Rule.ALL_ALIKE, later(8, 7, 7, 7), False),
        (Rule.ALL_ALIKE, later(7, 7, 6, 7), False),
        (Rule.ALL_ALIKE, later(7, 7, 7, 0, 0), False),
        (Rule.ACCOUNTS_ONLY, later(7, 0, 0, 7), True),
        (Rule.ACCOUNTS_ONLY, later(7, 7, 7, 7), False),
        (Rule.ACCOUNTS_ONLY, later(7, 0, 1, 7), False),
        (Rule.MIXED, later(7, 3, 3, 7), True),
        (Rule.MIXED, later(7, 3, 4, 7), False),
        (Rule.MIXED, later(6, 3, 3, 7), False),
        (Rule.NOTHING_CHANGES, later(0, 0, 0, 0, 0), True),
        (Rule.NOTHING_CHANGES, later(1, 0, 0, 0, 0), False),
        (Rule.NOTHING_CHANGES, later(0, 0, 0, 0, 1), False),
    ):
        changes, violations = check_balances(START, after, rule)
        assert changes["accounts"] == after.accounts - START.accounts
        assert (violations == []) is holds


def test_a_violation_names_every_sum() -> None:
    _, (violation,) = check_balances(START, later(8, 7, 7, 7), Rule.ALL_ALIKE)
    assert violation == (
        "the sums changed by accounts +8, tellers +7, branches +7, history +7; "
        "accounts, tellers and branches change by the history's amounts"
    )


def test_counts_go_by_the_scale() -> None:
    dataset = Dataset("pgbench", 3)
    good = Balances.as_loaded(3).rows
    assert check_counts(dataset, good) == []
    assert check_counts(dataset, {**good, "pgbench_accounts": 299_999}) == [
        "pgbench_accounts has 299,999 rows, not 300,000"
    ]
    # what was not counted is not judged
    assert check_counts(dataset, {"pgbench_branches": 3}) == []
    small, large = Dataset("pgbench", FULL_UP_TO_SCALE), Dataset("pgbench", FULL_UP_TO_SCALE + 1)
    assert scope_for("auto", small, Rule.ALL_ALIKE) == "full"
    assert scope_for("auto", large, Rule.ALL_ALIKE) == "counts"
    assert scope_for("full", large, Rule.ALL_ALIKE) == "full"
    assert scope_for("full", small, Rule.UNKNOWN) == "none"


def test_preparing_in_a_line() -> None:
    record = sample_record(1, sample_events(4, 2, 500, 900))
    assert preparation_line([record]) == ""
    made = [
        record.model_validate(
            {
                **record.model_dump(),
                "prepare": {"method": "template", "seconds": seconds, "steps": []},
                "consistency": {"scope": "full", "rule": "", "seconds": 0.25, "counts": {}},
            }
        )
        for seconds in (1.26, 61.0)
    ]
    line = "preparing 2 trials took 1 min 02 s (1.3 s to 1 min 01 s each; reset: template), checking consistency 0.5 s"
    assert preparation_line(made) == line
