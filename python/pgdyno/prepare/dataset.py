"""Loads a dataset with the engine, reads the stamp in a database's comment, and has the base of all datasets.

The engine writes the stamp when a load has finished; docs/reference/dataset-stamp.md is the contract. Only this module
reads it. Each kind of dataset has its own class in its package in `pgdyno.workloads`.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Container, Mapping, Sequence, Set
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from psycopg import sql

from pgdyno.errors import TargetError
from pgdyno.plan.model import Reset
from pgdyno.plan.own_data.psql_reader import SqlFileError
from pgdyno.plan.own_data.sql_dataset import Contents, SqlDataset, read_contents
from pgdyno.plan.time_budget.time_and_disk import pgbench_scale
from pgdyno.plan.workload_schema import Workload
from pgdyno.programs import Engine
from pgdyno.records import Consistency, Point
from pgdyno.registry import WORKLOADS
from pgdyno.run.process import Event, SilenceWatch, running_engine
from pgdyno.targets import Progress, Server
from pgdyno.targets.response_limits import HINT, SilentServerError

if TYPE_CHECKING:
    from pgdyno.prepare.timed_steps import Steps

FORMAT = 1
"""The newest format of the stamp that this code reads."""
BEGIN, END = "[pgdyno-dataset ", "]"
BY_SQL = "sql"
"""The name of every dataset that SQL files make."""


@dataclass(frozen=True, slots=True)
class SqlFiles:
    """The files that make a dataset, with their variables' values."""

    dataset: SqlDataset
    folder: Path
    variables: Mapping[str, str]
    contents: Contents


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
    digest: str | None = None
    """The hash of the SQL files that make it, and of their variables; None for other datasets."""
    words: str = ""
    """The name of a dataset that SQL files make, and its variables."""
    files: SqlFiles | None = field(default=None, compare=False, repr=False)
    """None for other datasets, and for one that a stamp names."""

    @classmethod
    def for_point(cls, workload: Workload, point: Point, folder: Path) -> Dataset | None:
        """Return the dataset that a trial of `workload` at `point` needs, or None; its files are in `folder`.

        Raises TargetError if the plan's SQL files have become invalid.
        """
        data = workload.own_data
        if data is None:
            assert point.scale is not None
            options = workload.dataset_options
            return None if workload.dataset == "none" else cls(workload.dataset_name, point.scale, **options)
        values = data.values(point.variables)
        try:
            contents = read_contents(data, folder, values)
        except SqlFileError as error:
            raise TargetError(f"cannot load {data.name}: {error}", hint=error.hint) from error
        given = ", ".join(f"{name} = {value}" for name, value in values.items())
        words = f"{data.name} with {given}" if given else data.name
        files = SqlFiles(data, folder, values, contents)
        return cls(BY_SQL, 1, digest=contents.digest(data, values), words=words, files=files)

    @property
    def pgbench_scale(self) -> float:
        """Its size in units of pgbench's scale."""
        return pgbench_scale(self.name, self.scale, self.tables or 1)

    @property
    def title(self) -> str:
        """Its name and size for fingerprints."""
        return tables_of(self.name).title(self)

    def __str__(self) -> str:
        return tables_of(self.name).describe(self)


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
    """Parse the stamp in a database's comment; None if there is none or it is invalid."""
    _, begin, rest = (comment or "").partition(BEGIN)
    if not begin:
        return None
    try:
        said, end = json.JSONDecoder().raw_decode(rest)
        if not rest.startswith(END, end) or not 1 <= said["format"] <= FORMAT:
            return None
        tables = tuple(StampedTable(table["name"], table["rows"], table["oid"]) for table in said["tables"])
        options = tables_of(said["dataset"]).read_options(said)
        stamp = Stamp(Dataset(said["dataset"], said["scale"], **options), tables, said.get("wal_level"))
        return stamp if said["checksum"] == checksum(said) else None
    except (ValueError, KeyError, TypeError):
        return None


def checksum(said: dict[str, Any]) -> str:
    """Return the checksum of what a stamp says of rows."""
    lines = [f"{said['dataset']} {said['version']} {said['scale']}"]
    lines += [f"{table['name']} {table['rows']}" for table in said["tables"]]
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def stamped_dataset(server: Server) -> Dataset | None:
    """Return the dataset by the stamp of the workload's database, if its tables are those that were loaded.

    Raises TargetError, psycopg.Error.
    """
    stamp = read_stamp(read_comment(server))
    if stamp is None:
        return None
    with server.connect() as connection:
        for table in stamp.tables:
            # tables of SQL files have their schema's name
            name = "%s" if stamp.dataset.name == BY_SQL else "quote_ident(%s)"
            row = connection.execute(f"SELECT to_regclass({name})::oid::bigint", [table.name]).fetchone()
            if row is None or row[0] != table.oid:
                return None
    return stamp.dataset


def read_comment(server: Server, database: str | None = None) -> str | None:
    """Return the comment of `database`, by default the workload's; also None if the database does not exist.

    Raises TargetError.
    """
    with server.connect(server.maintenance) as connection:
        row = connection.execute(
            "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s",
            [database or server.dbname],
        ).fetchone()
    return row[0] if row else None


def write_comment(server: Server, comment: str | None, database: str | None = None) -> None:
    """Replace the comment of `database`; None removes it. Raises TargetError."""
    value = sql.SQL("NULL") if comment is None else sql.Literal(comment)
    name = sql.Identifier(database or server.dbname)
    with server.connect(server.maintenance) as connection:
        connection.execute(sql.SQL("COMMENT ON DATABASE {} IS {}").format(name, value))


