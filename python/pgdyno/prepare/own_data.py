"""Datasets that a plan's own SQL files make, in a database that pgdyno creates for them.

The files run by psql's rules (`pgdyno.plan.own_data.psql_reader`), statement by statement, and the first error ends the
load. pgdyno drops and creates the database before, and again after a load that failed: nothing stays half loaded.
"""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, ClassVar

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from pgdyno import __version__
from pgdyno.errors import TargetError
from pgdyno.plan.own_data.psql_reader import Reader
from pgdyno.prepare.dataset import (
    BEGIN,
    BY_SQL,
    END,
    FORMAT,
    Dataset,
    SqlFiles,
    Tables,
    checksum,
    read_comment,
    read_stamp,
    write_comment,
)
from pgdyno.prepare.dataset_copies import end_sessions
from pgdyno.prepare.timed_steps import Steps
from pgdyno.programs import Engine
from pgdyno.records import Consistency
from pgdyno.targets import Progress, Server
from pgdyno.targets.dsn.reach import create_signed
from pgdyno.targets.operations.run_sql import run_statements

Connection = psycopg.Connection[tuple[Any, ...]]
RULE = "pgdyno knows no rules for data of the plan's SQL files"
LOOK_S = 0.5
"""How often the progress is shown, and the disk and the budget are checked."""
CANCEL_S = 5.0
_TABLES = """
    SELECT format('%I.%I', n.nspname, c.relname), c.oid::bigint
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND NOT c.relispartition
      AND c.oid >= 16384 AND n.nspname NOT IN ('pg_catalog', 'information_schema')
      AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
    ORDER BY 1
"""
"""A partitioned table stands for its partitions; tables of extensions do not belong to the dataset."""


class SqlTables(Tables):
    checking: ClassVar[str] = "counting rows"

    @staticmethod
    def describe(dataset: Dataset) -> str:
        return dataset.words

    @staticmethod
    def title(dataset: Dataset) -> str:
        return f"{dataset.words} ({(dataset.digest or '')[:12]})"

    @staticmethod
    def read_options(said: dict[str, Any]) -> dict[str, Any]:
        return {"digest": said["options"]["digest"], "words": said["options"]["words"]}

    @staticmethod
    def load(dataset: Dataset, server: Server, engine: Engine, progress: Progress) -> None:
        del engine
        assert dataset.files is not None  # only the plan's own dataset is loaded
        if not server.owns_database:
            raise TargetError(
                f"cannot load {dataset} into the database {server.dbname}, which pgdyno did not create",
                hint='name a database that does not exist, or make the tables yourself and set dataset = "none"',
            )
        _make_database_anew(server)
        try:
            _Load(dataset, dataset.files, server, progress).run()
            progress.step("loading: vacuum and analyze")
            with server.connect() as connection:
                connection.execute("VACUUM ANALYZE")
            _write_stamp(dataset, server)
        except BaseException:
            # the error that ended the load is the one to report
            with suppress(TargetError, psycopg.Error):
                _make_database_anew(server)
            raise

    def keep(self, steps: Steps) -> None:
        if self.reset.method == "vacuum":
            steps.do("vacuum", "vacuuming the tables", self._vacuum)

    def _vacuum(self) -> None:
        with self.server.connect() as connection:
            connection.execute("VACUUM")

    def check(self) -> Consistency:
        if self.reset.consistency == "auto":
            return Consistency(scope="none", rule=RULE, seconds=0.0, counts={})
        return super().check()

    def count(self) -> Consistency:
        stamp = read_stamp(read_comment(self.server))
        loaded = {table.name: table.rows for table in stamp.tables} if stamp is not None else {}
        counts = {name: rows for name, rows, _ in _count_tables(self.server)}
        changes = {name: rows - loaded[name] for name, rows in counts.items() if name in loaded}
        return Consistency(scope="counts", rule=RULE, seconds=0.0, counts=counts, changes=changes)


TABLES = SqlTables


def _count_tables(server: Server) -> list[tuple[str, int, int]]:
    with server.connect() as connection:
        found = []
        for name, oid in connection.execute(_TABLES).fetchall():
            # the server has quoted the name
            row = connection.execute(f"SELECT count(*) FROM {name}".encode()).fetchone()  # noqa: S608
            assert row is not None
            found.append((name, int(row[0]), oid))
        return found


