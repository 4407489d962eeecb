"""Loads a dataset with the engine, and reads the dataset stamp in a database's comment.

The engine writes the stamp when a load has finished; docs/reference/dataset-stamp.md is the contract. Only this module
reads it.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO, Any

from psycopg import sql

from pgdyno.errors import TargetError
from pgdyno.plan.model import HUNDREDTHS, TPCH, Workload
from pgdyno.programs import Engine
from pgdyno.records.tpcc_profile import UNNAMED_RELEASE
from pgdyno.run.process import Event, Vigil, running_engine
from pgdyno.targets import Progress, Server
from pgdyno.targets.response_limits import HINT, SilentServerError
from pgdyno.units import counted

FORMAT = 1
"""The newest format of the stamp that this code reads."""
BEGIN, END = "[pgdyno-dataset ", "]"


@dataclass(frozen=True, slots=True)
class Dataset:
    """The contents of a database."""

    name: str
    scale: int
    """The scale in the dataset's own unit: for sbtest, rows per table; for tpch, hundredths of the scale factor."""
    tables: int | None = None
    """The number of tables, where it can be chosen (sbtest)."""
    profile: str | None = None
    """The rules that TPC-C's rows follow; None for other datasets."""

    @property
    def scale_factor(self) -> float:
        return self.scale / HUNDREDTHS

    @classmethod
    def of(cls, workload: Workload, scale: int) -> Dataset | None:
        """Returns the dataset that a trial of `workload` at `scale` needs, or None."""
        if workload.dataset == "none":
            return None
        tables = workload.tables if workload.dataset == "sbtest" else None
        return cls(workload.dataset, scale, tables, workload.profile if workload.dataset == "tpcc" else None)

    def __str__(self) -> str:
        if self.name == TPCH:
            return f"{self.name} at scale factor {self.scale_factor:g}"
        if self.tables is None:
            return f"{self.name} at scale {self.scale:,}"
        return f"{self.name} with {counted(self.tables, 'table')} of {counted(self.scale, 'row')}"


@dataclass(frozen=True, slots=True)
class StampedTable:
    """A table that a load has filled."""

    name: str
    rows: int
    """At the end of the load."""
    oid: int


@dataclass(frozen=True, slots=True)
class Stamp:
    """The dataset stamp that a load wrote."""

    dataset: Dataset
    tables: tuple[StampedTable, ...]
    wal_level: str | None = None
    """The server's wal_level during the load; None for a stamp without it."""


def read_stamp(comment: str | None) -> Stamp | None:
    """Parses the stamp in a database's comment; None if there is none or it is invalid."""
    _, begin, rest = (comment or "").partition(BEGIN)
    if not begin:
        return None
    try:
        said, end = json.JSONDecoder().raw_decode(rest)
        if not rest.startswith(END, end) or not 1 <= said["format"] <= FORMAT:
            return None
        tables = tuple(StampedTable(table["name"], table["rows"], table["oid"]) for table in said["tables"])
        count = len(tables) if said["dataset"] == "sbtest" else None
        profile = said["options"].get("tpcc-profile") if said["dataset"] == "tpcc" else None
        profile = UNNAMED_RELEASE if profile == "hammerdb" else profile
        stamp = Stamp(Dataset(said["dataset"], said["scale"], count, profile), tables, said.get("wal_level"))
        return stamp if said["checksum"] == _checksum(said) else None
    except (ValueError, KeyError, TypeError):
        return None


def _checksum(said: dict[str, Any]) -> str:
    lines = [f"{said['dataset']} {said['version']} {said['scale']}"]
    lines += [f"{table['name']} {table['rows']}" for table in said["tables"]]
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def stamped_dataset(server: Server) -> Dataset | None:
    """Returns the dataset by the stamp of the workload's database, if its tables are those that were loaded.

    Raises TargetError, psycopg.Error.
    """
    stamp = read_stamp(read_comment(server))
    if stamp is None:
        return None
    with server.connect() as connection:
        for table in stamp.tables:
            row = connection.execute("SELECT to_regclass(quote_ident(%s))::oid::bigint", [table.name]).fetchone()
            if row is None or row[0] != table.oid:
                return None
    return stamp.dataset


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


def load_dataset(dataset: Dataset, server: Server, engine: Engine, progress: Progress, *, reload: bool = False) -> bool:
    """Loads `dataset` unless the database's stamp names exactly that. Returns whether it was loaded.

    `reload` forces loading.

    Raises TargetError if the engine could not load it; the database then has no stamp.
    """
    if not reload and stamped_dataset(server) == dataset:
        return False
    progress.step(f"loading {dataset}")
    # the engine chooses the number of connections, from the cores and tables
    options = ["--initialize", *_size(dataset), "--quiet", "--events=-"]
    _run_engine(engine, options, server, progress, f"load {dataset}")
    found = stamped_dataset(server)
    if found != dataset:
        raise TargetError(
            f"cannot load {dataset}: the engine wrote the dataset stamp of {found}",
            hint="use pgdrive and pgdyno of the same release",
        )
    return True


def _size(dataset: Dataset) -> list[str]:
    if dataset.profile is not None:
        return [f"--dataset={dataset.name}", f"--warehouses={dataset.scale}", f"--tpcc-profile={dataset.profile}"]
    if dataset.name == TPCH:
        return [f"--dataset={dataset.name}", f"--scale-factor={dataset.scale_factor:g}"]
    if dataset.tables is None:
        return [f"--scale={dataset.scale}"]
    return [f"--dataset={dataset.name}", f"--tables={dataset.tables}", f"--table-size={dataset.scale}"]


def _run_engine(engine: Engine, options: list[str], server: Server, progress: Progress, doing: str) -> None:
    vigil = Vigil(server.quiet_at_work)
    with tempfile.TemporaryFile() as errors:
        with vigil.over(running_engine)(engine, options, server.environment(), errors, None) as (process, events):
            end = _follow(events, progress)
            process.wait()
        if vigil.reason is not None:
            raise SilentServerError(f"cannot {doing}: {vigil.reason}", hint=HINT)
        if process.returncode != 0:
            raise TargetError(f"cannot {doing}: {_reason(end, errors)}", hint=(end or {}).get("hint"))


def _follow(events: Iterable[Event], progress: Progress) -> Event | None:
    end = None
    for event in events:
        if event["event"] == "load" and "rows_total" in event:
            # events for each table, and one for all of them, without a table
            if event["table"] is None:
                left_s = event["remaining_us"] / 1e6
                progress.rows(event["rows"], event["rows_total"], event["rows_per_s"], left_s)
        elif event["event"] == "load" and "rows_total" not in event and "generate" not in event["step"]:
            progress.step(f"loading: {event['step']}")
        elif event["event"] == "end":
            end = event
    return end


def _reason(end: Event | None, errors: IO[bytes]) -> str:
    if end is not None and end.get("message"):
        return str(end["message"])
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "the engine printed no message"
