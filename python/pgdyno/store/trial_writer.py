"""One trial on its way into a run folder: the engine's events on disk, then as rows, all of it or nothing."""

import base64
import binascii
import gzip
import json
import shutil
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, overload

from pgdyno.errors import StoreError
from pgdyno.records import PlacedLines, TrialRecord
from pgdyno.store.parquet import write_batches, write_tables
from pgdyno.store.probe_tables import write_probed
from pgdyno.store.run_folder import RECORD, is_worth_keeping, partial_path
from pgdyno.store.safe_files import open_new, store_errors, sync, sync_tree, write_durably
from pgdyno.store.trial_tables import (
    TOTAL,
    EventRow,
    HistogramRow,
    IntervalRow,
    QueryPlanRow,
    Row,
    SettingRow,
    StatementRow,
)

Event = dict[str, Any]


def event_line(event: Event) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


class EventSpool:
    """Keeps events in the order in which they come; `events` reads them back."""

    def __init__(self, path: Path) -> None:
        """Create the file `path`. Raises StoreError."""
        self._path = path
        with store_errors("write", path):
            self._file = open_new(path)
        self._ends = array("q")
        self._events = _Spooled(path, self._ends)

    @property
    def events(self) -> Sequence[Event]:
        """The events so far, which are read from the file each time; valid until `remove`."""
        return self._events

    def append(self, event: Event) -> None:
        """Write `event`. Raises StoreError."""
        line = event_line(event)
        with store_errors("write", self._path):
            self._file.write(line)
            self._file.flush()
        self._ends.append((self._ends[-1] if self._ends else 0) + len(line))

    def close(self) -> None:
        """Close the file, which stays readable; nothing can be appended any more."""
        with suppress(OSError):
            # what a full disk refused is still in the buffer; `append` has reported it
            self._file.close()

    def remove(self) -> None:
        """Remove the file. Raises OSError."""
        self.close()
        self._path.unlink(missing_ok=True)


class _Spooled(Sequence[Event]):
    """Events of a file of which only the places of the lines are in memory."""

    def __init__(self, path: Path, ends: Sequence[int]) -> None:
        self._path = path
        self._ends = ends

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[Event]:
        with store_errors("read", self._path), self._path.open("rb") as file:
            for line in file:
                yield json.loads(line)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        begin = self._ends[place - 1] if place else 0
        with store_errors("read", self._path), self._path.open("rb") as file:
            file.seek(begin)
            event: Event = json.loads(file.read(self._ends[place] - begin))
        return event


ROWS_AT_ONCE = 5_000
"""Rows of a trial that are in memory at once while it is stored; with their histograms, some 20 MB."""
_OF_EVENT = frozenset({"event", "t_us", "client", "script", "command", "sqlstate", "message"})
"""Fields with columns of their own."""
_COUNTS = ("succeeded", "failed", "skipped", "retried", "retries")
_LATENCIES = {
    "latency_sum_ns": "sum",
    "latency_mean_ns": "mean",
    "latency_min_ns": "min",
    **{f"{name}_ns": name for name in ("p50", "p95", "p99", "p999")},
    "latency_max_ns": "max",
}
"""Columns, and the figures of `latency_ns` that they have."""
_ELSEWHERE = {"start": frozenset({"scripts"}), "end": frozenset({"scripts", "histogram", "phases", "ledger"})}
"""Fields that the other tables contain."""


@dataclass(slots=True)
class TrialTables:
    """Rows of one trial."""

    intervals: list[IntervalRow] = field(default_factory=list)
    histograms: list[HistogramRow] = field(default_factory=list)
    statements: list[StatementRow] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Whether the rows should be written before there are more."""
        return len(self.intervals) + len(self.events) >= ROWS_AT_ONCE

    def as_mapping(self) -> dict[str, Sequence[Row]]:
        """Return the rows by the names of their tables."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


def ingest(trial: int, events: Iterable[Event]) -> Iterator[TrialTables]:
    """Yield the rows of trial number `trial` in batches, at least one; a truncated stream yields what it contains.

    Every script has a row in every second, even if none of its transactions ended: a stall is zeros, not a gap. Raises
    StoreError for an event that lacks a required field.
    """
    tables = TrialTables()
    scripts: list[Event] = []
    for event in events:
        if tables.is_full:
            yield tables
            tables = TrialTables()
        kind = event.get("event")
        try:
            if kind == "interval":
                _interval(tables, trial, event, [script["id"] for script in scripts])
                continue
            if kind == "start":
                scripts = event["scripts"]
            elif kind == "end":
                _end(tables, trial, event, scripts)
            tables.events.append(_event(trial, event))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreError(
                f"the engine's {kind} event at {event.get('t_us')} us cannot be stored: {error!r}"
            ) from error
    yield tables


