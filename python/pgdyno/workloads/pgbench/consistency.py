"""Checks that a dataset is complete, and that TPC-B's balances match the history.

pgbench's scripts change tables in known ways. Within a transaction tpcb-like adds one amount to an account, a teller
and a branch and writes it into the history; simple-update leaves tellers and branches alone; select-only changes
nothing. So the change of each sum during a trial follows from the rows that the trial added to the history, whatever
the balances were before. Scripts from files may change anything, so pgdyno checks no sums after them.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from pgdyno.effect import BUILTIN_SCRIPTS
from pgdyno.errors import TargetError
from pgdyno.prepare.dataset import Dataset
from pgdyno.targets import Server
from pgdyno.units import quantity

FULL_UP_TO_SCALE = 1000
"""The largest scale at which `auto` sums: 100 million accounts, 13 GB, take about ten seconds from memory."""
PER_SCALE = {"pgbench_branches": 1, "pgbench_tellers": 10, "pgbench_accounts": 100_000}
"""Rows of a pgbench dataset per unit of its scale."""
BALANCES = ("accounts", "tellers", "branches", "history")
"""Tables with a balance."""

_SUMS = """
    SELECT (SELECT count(*) FROM pgbench_accounts), (SELECT coalesce(sum(abalance), 0) FROM pgbench_accounts),
           (SELECT count(*) FROM pgbench_tellers), (SELECT coalesce(sum(tbalance), 0) FROM pgbench_tellers),
           (SELECT count(*) FROM pgbench_branches), (SELECT coalesce(sum(bbalance), 0) FROM pgbench_branches),
           (SELECT count(*) FROM pgbench_history), (SELECT coalesce(sum(delta), 0) FROM pgbench_history)
"""
"""One statement, so one snapshot. Sums of integers are bigint, which the balances cannot overflow."""
_COUNTS = """
    SELECT (SELECT count(*) FROM pgbench_tellers), (SELECT count(*) FROM pgbench_branches),
           (SELECT count(*) FROM pgbench_history)
"""
Scope = Literal["full", "counts", "none"]


class Rule(StrEnum):
    """How scripts change the sums; the values are those in the record."""

    NOTHING_CHANGES = "no balance changes and the history stays empty"
    ACCOUNTS_ONLY = "accounts change by the history's amounts, tellers and branches stay"
    ALL_ALIKE = "accounts, tellers and branches change by the history's amounts"
    MIXED = "accounts change by the history's amounts, tellers and branches by one amount"
    UNKNOWN = "scripts from files may change anything: no rule applies"


@dataclass(frozen=True, slots=True)
class Balances:
    """Rows and sums at one instant."""

    accounts: int
    tellers: int
    branches: int
    history: int
    rows: dict[str, int]

    @classmethod
    def as_loaded(cls, scale: int) -> Balances:
        """Return the rows and sums of an unchanged dataset."""
        rows = {table: scale * count for table, count in PER_SCALE.items()}
        return cls(0, 0, 0, 0, {**rows, "pgbench_history": 0})

    @property
    def sums(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in BALANCES}

    def without_history(self) -> Balances:
        """Return the balances as they are after the history was emptied."""
        return replace(self, history=0, rows={**self.rows, "pgbench_history": 0})


def rule_for(scripts: Set[str]) -> Rule:
    """Return the rule for the named scripts; it also holds if one of them does not run."""
    if not scripts <= set(BUILTIN_SCRIPTS):
        return Rule.UNKNOWN
    if "simple-update" in scripts:
        return Rule.MIXED if "tpcb-like" in scripts else Rule.ACCOUNTS_ONLY
    return Rule.ALL_ALIKE if "tpcb-like" in scripts else Rule.NOTHING_CHANGES


def scope_for(asked: Literal["auto", "full", "counts", "none"], dataset: Dataset, rule: Rule) -> Scope:
    """Return how much of `dataset` to check: nothing if a user's scripts may change or drop tables."""
    if rule is Rule.UNKNOWN:
        return "none"
    if asked == "auto":
        return "full" if dataset.scale <= FULL_UP_TO_SCALE else "counts"
    return asked


