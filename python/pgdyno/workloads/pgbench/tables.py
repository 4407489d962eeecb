"""pgbench's tables, of which the balances are known as long as pgbench's own scripts change them."""

from dataclasses import dataclass
from typing import ClassVar

import psycopg

from pgdyno.errors import TargetError
from pgdyno.prepare.dataset import BRING_BACK, STAMP_ONLY, Tables
from pgdyno.prepare.timed_steps import Steps
from pgdyno.records import Consistency
from pgdyno.workloads.pgbench.consistency import (
    Balances,
    Rule,
    Scope,
    accounts_bytes,
    check_balances,
    check_counts,
    read_all_counts,
    read_balances,
    read_small_counts,
    rule_for,
    scope_for,
)

STATEMENTS = ("VACUUM pgbench_branches", "VACUUM pgbench_tellers", "TRUNCATE pgbench_history")


@dataclass
class PgbenchTables(Tables):
    checking: ClassVar[str] = "checking the dataset's consistency"

    _counted_bytes: int | None = None
    """The size of the accounts when they were counted."""
    _before: Balances | None = None
    """The balances at the start of the next trial; None if unknown."""
    _at_start: Balances | None = None

    @property
    def _rule(self) -> Rule:
        return rule_for(self.scripts)

    @property
    def _scope(self) -> Scope:
        return scope_for(self.reset.consistency, self.dataset, self._rule)

    def note_loaded(self) -> None:
        self._counted_bytes = None

    def note_restored(self) -> None:
        self._before = Balances.as_loaded(self.dataset.scale)

    def forget(self) -> None:
        self._before = None

    def keep(self, steps: Steps) -> None:
        known, self._before = self._before, None
        if self.reset.method == "vacuum":
            steps.do("vacuum", "vacuuming the small tables, emptying the history", self._vacuum)
            known = known.without_history() if known is not None else None
        self._before = known
        if known is None and self._scope == "full":
            steps.do("read sums", "reading the balances", self._read_balances)

    def _vacuum(self) -> str | None:
        """Balances stay. Skips tables that a user's script has dropped, as pgbench does."""
        missing = []
        with self.server.connect() as connection:
            for statement in STATEMENTS:
                try:
                    connection.execute(statement)
                except psycopg.errors.UndefinedTable:
                    missing.append(statement)
        return f"missing tables: {', '.join(missing)}" if missing else None

    def _read_balances(self) -> None:
        self._before = read_balances(self.server)

    def verify(self) -> str:
        if self._rule is Rule.UNKNOWN and not self.is_restored:
            return STAMP_ONLY
        rows = self._exact_rows()
        wrong = check_counts(self.dataset, rows)
        if self.reset.method != "none" and rows["pgbench_history"] != 0:
            wrong.append(f"pgbench_history has {rows['pgbench_history']:,} rows, but should be empty")
        if wrong:
            raise TargetError(f"the dataset differs from the loaded one: {'; '.join(wrong)}", hint=BRING_BACK)
        return "accounts counted" if "pgbench_accounts" in rows else "accounts by size"

    def _exact_rows(self) -> dict[str, int]:
        """Count all tables the first time after a load, later all but the accounts, of which it checks the size: that
        of an unchanged copy stays, and pgbench's scripts never shrink the table.
        """
        size, counted = accounts_bytes(self.server), self._counted_bytes
        if counted is None:
            rows = read_all_counts(self.server, self._scope, self._before)
            self._counted_bytes = size
            return rows
        if size < counted or (self.is_restored and size != counted):
            what = f"pgbench_accounts has {size:,} bytes, not {counted:,}"
            raise TargetError(f"the dataset differs from the loaded one: {what}")
        return read_small_counts(self.server)

    def check(self) -> Consistency:
        self._at_start, self._before = self._before, None
        if self._scope == "none":
            return Consistency(scope="none", rule=self._rule.value, seconds=0.0, counts={})
        return super().check()

    def count(self) -> Consistency:
        self._before = read_balances(self.server) if self._scope == "full" else None
        rows = read_small_counts(self.server) if self._before is None else self._before.rows
        violations, changes = check_counts(self.dataset, rows), dict[str, int]()
        if self._before is not None and self._at_start is not None:
            changes, broken = check_balances(self._at_start, self._before, self._rule)
            violations += broken
        return Consistency(
            scope=self._scope, rule=self._rule.value, seconds=0.0, counts=rows, changes=changes, violations=violations
        )


TABLES = PgbenchTables