def _interval(tables: TrialTables, trial: int, event: Event, known: Sequence[int]) -> None:
    by_script: dict[int, Event] = {script: {} for script in known}
    by_script |= {script["script"]: script for script in event["scripts"]}
    cpu_us = sum(worker["cpu_us"] for worker in event["workers"])
    for number, script in by_script.items():
        tables.intervals.append(
            IntervalRow(
                trial=trial,
                second=event["seq"],
                script=number,
                **{name: event[name] for name in ("from_us", "to_us", "phase", "in_flight", "clients")},
                **{name: script.get(name, 0) for name in _COUNTS},
                **_latencies(IntervalRow, script),
                worker_cpu_us=cpu_us,
                phase_name=_text(event.get("phase_name")),
            )
        )
        _histogram(tables, trial, event["seq"], event["phase"], number, script.get("histogram"))


def _histogram(tables: TrialTables, trial: int, second: int, phase: str, script: int, text: str | None) -> None:
    if text is None:
        return
    try:
        blob = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        # keep it as received: it does not invalidate the trial, and decoding it reports the error
        blob = text.encode()
    tables.histograms.append(HistogramRow(trial, second, phase, script, blob))


def _end(tables: TrialTables, trial: int, event: Event, scripts: Sequence[Event]) -> None:
    in_start = {script["id"]: {each["id"]: each for each in script["statements"]} for script in scripts}
    # an engine that never started to measure has no scripts here
    for script in event.get("scripts") or ():
        number = script["script"]
        _histogram(tables, trial, TOTAL, "measure", number, script.get("histogram"))
        done = {each["id"]: each for each in script.get("statements") or ()}
        # the statements of a Lua script are known only after they were sent
        named = {id_: each for id_, each in done.items() if "text" in each}
        for id_, statement in (in_start.get(number, {}) | named).items():
            tables.statements.append(_statement(trial, number, statement, done.get(id_, {})))


def _statement(trial: int, script: int, statement: Event, done: Event) -> StatementRow:
    return StatementRow(
        trial=trial,
        script=script,
        statement=statement["id"],
        line=statement.get("line", 0),
        text=_text(statement["text"]) or "",
        executions=done.get("executions", 0),
        failures=done.get("failures", 0),
        **_latencies(StatementRow, done),
        rows=done.get("rows"),
    )


def _latencies(row: type[Row], measured: Event) -> dict[str, Any]:
    """Return the columns of `row` with figures of `latency_ns`."""
    latency = measured.get("latency_ns") or {}
    return {column: latency.get(name) for column, name in _LATENCIES.items() if column in row.__dataclass_fields__}


def _event(trial: int, event: Event) -> EventRow:
    left_out = _OF_EVENT | _ELSEWHERE.get(event["event"], frozenset())
    rest = {name: value for name, value in event.items() if name not in left_out}
    for name in ("client", "script", "command"):
        # an unknown kind of event may use these names for something else
        if name in event and not isinstance(event[name], (int, type(None))):
            rest[name] = event[name]
    return EventRow(
        trial=trial,
        t_us=event["t_us"],
        kind=str(event["event"]),
        client=_number(event.get("client")),
        script=_number(event.get("script")),
        command=_number(event.get("command")),
        sqlstate=_text(event.get("sqlstate")),
        message=_text(event.get("message")),
        detail=json.dumps(rest, separators=(",", ":")),
    )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _text(value: object) -> str | None:
    """Return `value` as storable text: JSON may contain unpaired surrogates, UTF-8 may not."""
    return None if value is None else str(value).encode("utf-8", "replace").decode("utf-8")