QUIET_S = 10.0
"""How long sessions of a trial may take to finish before the tables are read regardless."""
_OTHERS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
      AND state IS DISTINCT FROM 'idle'
"""
STAMP_ONLY = "its dataset stamp"
BRING_BACK = 'set reset.method to "reload", "template" or "snapshot", which restore it'


@dataclass
class Tables:
    """The tables of a dataset on one server, over the trials of a target."""

    checking: ClassVar[str] = ""
    """The check after a trial, for the progress."""
    dataset: Dataset
    server: Server
    engine: Engine
    progress: Progress
    reset: Reset
    scripts: Set[str]
    """Names of those that may run."""

    @staticmethod
    def describe(dataset: Dataset) -> str:
        """Return its name and size for the progress."""
        return f"{dataset.name} at scale {dataset.scale:,}"

    @staticmethod
    def title(dataset: Dataset) -> str:
        """Return its name and size for fingerprints."""
        return f"{dataset.name} scale {dataset.scale}"

    @staticmethod
    def size_options(dataset: Dataset) -> list[str]:
        """Return the engine's options that choose its name and size."""
        return [f"--scale={dataset.scale}"]

    @staticmethod
    def load(dataset: Dataset, server: Server, engine: Engine, progress: Progress) -> None:
        """Load `dataset`, whatever the database contains. Raises TargetError; the database then has no stamp."""
        # the engine chooses the number of connections, from the cores and tables
        options = ["--initialize", *tables_of(dataset.name).size_options(dataset), "--quiet", "--events=-"]
        run_engine(engine, options, server, f"load {dataset}", lambda event: _show(event, progress))

    @staticmethod
    def read_options(said: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of `Dataset` that a stamp has besides its name and scale."""
        del said
        return {}

    @property
    def is_restored(self) -> bool:
        """Whether every trial begins with the tables as they were loaded."""
        return self.reset.method in ("template", "snapshot", "reload")

    def note_loaded(self) -> None:
        """Note that the tables are new."""

    def note_restored(self) -> None:
        """Note that the tables are as they were loaded."""

    def forget(self) -> None:
        """Note that a trial ended with the tables in an unknown state."""

    def keep(self, steps: Steps) -> None:
        """Prepare tables that stay as the trial before left them. Raises TargetError, psycopg.Error."""

    def verify(self) -> str:
        """Check before a trial what is fast to check, and return what it was. Raises TargetError, psycopg.Error."""
        return STAMP_ONLY

    def check(self) -> Consistency:
        """Check the tables after a trial. Raises TargetError, psycopg.Error."""
        self.progress.step(self.checking)
        started = time.monotonic()
        wait_for_quiet(self.server)
        return self.count().model_copy(update={"seconds": round(time.monotonic() - started, 6)})

    def count(self) -> Consistency:
        """Return counts of rows and violations; `check` notes the seconds."""
        raise NotImplementedError


def tables_of(dataset: str) -> type[Tables]:
    """Return the class for tables of the dataset of this name; a general one for a dataset that pgdyno lacks."""
    modules = {kind.dataset: f"{kind.package}.tables" for kind in WORKLOADS.values()}
    modules[BY_SQL] = "pgdyno.prepare.own_data"
    return import_module(modules[dataset]).TABLES if dataset in modules else Tables


def wait_for_quiet(server: Server) -> None:
    """Wait until other sessions in the workload's database are idle: one whose client has gone may still commit."""
    end = time.monotonic() + QUIET_S
    with server.connect() as connection:
        while time.monotonic() < end:
            row = connection.execute(_OTHERS).fetchone()
            if row is not None and row[0] == 0:
                return
            time.sleep(0.02)


def load_dataset(dataset: Dataset, server: Server, engine: Engine, progress: Progress, *, reload: bool = False) -> bool:
    """Load `dataset` unless the database's stamp names exactly that. Returns whether it was loaded.

    `reload` forces loading.

    Raises TargetError if the engine could not load it; the database then has no stamp.
    """
    if not reload and stamped_dataset(server) == dataset:
        return False
    progress.step(f"loading {dataset}")
    tables_of(dataset.name).load(dataset, server, engine, progress)
    found = stamped_dataset(server)
    if found != dataset:
        raise TargetError(
            f"cannot load {dataset}: the engine wrote the dataset stamp of {found}",
            hint="use pgdrive and pgdyno of the same release",
        )
    return True


def run_engine(
    engine: Engine,
    options: Sequence[str],
    server: Server,
    doing: str,
    on_event: Callable[[Event], None],
    accepted: Container[int] = (0,),
) -> None:
    """Run the engine on the workload's database.

    Raises TargetError if the server falls silent, or the exit code is not `accepted`; `doing` is what then failed.
    """
    watch, end = SilenceWatch(lambda: server.quiet(is_busy=True)), Event()
    with tempfile.TemporaryFile() as errors:
        with watch.over(running_engine)(engine, options, server.environment(), errors, None) as (process, events):
            for event in events:
                on_event(event)
                end = event if event["event"] == "end" else end
            process.wait()
        if watch.reason is not None:
            raise SilentServerError(f"cannot {doing}: {watch.reason}", hint=HINT)
        if process.returncode not in accepted:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
            said = end.get("message") or (lines[-1] if lines else "the engine printed no message")
            raise TargetError(f"cannot {doing}: {said}", hint=end.get("hint"))


def _show(event: Event, progress: Progress) -> None:
    if event["event"] != "load":
        return
    if "rows_total" not in event:
        if "generate" not in event["step"]:
            progress.step(f"loading: {event['step']}")
    elif event["table"] is None:
        # events for each table, and one for all of them, without a table
        progress.rows(event["rows"], event["rows_total"], event["rows_per_s"], event["remaining_us"] / 1e6)
