"""Captures a load from the logs of a server, however large they are.

Python reads a block of a log at a time, and looks at distinct templates and values. DuckDB does all else, within a
memory limit, and with the disk of the folder that the capture is written to.
"""

from __future__ import annotations

import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Protocol

import duckdb

from pgdyno.capture.anonymise import Anonymiser
from pgdyno.capture.capture_table import Found, write_table
from pgdyno.capture.left_out import Losses
from pgdyno.capture.logs.log_blocks import Block, blocks
from pgdyno.capture.logs.log_entries import load_entries
from pgdyno.capture.logs.log_events import SQLSTATE_OF_MESSAGE, STARTING, load_events, of_others, server_version
from pgdyno.capture.logs.log_files import LogFile
from pgdyno.capture.logs.log_recognition import log_files, without_copies
from pgdyno.capture.logs.log_statements import Templates, store_statements
from pgdyno.capture.logs.sessions import (
    SessionEvents,
    SessionStatements,
    check_one_server,
    choose_database,
    find_sessions,
)
from pgdyno.capture.parser import require_parser
from pgdyno.capture.statement_classes import Classes
from pgdyno.errors import StoreError, UsageError
from pgdyno.messages import Message
from pgdyno.records.base import KeptMessage
from pgdyno.records.capture import STATEMENTS_FILE, Capture, Values
from pgdyno.store.duckdb_session import connect, fetch_row
from pgdyno.store.safe_files import store_errors

MEMORY_LIMIT = "200MB"
"""DuckDB's limit; more is written to disk."""
WORKERS = 2
"""Blocks that DuckDB splits at the same time; Python reads the next ones meanwhile."""
_SMALL_BYTES = 1 << 16
"""Logs for which further threads of DuckDB cost more time than they save."""


@dataclass(frozen=True, slots=True)
class Options:
    database: str | None = None
    prefix: str | None = None
    """`log_line_prefix`; None: a usual one."""
    user: str | None = None
    application: str | None = None
    only_reads: bool = False
    """Leave out what writes, or may write."""
    values: Values = Values.ANONYMISED
    span_us: tuple[int | None, int | None] = (None, None)
    """The first and the last time of lines that are read, in µs since 1970; None: the log's own."""


@dataclass(frozen=True, slots=True)
class Progress:
    read_bytes: int
    total_bytes: int
    entries: int


class Events(Protocol):
    """A file that says what sessions did."""

    @property
    def path(self) -> Path: ...
    @property
    def size_bytes(self) -> int: ...

    def blocks(self, losses: Losses) -> Iterator[Block]:
        """Yield its parts; what cannot be read is added to `losses`. Raises StoreError."""

    def load(self, cursor: duckdb.DuckDBPyConnection, block: Block, file: Path) -> tuple[list[Left], str | None]:
        """Fill the table `event` of `cursor` by way of `file`; return what is left out, and the server's version."""


Left = tuple[str, int, int]
"""A reason, how often it occurred, and the first line."""


@dataclass(frozen=True, slots=True)
class _LogEvents:
    log: LogFile
    options: Options

    @property
    def path(self) -> Path:
        return self.log.path

    @property
    def size_bytes(self) -> int:
        return self.log.size_bytes

    def blocks(self, losses: Losses) -> Iterator[Block]:
        return blocks(self.log, losses)

    def load(self, cursor: duckdb.DuckDBPyConnection, block: Block, file: Path) -> tuple[list[Left], str | None]:
        cut = load_entries(cursor, self.log, block, file)
        version = server_version(cursor) if STARTING.encode() in block.data else None
        if self.options.span_us != (None, None):
            cursor.execute("DELETE FROM entry WHERE logged_us < $1 OR logged_us > $2", self.options.span_us)
        code = "sqlstate" if self.log.prefix is None else SQLSTATE_OF_MESSAGE
        left = load_events(cursor, code, of_others(self.options.user, self.options.application))
        if cut:
            left.append(("cut", len(cut), min(cut)))
        return left, version