class TrialWriter:
    """Gathers a trial in `.<slug>.partial` next to `trials/`; `commit` renames it.

    The partial folder is not below `trials/`, because patterns such as `*/trials/*/intervals.parquet` would match it
    even with a dot.
    """

    def __init__(self, run: Path, slug: str) -> None:
        """Create the partial folder in the run folder `run`. Raises StoreError if the trial exists."""
        self.slug = slug
        self.final = run / "trials" / slug
        self.partial = partial_path(run, slug)
        self.log = self.partial / "log"
        """Folder of logs, which are written directly."""
        self.phases = self.partial / "phases.toml"
        """Phases in the engine's format, if the plan has some."""
        self.probe_lines = self.partial / "probe.jsonl"
        """The probe's output; other probes add a suffix. The completed trial has it in tables."""
        self._spools: list[EventSpool] = []
        with store_errors("make the folder", self.partial):
            if self.final.exists():
                raise StoreError(f"cannot store trial {slug}: {self.final} exists already")
            self.partial.mkdir()
            self.log.mkdir()

    def commit(
        self,
        record: TrialRecord,
        *,
        events: Iterable[Event],
        settings: Sequence[tuple[str, str | None, str | None, str | None]],
        probed: Sequence[PlacedLines] = (),
        query_plans: Sequence[QueryPlanRow] = (),
    ) -> Path:
        """Write everything, flush it to disk and rename it; return the final folder.

        `events` are the engine's, parsed; `settings` are name, setting, unit and source of pg_settings; `probed` are
        the probes' files whose samples can be placed in time; without `query_plans`, there is no such table.
        Raises StoreError; the trial is then still partial.
        """
        with store_errors("write", self.partial), self._open_log("events") as log:
            rows = ingest(record.number, _copy_events(events, log))
            write_batches(self.partial, TrialTables().as_mapping(), (each.as_mapping() for each in rows))
        if probed:
            with store_errors("write", self.partial):
                write_probed(self.partial, record.number, probed)
        tables: dict[str, Sequence[Row]] = {"settings": [SettingRow(record.number, *each) for each in settings]}
        if query_plans:
            tables["query_plans"] = query_plans
        return self._complete(record, tables, is_durable=True, is_probed=bool(probed))

    def commit_tables(
        self, record: TrialRecord, rows: TrialTables, settings: Sequence[SettingRow] = (), *, probed: bool = False
    ) -> Path:
        """Like `commit`, for existing rows, such as imported ones. Raises StoreError.

        The caller flushes many trials together. `probed`: the probe's tables are already written.
        """
        return self._complete(record, {**rows.as_mapping(), "settings": settings}, is_durable=False, is_probed=probed)

    def _complete(
        self, record: TrialRecord, tables: Mapping[str, Sequence[Row]], *, is_durable: bool, is_probed: bool
    ) -> Path:
        unprobed: dict[str, Sequence[Row]] = {"series": [], "waits": [], "server_statements": []}
        with store_errors("write", self.partial):
            write_tables(self.partial, {**tables, **({} if is_probed else unprobed)})
            content = (record.model_dump_json(indent=2) + "\n").encode()
            if is_durable:
                with store_errors("write", self.partial / RECORD):
                    write_durably(self.partial / RECORD, content)
                self._remove_raw()
                sync_tree(self.partial)
            else:
                (self.partial / RECORD).write_bytes(content)
            if self.final.exists():
                raise StoreError(f"cannot store trial {self.slug}: {self.final} exists already")
            self.partial.rename(self.final)
            if is_durable:
                sync(self.final.parent)
                sync(self.partial.parent)
        return self.final

    def _remove_raw(self) -> None:
        """Remove what the tables contain now; after an error before, it is what `leave` keeps. Raises OSError."""
        for lines in self.partial.glob(f"{self.probe_lines.name}*"):
            lines.unlink()
        for spool in self._spools:
            spool.remove()

    def spool(self, name: str) -> EventSpool:
        """Create a file for an engine's events, which a completed trial has in tables. Raises StoreError."""
        spool = EventSpool(self.partial / f"{name}.jsonl")
        self._spools.append(spool)
        return spool

    def leave(self) -> None:
        """End a trial that did not come to its end: remove the partial folder unless it is worth keeping.

        A run that is resumed sets aside what was kept.
        """
        for spool in self._spools:
            spool.close()
        with suppress(OSError):
            if is_worth_keeping(self.partial):
                return
        self.abandon()

    def abandon(self) -> None:
        """Remove the partial folder; a committed trial stays."""
        for spool in self._spools:
            spool.close()
        shutil.rmtree(self.partial, ignore_errors=True)

    def keep_events(self, name: str, events: Iterable[Event]) -> None:
        """Write `events` of an engine unchanged into `log/<name>.jsonl.gz`. Raises StoreError."""
        with self._open_log(name) as log:
            for _ in _copy_events(events, log):
                pass

    @contextmanager
    def _open_log(self, name: str) -> Iterator[gzip.GzipFile]:
        path = self.log / f"{name}.jsonl.gz"
        # without a name and a timestamp, the same events give the same file
        with store_errors("write", path), open_new(path) as file, gzip.GzipFile("", "wb", 5, file, mtime=0) as log:
            yield log


def _copy_events(events: Iterable[Event], log: gzip.GzipFile) -> Iterator[Event]:
    for event in events:
        log.write(event_line(event))
        yield event