def read_balances(server: Server) -> Balances:
    """Read rows and sums of pgbench's tables. Raises TargetError, psycopg.Error."""
    with server.connect() as connection:
        row = connection.execute(_SUMS).fetchone()
    assert row is not None
    values = [int(value) for value in row]
    rows = dict(
        zip(("pgbench_accounts", "pgbench_tellers", "pgbench_branches", "pgbench_history"), values[0::2], strict=True)
    )
    accounts, tellers, branches, history = values[1::2]
    return Balances(accounts, tellers, branches, history, rows)


def read_small_counts(server: Server) -> dict[str, int]:
    """Count the rows of all tables except the accounts. Raises TargetError, psycopg.Error."""
    with server.connect() as connection:
        row = connection.execute(_COUNTS).fetchone()
    assert row is not None
    return dict(zip(("pgbench_tellers", "pgbench_branches", "pgbench_history"), row, strict=True))


def check_counts(dataset: Dataset, rows: dict[str, int]) -> list[str]:
    """Return deviations of `rows`, by table, from the dataset's scale."""
    return [
        f"{table} has {rows[table]:,} rows, not {dataset.scale * count:,}"
        for table, count in PER_SCALE.items()
        if table in rows and rows[table] != dataset.scale * count
    ]


def check_balances(before: Balances, after: Balances, rule: Rule) -> tuple[dict[str, int], list[str]]:
    """Return how the sums changed, and violations of `rule`, which must be known."""
    changes = {name: after.sums[name] - before.sums[name] for name in BALANCES}
    told = ", ".join(f"{name} {change:+,}" for name, change in changes.items())
    if all(changes[name] == wanted for name, wanted in _expected_changes(changes, rule).items()):
        history_rows = after.rows["pgbench_history"] - before.rows["pgbench_history"]
        if rule is Rule.NOTHING_CHANGES and history_rows != 0:
            return changes, [f"the history has {quantity(history_rows, 'new row')}, although the scripts write none"]
        return changes, []
    return changes, [f"the sums changed by {told}; {rule.value}"]


def _expected_changes(changes: dict[str, int], rule: Rule) -> dict[str, int]:
    history = changes["history"]
    match rule:
        case Rule.NOTHING_CHANGES:
            return dict.fromkeys(BALANCES, 0)
        case Rule.ACCOUNTS_ONLY:
            return {"accounts": history, "tellers": 0, "branches": 0}
        case Rule.ALL_ALIKE:
            return dict.fromkeys(("accounts", "tellers", "branches"), history)
        case _:
            return {"accounts": history, "tellers": changes["branches"]}


_SIZE = """
    SELECT coalesce(sum(pg_relation_size(c.oid)), 0)
    FROM pg_class c
    WHERE c.relkind = 'r' AND (c.oid = to_regclass('pgbench_accounts')
        OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass('pgbench_accounts')))
"""


def read_all_counts(server: Server, scope: Scope, expected: Balances | None) -> dict[str, int]:
    """Return the rows of all tables; if `scope` is full, compares the sums with `expected`.

    Raises TargetError, psycopg.Error.
    """
    if scope != "full":
        with server.connect() as connection:
            row = connection.execute("SELECT count(*) FROM pgbench_accounts").fetchone()
        assert row is not None
        return {"pgbench_accounts": int(row[0]), **read_small_counts(server)}
    balances = read_balances(server)
    if expected is not None and balances.sums != expected.sums:
        told = ", ".join(f"{name} {total:,}" for name, total in balances.sums.items())
        wanted = ", ".join(f"{name} {total:,}" for name, total in expected.sums.items())
        raise TargetError(f"the dataset differs from the loaded one: its sums are {told}, not {wanted}")
    return balances.rows


def accounts_bytes(server: Server) -> int:
    with server.connect() as connection:
        row = connection.execute(_SIZE).fetchone()
    assert row is not None
    return int(row[0])