def capture_logs(
    files: Sequence[Path], into: Path, options: Options, progress: Callable[[Progress], None] = lambda _: None
) -> Capture:
    """Write `capture.parquet` into the folder `into` from logs of one server, and return what it has.

    Raises UsageError for files that are no log or do not fit together, StoreError for what cannot be read or written.
    Nothing is left behind after an exception.
    """
    require_parser()
    logs, copies = without_copies(log_files(files, options.prefix))
    losses = Losses([each.path for each in (*logs, *copies)])
    for each in copies:
        losses.add("copies", each.path, 1)
    capture = capture_events(
        [_LogEvents(each, options) for each in logs],
        losses,
        into,
        options,
        progress,
        have_ids=all(each.prefix is None or "key" in each.prefix.groups for each in logs),
        is_in_order=True,
        may_be_cut=logs[0].prefix is not None,
    )
    notes = [
        KeptMessage.from_message(
            Message(
                "wrapper-removed",
                "{wrapper} was taken off {count:,} line of {file}",
                "{wrapper} was taken off {count:,} lines of {file}",
                wrapper=wrapper.wrapper.name, count=wrapper.count, file=each.path.name,
            )
        )
        for each in logs
        for wrapper in each.wrappers
    ]  # fmt: skip
    whole_seconds = any(each.has_whole_seconds for each in logs)
    return capture.model_copy(update={"has_whole_seconds": whole_seconds, "notes": notes})


def capture_events(
    sources: Sequence[Events],
    losses: Losses,
    into: Path,
    options: Options,
    progress: Callable[[Progress], None],
    *,
    have_ids: bool = True,
    is_in_order: bool = False,
    may_be_cut: bool = False,
) -> Capture:
    """Write `capture.parquet` into the folder `into` from what `sources` say, and return what it has.

    `have_ids`: sessions have IDs; `is_in_order`: times are, unless a clock was set; `may_be_cut`: statements
    may lack lines. Raises as `capture_logs`.
    """
    templates = Templates(anonymised=options.values is Values.ANONYMISED)
    threads = WORKERS if sum(each.size_bytes for each in sources) > _SMALL_BYTES else 1
    with _work_folder(into) as folder, _database(folder, into, threads) as connection:
        classes = Classes(connection, templates, only_reads=options.only_reads)
        events = SessionEvents(connection, have_ids=have_ids, is_in_order=is_in_order)
        statements = SessionStatements(connection, classes, folder)
        reader = _Reader(sources, templates, losses, folder, events, statements)
        reader.read([connection.cursor() for _ in range(WORKERS)], progress)
        if statements.first_unfinished is not None and may_be_cut and not classes.have_newlines:
            # where one statement lacks its end, others may as well, and look whole
            place = losses.name_place(statements.first_unfinished)
            raise UsageError(
                f"{place}: the statement ends in its middle, and no line of the log continues another one: lines were"
                " removed or shortened",
                hint="read the server's own log file: a filter by line keeps only the first line of a statement",
            )
        if events.clock_steps:
            losses.add_at("clock-set-back", events.clock_steps[0], len(events.clock_steps))
        find_sessions(connection)
        check_one_server(connection, losses)
        database = choose_database(connection, options.database)
        _count_others(connection, losses)
        found = Found(events.began_us, database, reader.version, options.values)
        partial = folder / STATEMENTS_FILE
        capture = write_table(connection, statements.files, partial, found, classes, losses)
        partial.replace(into / STATEMENTS_FILE)
    return capture


