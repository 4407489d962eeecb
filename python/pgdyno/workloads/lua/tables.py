"""sysbench's tables.

Scripts from files may change anything, but all of sysbench's mixed workloads keep the number of rows of every table,
because they insert deleted rows again, with the same id, in one transaction.
"""

from typing import Any, ClassVar

from psycopg import sql

from pgdyno.errors import TargetError
from pgdyno.prepare.dataset import BRING_BACK, STAMP_ONLY, Dataset, Tables
from pgdyno.prepare.timed_steps import Steps
from pgdyno.records import Consistency
from pgdyno.units import quantity

RULE = "every table has the rows that were loaded, numbered from 1"


class SysbenchTables(Tables):
    checking: ClassVar[str] = "counting the dataset's rows"

    @staticmethod
    def describe(dataset: Dataset) -> str:
        return f"{dataset.name} with {quantity(dataset.tables or 0, 'table')} of {quantity(dataset.scale, 'row')}"

    @staticmethod
    def size_options(dataset: Dataset) -> list[str]:
        return [f"--dataset={dataset.name}", f"--tables={dataset.tables}", f"--table-size={dataset.scale}"]

    @staticmethod
    def read_options(said: dict[str, Any]) -> dict[str, Any]:
        return {"tables": len(said["tables"])}

    @property
    def _names(self) -> list[str]:
        return [f"sbtest{number}" for number in range(1, (self.dataset.tables or 0) + 1)]

    def keep(self, steps: Steps) -> None:
        if self.reset.method == "vacuum":
            # trials leave dead rows
            steps.do("vacuum", "vacuuming the tables", self._vacuum)

    def _vacuum(self) -> str:
        with self.server.connect() as connection:
            for table in self._names:
                connection.execute(sql.SQL("VACUUM {}").format(sql.Identifier(table)))
        return quantity(len(self._names), "table")

    def verify(self) -> str:
        if self.reset.consistency == "none" and not self.is_restored:
            # the scripts of such a plan may change the number of rows
            return STAMP_ONLY
        wrong = self.count().violations
        if wrong:
            raise TargetError(f"the dataset differs from the loaded one: {'; '.join(wrong)}", hint=BRING_BACK)
        return "all tables counted"

    def count(self) -> Consistency:
        # the tables have no sums to check
        counts: dict[str, int] = {}
        violations = []
        size = self.dataset.scale
        statement = sql.SQL("SELECT count(*), coalesce(min(id), 1), coalesce(max(id), 0) FROM {}")
        with self.server.connect() as connection:
            for table in self._names:
                row = connection.execute(statement.format(sql.Identifier(table))).fetchone()
                assert row is not None
                rows, first, last = (int(value) for value in row)
                counts[table] = rows
                if rows != size:
                    violations.append(f"{table} has {rows:,} rows, not {size:,}")
                elif (first, last) != (1, size):
                    # ids are unique, so this count within these bounds covers all of them
                    violations.append(f"{table} has ids from {first:,} to {last:,}, not from 1 to {size:,}")
        return Consistency(scope="counts", rule=RULE, seconds=0.0, counts=counts, violations=violations)


TABLES = SysbenchTables
