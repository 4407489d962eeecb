"""The dataset stamp in the comment of a database."""

import hashlib
import json
from pathlib import Path

from pgdyno.plan.model import Workload
from pgdyno.prepare.dataset import Dataset, StampedTable, read_stamp
from pgdyno.records import Point
from tests.present import present


def marked(**changes: object) -> str:
    """Returns a comment as the engine writes it."""
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


def test_a_stamp_says_what_was_loaded() -> None:
    stamp = present(read_stamp(f"my own [text]\n{marked()}"))
    assert stamp.dataset == Dataset("pgbench", 2)
    branches, accounts = StampedTable("pgbench_branches", 2, 17001), StampedTable("pgbench_accounts", 200_000, 17002)
    assert stamp.tables == (branches, accounts)
    # the wal_level of its load may be there, and makes the same rows
    minimal = present(read_stamp(marked(wal_level="minimal")))
    assert (stamp.wal_level, minimal.wal_level, minimal.dataset) == (None, "minimal", stamp.dataset)
    # the number of tables is part of sbtest's
    lines = "sbtest 1 500\nsbtest1 500\nsbtest2 500\n"
    tables = [{"name": f"sbtest{number}", "rows": 500, "oid": 17000 + number} for number in (1, 2)]
    checksum = hashlib.sha256(lines.encode()).hexdigest()
    stamp = present(read_stamp(marked(dataset="sbtest", scale=500, tables=tables, checksum=checksum)))
    assert stamp.dataset == Dataset("sbtest", 500, 2) != Dataset("sbtest", 500, 3)
    assert str(stamp.dataset) == "sbtest with 2 tables of 500 rows"


def test_a_workload_says_what_is_loaded() -> None:
    files = {"scripts": ["x.sql"], "tables": 3, "table_size": 700}

    def of(section: dict[str, object], scale: int) -> Dataset | None:
        return Dataset.for_point(Workload.model_validate(section), Point(clients=1, scale=scale), Path())

    assert of({**files, "dataset": "sbtest"}, 700) == Dataset("sbtest", 700, 3)
    assert of({"scripts": ["tpcb-like"]}, 5) == Dataset("pgbench", 5)
    assert of({"scripts": ["x.sql"], "dataset": "none"}, 1) is None


NO_STAMPS = {
    "nothing": None,
    "empty": "",
    "a user's": "mine",
    "cut": marked()[:-20],
    "without its end": marked()[:-1],
    "not JSON": "[pgdyno-dataset scale]",
    "a list": "[pgdyno-dataset []]",
    "of a later format": marked(format=2),
    "of another scale than its checksum": marked(scale=3),
    "without tables": marked(tables=None),
    "with a row less": marked(tables=[{"name": "pgbench_branches", "rows": 1, "oid": 17001}]),
}


def test_a_malformed_stamp_is_ignored() -> None:
    for name, comment in NO_STAMPS.items():
        assert read_stamp(comment) is None, name
