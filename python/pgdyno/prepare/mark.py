"""The dataset stamp in a database's comment. Only this module reads it.

The engine writes it when a load has finished; docs/reference/dataset-stamp.md is the contract.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from pgdyno.plan.model import Workload
from pgdyno.targets import Server

FORMAT = 1
"""The newest format of the stamp that this code reads."""
BEGIN, END = "[pgdyno-dataset ", "]"


@dataclass(frozen=True, slots=True)
class Dataset:
    """The contents of a database."""

    name: str
    scale: int
    """In the dataset's own unit: for sbtest, rows per table."""
    tables: int | None = None
    """The number of tables, where it can be chosen (sbtest)."""
    profile: str | None = None
    """The rules that TPC-C's rows follow; None for other datasets."""

    @classmethod
    def of(cls, workload: Workload, scale: int) -> Dataset | None:
        """Returns the dataset that a trial of `workload` at `scale` needs, or None."""
        if workload.dataset == "none":
            return None
        tables = workload.tables if workload.dataset == "sbtest" else None
        return cls(workload.dataset, scale, tables, workload.profile if workload.dataset == "tpcc" else None)

    def __str__(self) -> str:
        if self.tables is None:
            return f"{self.name} at scale {self.scale:,}"
        return f"{self.name} with {self.tables:,} table{'s' if self.tables > 1 else ''} of {self.scale:,} rows"


@dataclass(frozen=True, slots=True)
class MarkedTable:
    """A table that a load has filled."""

    name: str
    rows: int
    """At the end of the load."""
    oid: int


@dataclass(frozen=True, slots=True)
class Mark:
    """The dataset stamp that a load wrote."""

    dataset: Dataset
    tables: tuple[MarkedTable, ...]
    wal_level: str | None = None
    """The server's wal_level during the load; None for a stamp without it."""


def read_mark(comment: str | None) -> Mark | None:
    """Parses the stamp in a database's comment; None if there is none or it is invalid."""
    _, begin, rest = (comment or "").partition(BEGIN)
    if not begin:
        return None
    try:
        said, end = json.JSONDecoder().raw_decode(rest)
        if not rest.startswith(END, end) or not 1 <= said["format"] <= FORMAT:
            return None
        tables = tuple(MarkedTable(table["name"], table["rows"], table["oid"]) for table in said["tables"])
        count = len(tables) if said["dataset"] == "sbtest" else None
        profile = said["options"].get("tpcc-profile") if said["dataset"] == "tpcc" else None
        mark = Mark(Dataset(said["dataset"], said["scale"], count, profile), tables, said.get("wal_level"))
        return mark if said["checksum"] == _checksum(said) else None
    except (ValueError, KeyError, TypeError):
        return None


def _checksum(said: dict[str, Any]) -> str:
    lines = [f"{said['dataset']} {said['version']} {said['scale']}"]
    lines += [f"{table['name']} {table['rows']}" for table in said["tables"]]
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def marked_dataset(server: Server) -> Dataset | None:
    """Returns the dataset by the stamp of the workload's database, if its tables are those that were loaded.

    Raises TargetError, psycopg.Error.
    """
    mark = read_mark(read_comment(server))
    if mark is None:
        return None
    with server.connect() as connection:
        for table in mark.tables:
            row = connection.execute("SELECT to_regclass(quote_ident(%s))::oid::bigint", [table.name]).fetchone()
            if row is None or row[0] != table.oid:
                return None
    return mark.dataset


def read_comment(server: Server, database: str | None = None) -> str | None:
    """Returns the comment of `database`, by default the workload's; also None if the database does not exist.

    Raises TargetError.
    """
    with server.connect(server.maintenance) as connection:
        row = connection.execute(
            "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s",
            [database or server.dbname],
        ).fetchone()
    return row[0] if row else None


def write_comment(server: Server, comment: str | None, database: str | None = None) -> None:
    """Replaces the comment of `database`; None removes it. Raises TargetError."""
    value = sql.SQL("NULL") if comment is None else sql.Literal(comment)
    name = sql.Identifier(database or server.dbname)
    with server.connect(server.maintenance) as connection:
        connection.execute(sql.SQL("COMMENT ON DATABASE {} IS {}").format(name, value))
