"""TPC-H's tables."""

from typing import ClassVar

from psycopg import sql

from pgdyno.prepare.dataset import Dataset, Tables, read_comment, read_stamp
from pgdyno.records import Consistency
from pgdyno.workloads.queries.schema import HUNDREDTHS

REFRESHED = ("orders", "lineitem")
RULE = "the tables of the refresh functions have as many rows as were loaded"


class TpchTables(Tables):
    checking: ClassVar[str] = "counting the rows of refreshed tables"

    @staticmethod
    def describe(dataset: Dataset) -> str:
        return f"{dataset.name} at scale factor {dataset.scale / HUNDREDTHS:g}"

    @staticmethod
    def title(dataset: Dataset) -> str:
        return f"{dataset.name} scale factor {dataset.scale / HUNDREDTHS:g}"

    @staticmethod
    def size_options(dataset: Dataset) -> list[str]:
        return [f"--dataset={dataset.name}", f"--scale-factor={dataset.scale / HUNDREDTHS:g}"]

    def count(self) -> Consistency:
        """Check that refresh functions removed as many rows as they added."""
        stamp = read_stamp(read_comment(self.server))
        loaded = {table.name: table.rows for table in stamp.tables} if stamp is not None else {}
        counts: dict[str, int] = {}
        with self.server.connect() as connection:
            for table in REFRESHED:
                row = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))).fetchone()
                assert row is not None
                counts[table] = int(row[0])
        violations = [
            f"{table} has {rows:,} rows, not {loaded[table]:,}"
            for table, rows in counts.items()
            if rows != loaded.get(table, rows)
        ]
        return Consistency(scope="counts", rule=RULE, seconds=0.0, counts=counts, violations=violations)


TABLES = TpchTables
