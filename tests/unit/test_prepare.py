"""The dataset stamp in the comment of a database, and the rules of TPC-B's balances."""

import hashlib
import json
from pathlib import Path

from pgdyno.plan.model import Workload
from pgdyno.plan.workload import scripts_that_run
from pgdyno.prepare.dataset import Dataset, StampedTable, read_stamp
from pgdyno.records import Point
from pgdyno.report.run_notes import preparation_line
from pgdyno.workloads.pgbench import consistency
from tests.present import present
from tests.unit.events_sample import sample_events
from tests.unit.plan_sample import load, small_plan
from tests.unit.store_sample import sample_record


def stamp_text(**changes: object) -> str:
    lines = "pgbench 1 2\npgbench_branches 2\npgbench_accounts 200000\n"
    said = {
        "format": 1,
        "dataset": "pgbench",
        "version": 1,
        "scale": 2,
        "tables": [
            {"name": "pgbench_branches", "rows": 2, "oid": 17001},
            {"name": "pgbench_accounts", "rows": 200_000, "oid": 17002},
        ],
        "checksum": hashlib.sha256(lines.encode()).hexdigest(),
        **changes,
    }
    return f"[pgdyno-dataset {json.dumps(said)}]"


def test_a_stamp_says_what_was_loaded_and_a_malformed_one_is_ignored() -> None:
    stamp = present(read_stamp(f"my own [text]\n{stamp_text()}"))
    assert stamp.dataset == Dataset("pgbench", 2)
    branches, accounts = StampedTable("pgbench_branches", 2, 17001), StampedTable("pgbench_accounts", 200_000, 17002)
    assert stamp.tables == (branches, accounts)
    # the wal_level of its load may be there, and makes the same rows
    minimal = present(read_stamp(stamp_text(wal_level="minimal")))
    assert (stamp.wal_level, minimal.wal_level, minimal.dataset) == (None, "minimal", stamp.dataset)
    # the number of tables is part of sbtest's
    lines = "sbtest 1 500\nsbtest1 500\nsbtest2 500\n"
    tables = [{"name": f"sbtest{number}", "rows": 500, "oid": 17000 + number} for number in (1, 2)]
    checksum = hashlib.sha256(lines.encode()).hexdigest()
    stamp = present(read_stamp(stamp_text(dataset="sbtest", scale=500, tables=tables, checksum=checksum)))
    assert stamp.dataset == Dataset("sbtest", 500, 2) != Dataset("sbtest", 500, 3)
    assert str(stamp.dataset) == "sbtest with 2 tables of 500 rows"
    for name, comment in {
        "nothing": None,
        "empty": "",
        "a user's": "mine",
        "cut": stamp_text()[:-20],
        "without its end": stamp_text()[:-1],
        "not JSON": "[pgdyno-dataset scale]",
        "a list": "[pgdyno-dataset []]",
        "of a later format": stamp_text(format=2),
        "of another scale than its checksum": stamp_text(scale=3),
        "without tables": stamp_text(tables=None),
        "with a row less": stamp_text(tables=[{"name": "pgbench_branches", "rows": 1, "oid": 17001}]),
    }.items():
        assert read_stamp(comment) is None, name


def test_a_workload_says_what_is_loaded_and_a_line_what_preparing_took() -> None:
    files = {"scripts": ["x.sql"], "tables": 3, "table_size": 700}

    def dataset_of(section: dict[str, object], scale: int) -> Dataset | None:
        return Dataset.for_point(Workload.model_validate(section), Point(clients=1, scale=scale), Path())

    assert dataset_of({**files, "dataset": "sbtest"}, 700) == Dataset("sbtest", 700, 3)
    assert dataset_of({"scripts": ["tpcb-like"]}, 5) == Dataset("pgbench", 5)
    assert dataset_of({"scripts": ["x.sql"], "dataset": "none"}, 1) is None
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


START = consistency.Balances(accounts=10, tellers=20, branches=30, history=40, rows={"pgbench_history": 5})

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
        ({"tpcb-like"}, consistency.Rule.ALL_ALIKE),
        ({"tpcb-like", "select-only"}, consistency.Rule.ALL_ALIKE),
        ({"simple-update", "select-only"}, consistency.Rule.ACCOUNTS_ONLY),
        ({"simple-update", "tpcb-like"}, consistency.Rule.MIXED),
        ({"select-only"}, consistency.Rule.NOTHING_CHANGES),
        ({"tpcb-like", "mine.sql"}, consistency.Rule.UNKNOWN),
    ):
        assert consistency.rule_for(names) is rule


def later(accounts: int, tellers: int, branches: int, history: int, rows: int = 1) -> consistency.Balances:
    return consistency.Balances(10 + accounts, 20 + tellers, 30 + branches, 40 + history, {"pgbench_history": 5 + rows})


def test_changes_against_the_rule_and_the_sums_of_a_violation() -> None:
    for rule, after, holds in (
        (consistency.Rule.ALL_ALIKE, later(7, 7, 7, 7), True),
        (consistency.Rule.ALL_ALIKE, later(8, 7, 7, 7), False),
        (consistency.Rule.ALL_ALIKE, later(7, 7, 6, 7), False),
        (consistency.Rule.ALL_ALIKE, later(7, 7, 7, 0, 0), False),
        (consistency.Rule.ACCOUNTS_ONLY, later(7, 0, 0, 7), True),
        (consistency.Rule.ACCOUNTS_ONLY, later(7, 7, 7, 7), False),
        (consistency.Rule.ACCOUNTS_ONLY, later(7, 0, 1, 7), False),
        (consistency.Rule.MIXED, later(7, 3, 3, 7), True),
        (consistency.Rule.MIXED, later(7, 3, 4, 7), False),
        (consistency.Rule.MIXED, later(6, 3, 3, 7), False),
        (consistency.Rule.NOTHING_CHANGES, later(0, 0, 0, 0, 0), True),
        (consistency.Rule.NOTHING_CHANGES, later(1, 0, 0, 0, 0), False),
        (consistency.Rule.NOTHING_CHANGES, later(0, 0, 0, 0, 1), False),
    ):
        changes, violations = consistency.check_balances(START, after, rule)
        assert changes["accounts"] == after.accounts - START.accounts
        assert (violations == []) is holds
    _, (violation,) = consistency.check_balances(START, later(8, 7, 7, 7), consistency.Rule.ALL_ALIKE)
    assert violation == (
        "the sums changed by accounts +8, tellers +7, branches +7, history +7; "
        "accounts, tellers and branches change by the history's amounts"
    )


def test_counts_go_by_the_scale() -> None:
    dataset = Dataset("pgbench", 3)
    good = consistency.Balances.as_loaded(3).rows
    assert consistency.check_counts(dataset, good) == []
    assert consistency.check_counts(dataset, {**good, "pgbench_accounts": 299_999}) == [
        "pgbench_accounts has 299,999 rows, not 300,000"
    ]
    # what was not counted is not judged
    assert consistency.check_counts(dataset, {"pgbench_branches": 3}) == []
    small, large = (
        Dataset("pgbench", consistency.FULL_UP_TO_SCALE),
        Dataset("pgbench", consistency.FULL_UP_TO_SCALE + 1),
    )
    assert consistency.scope_for("auto", small, consistency.Rule.ALL_ALIKE) == "full"
    assert consistency.scope_for("auto", large, consistency.Rule.ALL_ALIKE) == "counts"
    assert consistency.scope_for("full", large, consistency.Rule.ALL_ALIKE) == "full"
    assert consistency.scope_for("full", small, consistency.Rule.UNKNOWN) == "none"
