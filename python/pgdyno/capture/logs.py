"""Captures a load from the logs of a server, however large they are.

Python reads a block of a log at a time, and looks at distinct templates and values. DuckDB does all else, within a
memory limit, and with the disk of the folder that the capture is written to.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import duckdb

from pgdyno.capture.anonymise import Anonymiser
from pgdyno.capture.capture_table import Found, write_table
from pgdyno.capture.left_out import Losses
from pgdyno.capture.log_entries import load_entries
from pgdyno.capture.log_events import load_events, server_version
from pgdyno.capture.log_files import Block, LogFile, blocks, log_files
from pgdyno.capture.log_statements import EVENTS, Templates, store_statements
from pgdyno.capture.parser import require_parser
from pgdyno.capture.sessions import check_one_server, choose_database, find_sessions, find_statements
from pgdyno.errors import StoreError
from pgdyno.records.capture import STATEMENTS_FILE, Capture, Values
from pgdyno.store.safe_files import storing

MEMORY_LIMIT = "200MB"
"""DuckDB's limit; more is written to disk."""
WORKERS = 2
"""Blocks that DuckDB splits at the same time; Python reads the next ones meanwhile."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a capture of logs keeps."""

    database: str | None = None
    prefix: str | None = None
    """`log_line_prefix`; None: a usual one."""
    values: Values = Values.ANONYMISED


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a capture of logs is."""

    read_bytes: int
    total_bytes: int
    entries: int


def capture_logs(
    files: Sequence[Path], into: Path, options: Options, progress: Callable[[Progress], None] = lambda _: None
) -> Capture:
    """Writes `capture.parquet` into the folder `into` from logs of one server, and returns what it has.

    Raises UsageError for files that are no log or do not fit together, StoreError for what cannot be read or written.
    Nothing is left behind after an exception.
    """
    require_parser()
    logs = log_files(files, options.prefix)
    losses = Losses([each.path for each in logs])
    templates = Templates(anonymised=options.values is Values.ANONYMISED)
    with _work_folder(into) as folder, _database(folder, into) as connection:
        version = _load(connection, Work(logs, templates, losses, folder), progress)
        steps = find_sessions(connection, have_ids=_have_ids(logs))
        if steps is not None:
            losses.add_at("clock-set-back", steps[1], steps[0])
        check_one_server(connection, {number: str(each.path) for number, each in enumerate(logs)})
        database = choose_database(connection, options.database)
        find_statements(connection)
        _count_others(connection, losses)
        found = Found(database, version, options.values)
        partial = folder / STATEMENTS_FILE
        capture = write_table(connection, partial, found, templates, losses)
        partial.replace(into / STATEMENTS_FILE)
    return capture


def _have_ids(logs: Sequence[LogFile]) -> bool:
    return all(each.prefix is None or "key" in each.prefix.groups for each in logs)


# ---- reading ----


@dataclass(frozen=True, slots=True)
class Work:
    """What reading needs and fills."""

    logs: Sequence[LogFile]
    templates: Templates
    losses: Losses
    folder: Path


def _load(connection: duckdb.DuckDBPyConnection, work: Work, progress: Callable[[Progress], None]) -> str | None:
    """Fills `event_log`; returns the server's version if the log has it."""
    connection.execute(EVENTS)
    anonymiser = Anonymiser() if work.templates.anonymised else None
    cursors = [connection.cursor() for _ in range(WORKERS)]
    free: SimpleQueue[tuple[duckdb.DuckDBPyConnection, Path]] = SimpleQueue()
    for number, cursor in enumerate(cursors):
        free.put((cursor, work.folder / f"block-{number}"))
    waiting: deque[Future[_Loaded]] = deque()
    reader = _Reader(work, anonymiser, free)
    total = sum(each.size_bytes for each in work.logs)
    before = entries = 0
    with ThreadPoolExecutor(WORKERS, "capture") as pool:
        try:
            for number, log in enumerate(work.logs):
                for block in blocks(log, work.losses):
                    if len(waiting) == WORKERS:
                        reader.note(waiting.popleft().result())
                    waiting.append(pool.submit(reader.load, number, block))
                    entries += block.entries
                    progress(Progress(before + block.end_bytes, total, entries))
                before += log.size_bytes
            while waiting:
                reader.note(waiting.popleft().result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for cursor in cursors:
                cursor.interrupt()
            raise
    for cursor in cursors:
        cursor.close()
    return reader.version


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What a block had."""

    number: int
    left: list[tuple[str, int, int]]
    version: str | None


class _Reader:
    """Loads blocks in threads, and counts what is left out in the thread that waits for them."""

    def __init__(
        self,
        work: Work,
        anonymiser: Anonymiser | None,
        free: SimpleQueue[tuple[duckdb.DuckDBPyConnection, Path]],
    ) -> None:
        self._work, self._anonymiser, self._free = work, anonymiser, free
        self.version: str | None = None

    def load(self, number: int, block: Block) -> _Loaded:
        """Adds the events of `block` of file `number` to `event_log`."""
        cursor, file = self._free.get()
        try:
            cut = load_entries(cursor, self._work.logs[number], block, file)
            left = load_events(cursor)
            store_statements(cursor, number, self._work.templates, self._anonymiser)
            if cut:
                left.append(("cut", len(cut), min(cut)))
            return _Loaded(number, left, server_version(cursor))
        finally:
            self._free.put((cursor, file))

    def note(self, loaded: _Loaded) -> None:
        """Counts what a block did not have."""
        path = self._work.logs[loaded.number].path
        for reason, count, line in loaded.left:
            self._work.losses.add(reason, path, line, count)
        self.version = loaded.version or self.version


def _count_others(connection: duckdb.DuckDBPyConnection, losses: Losses) -> None:
    """Counts statements of other databases, and times without a statement."""
    row = connection.execute(
        "SELECT sum(statements)::BIGINT, min(first_place) FROM log_session WHERE statements > 0 AND NOT is_chosen"
    ).fetchone()
    if row is not None and row[0]:
        losses.add_at("other-database", row[1], row[0])
    row = connection.execute(
        "SELECT count(*) FILTER (kind = 'duration'), count(*) FILTER (kind = 'sent'),"
        " min(place) FILTER (kind = 'duration') FROM stream"
    ).fetchone()
    if row is not None and row[0] and not row[1]:
        losses.add_at("no-text", row[2], row[0])


# ---- the disk ----


@contextmanager
def _work_folder(into: Path) -> Iterator[Path]:
    """A folder for the time of the capture, on the disk of `into`, which is removed if it is new and stays empty."""
    is_new = not into.exists()
    with storing("write", into):
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
def _database(folder: Path, into: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "threads": WORKERS,
        "memory_limit": MEMORY_LIMIT,
        "temp_directory": str(folder),
        "preserve_insertion_order": False,
    }
    try:
        with duckdb.connect(str(folder / "events.duckdb"), config=config) as connection:
            yield connection
    except (duckdb.Error, OSError) as error:
        reason = str(error).strip().split("\n", 1)[0]
        full = isinstance(error, duckdb.OutOfMemoryException) or "No space left" in reason
        hint = (
            "make room, or choose another folder with --into: a capture needs about the size of the log"
            if full
            else None
        )
        raise StoreError(f"cannot write {into}: {reason}", hint=hint) from error