def _make_database_anew(server: Server) -> None:
    own_text = (read_comment(server) or "").partition(BEGIN)[0].rstrip("\n")
    end_sessions(server)
    with server.connect(server.maintenance) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(server.dbname)))
        if server.machine is None:
            create_signed(connection, server.address, server.dbname)
        else:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(server.dbname)))
    server.database_made()
    if own_text:
        write_comment(server, own_text)


def _write_stamp(dataset: Dataset, server: Server) -> None:
    with server.connect() as connection:
        wal_level = connection.execute("SELECT current_setting('wal_level')").fetchone()
    said: dict[str, Any] = {
        "format": FORMAT,
        "dataset": BY_SQL,
        "version": 1,
        "scale": dataset.scale,
        "seed": None,
        "options": {"digest": dataset.digest, "words": dataset.words},
        "steps": "",
        "tables": [{"name": name, "rows": rows, "oid": oid} for name, rows, oid in _count_tables(server)],
        "pgdyno": __version__,
        "loaded_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "wal_level": wal_level[0] if wal_level else None,
    }
    said["checksum"] = checksum(said)
    own_text = read_comment(server)
    write_comment(server, "\n".join([*([own_text] if own_text else []), f"{BEGIN}{json.dumps(said)}{END}"]))


class _Load:
    """Runs the files: one after the other in one session, those of an inner list at the same time."""

    def __init__(self, dataset: Dataset, files: SqlFiles, server: Server, progress: Progress) -> None:
        self._words = str(dataset)
        self._files = files
        self._server = server
        self._progress = progress
        self._open: set[Connection] = set()
        self._is_stopped = threading.Event()
        self._readers = [Reader(files.folder, dict(files.variables))]

    def run(self) -> None:
        """Raise TargetError with file, line and the server's message."""
        main = self._readers[0]
        most = max((len(stage) for stage in self._files.dataset.sql if not isinstance(stage, str)), default=1)
        with ThreadPoolExecutor(most) as pool, self._session() as session:
            try:
                for stage in self._files.dataset.sql:
                    if isinstance(stage, str):
                        self._progress.step(f"loading: {stage}")
                        self._wait([pool.submit(self._run_file, session, main, stage)])
                    else:
                        self._progress.step(f"loading: {', '.join(stage)}")
                        readers = [main.fork() for _ in stage]
                        self._readers += readers
                        beside = zip(readers, stage, strict=True)
                        self._wait([pool.submit(self._run_beside, *each) for each in beside])
                if session.info.transaction_status is not TransactionStatus.IDLE:
                    raise TargetError(
                        f"cannot load {self._words}: the last file leaves a transaction open", hint="end it with COMMIT"
                    )
            except BaseException:
                self._stop()
                raise

    def _wait(self, running: Sequence[Future[None]]) -> None:
        total = self._files.contents.size_bytes
        waiting = set(running)
        while waiting:
            done, waiting = wait(waiting, LOOK_S, FIRST_EXCEPTION)
            for each in done:
                each.result()
            # also checks the disk and the budget
            self._progress.bytes(sum(reader.read_bytes for reader in self._readers), total)

    def _stop(self) -> None:
        self._is_stopped.set()
        for connection in tuple(self._open):
            with suppress(psycopg.Error):
                connection.cancel_safe(timeout=CANCEL_S)

    @contextmanager
    def _session(self) -> Iterator[Connection]:
        with self._server.connect() as connection:
            connection.prepare_threshold = None
            self._open.add(connection)
            try:
                yield connection
            finally:
                self._open.discard(connection)

    def _run_beside(self, reader: Reader, name: str) -> None:
        with self._session() as session:
            self._run_file(session, reader, name)

    def _run_file(self, session: Connection, reader: Reader, name: str) -> None:
        run_sql_file(session, reader, name, f"cannot load {self._words}", self._is_stopped.is_set)


def run_sql_file(
    session: Connection, reader: Reader, name: str, fails: str, must_stop: Callable[[], bool] = lambda: False
) -> None:
    """Run the statements of the SQL file `name`: see `run_statements`."""
    run_statements(session, reader.read(name), fails, must_stop)