# ---- reading ----


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What a block had: the table `log_event` of `cursor`, and what is left out."""

    cursor: duckdb.DuckDBPyConnection
    number: int
    left: list[Left]
    version: str | None


class _Reader:
    """Loads blocks in threads, and adds them to the capture one after the other in the thread that waits for them."""

    def __init__(
        self,
        sources: Sequence[Events],
        templates: Templates,
        losses: Losses,
        folder: Path,
        events: SessionEvents,
        statements: SessionStatements,
    ) -> None:
        self.version: str | None = None
        """Version of the server, if the log contains it."""
        self._sources, self._templates, self._losses, self._folder = sources, templates, losses, folder
        self._events, self._statements = events, statements
        self._anonymiser = Anonymiser() if templates.anonymised else None
        self._free: SimpleQueue[duckdb.DuckDBPyConnection] = SimpleQueue()

    def read(self, cursors: Sequence[duckdb.DuckDBPyConnection], progress: Callable[[Progress], None]) -> None:
        for cursor in cursors:
            self._free.put(cursor)
        waiting: deque[Future[_Loaded]] = deque()
        total = sum(each.size_bytes for each in self._sources)
        before = entries = 0
        with ThreadPoolExecutor(len(cursors), "capture") as pool:
            try:
                for number, source in enumerate(self._sources):
                    for block in source.blocks(self._losses):
                        if len(waiting) == len(cursors):
                            self._add(waiting.popleft().result(), more=True)
                        waiting.append(pool.submit(self._load, number, block))
                        entries += block.entries
                        progress(Progress(before + block.end_bytes, total, entries))
                    before += source.size_bytes
                while waiting:
                    self._add(waiting.popleft().result(), more=bool(waiting))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for cursor in cursors:
                    cursor.interrupt()
                raise
        for cursor in cursors:
            cursor.close()

    def _load(self, number: int, block: Block) -> _Loaded:
        cursor = self._free.get()
        file = self._folder / f"block-{threading.get_ident()}"
        left, version = self._sources[number].load(cursor, block, file)
        store_statements(cursor, number, self._templates, self._anonymiser)
        return _Loaded(cursor, number, left, version)

    def _add(self, loaded: _Loaded, *, more: bool) -> None:
        self._events.add(loaded.cursor, loaded.number)
        self._statements.add(loaded.cursor, self._events.began_us or 0, more=more)
        for reason, count, line in loaded.left:
            self._losses.add(reason, self._sources[loaded.number].path, line, count)
        self.version = loaded.version or self.version
        self._free.put(loaded.cursor)


def _count_others(connection: duckdb.DuckDBPyConnection, losses: Losses) -> None:
    statements, other, durations, sent, first_duration = fetch_row(
        connection,
        """SELECT sum(statements) FILTER (NOT is_chosen)::BIGINT,
                  min(first_place) FILTER (statements > 0 AND NOT is_chosen),
                  sum(durations)::BIGINT, sum(sent)::BIGINT, min(first_duration) FROM log_session""",
    )
    if statements:
        losses.add_at("other-database", other, statements)
    if durations and not sent:
        losses.add_at("no-text", first_duration, durations)


# ---- the disk ----


@contextmanager
def _work_folder(into: Path) -> Iterator[Path]:
    """A folder for the time of the capture, on the disk of `into`, which is removed if it is new and stays empty."""
    is_new = not into.exists()
    with store_errors("write", into, "--into"):
        into.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(prefix=".capture-", dir=into)
    try:
        with folder as name:
            yield Path(name)
    finally:
        if is_new:
            with suppress(OSError):
                into.rmdir()


@contextmanager
def _database(folder: Path, into: Path, threads: int) -> Iterator[duckdb.DuckDBPyConnection]:
    try:
        with connect(threads, MEMORY_LIMIT, folder) as connection:
            connection.execute("SET preserve_insertion_order = false")
            yield connection
    except (duckdb.Error, OSError) as error:
        reason = str(error).strip().split("\n", 1)[0]
        full = isinstance(error, duckdb.OutOfMemoryException) or "No space left" in reason
        hint = "make room, or choose another folder with --into: a capture needs about the size of the log"
        raise StoreError(f"cannot write {into}: {reason}", hint=hint if full else None) from error
