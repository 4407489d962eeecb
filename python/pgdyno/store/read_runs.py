"""Reads runs: records, and tables through DuckDB."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pgdyno.effect import Effect, effect_of_sql
from pgdyno.errors import StoreError, UsageError
from pgdyno.records import Manifest, TrialRecord
from pgdyno.records.secret_values import kept_value
from pgdyno.store.duckdb_session import connect, quote_text, session
from pgdyno.store.kept_capture import read_capture_of
from pgdyno.store.parquet import MOST_READ, checked_columns, fetched_rows, table_query
from pgdyno.store.probe_tables import (
    AMOUNTS,
    FILES_AT_ONCE,
    SAMPLES,
    SESSIONS,
    SHARES,
    Metric,
    Shares,
    Stretch,
    Stretches,
    rows_within,
)
from pgdyno.store.run_folder import RunFolder, kept_text
from pgdyno.store.safe_files import DAMAGED, store_errors
from pgdyno.store.trial_tables import (
    TABLES,
    TOTAL,
    EventRow,
    HistogramRow,
    IntervalRow,
    QueryPlanRow,
    Row,
    SeriesRow,
    SettingRow,
    StatementRow,
    WaitRow,
    columns,
)

if TYPE_CHECKING:
    import duckdb

    from pgdyno.store.seconds import Seconds

_Amounts = Mapping[int, Mapping[Metric, float]]
"""By number of the stretch."""
_RowT = TypeVar("_RowT", IntervalRow, HistogramRow, StatementRow, EventRow, SettingRow, SeriesRow, WaitRow)


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """A query plan of a statement, with the trials before which EXPLAIN showed it."""

    text: str
    shape: str
    plan: str
    places: Sequence[tuple[int, int, int]]
    """Trial, script, and number of the command in the script."""

    def renumber(self, number: Callable[[int], int]) -> KeptPlan:
        """Return the plan with other numbers of trials."""
        return replace(self, places=[(number(trial), script, command) for trial, script, command in self.places])


@dataclass(frozen=True)
class RunData:
    """One run: its records, and its tables on request."""

    folder: RunFolder
    trials: Sequence[TrialRecord] = field(repr=False)
    """Completed trials, by number."""
    timelines: dict[tuple[int, bool], Any] = field(default_factory=dict, repr=False, compare=False)
    """The timelines that `analyse` has computed, by trial and whether with percentiles."""
    _amounts: dict[tuple[Metric, ...], dict[tuple[int, tuple[Stretch, ...]], _Amounts]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @property
    def manifest(self) -> Manifest:
        return self.folder.manifest

    def intervals(self, trial: int | None = None) -> list[IntervalRow]:
        """Return rows of trial number `trial`, or of all, by trial, second and script, on the clock of timelines
        (`TrialRecord.load_begins_us`). Raises StoreError.
        """
        return self._rows(IntervalRow, trial, order="trial, second, script")

    def seconds(self, trial: int) -> Seconds:
        """Return the seconds of trial number `trial`, its scripts together, on the clock of timelines; empty if it has
        none. Raises StoreError.
        """
        # numpy takes longer to load than listing runs
        from pgdyno.store.seconds import NO_SECONDS

        return self._seconds.get(trial, NO_SECONDS)

    @cached_property
    def _seconds(self) -> Mapping[int, Seconds]:
        from pgdyno.store.seconds import fetched_seconds, seconds_query

        paths = [path / "intervals.parquet" for path in self._paths.values()]
        seconds: dict[int, Seconds] = {}
        with store_errors("read", self.folder.path), session() as connection:
            for at in range(0, len(paths), FILES_AT_ONCE):
                rows = _parquet(paths[at : at + FILES_AT_ONCE], IntervalRow)
                most = MOST_READ - sum(map(len, seconds.values()))
                found = connection.execute(seconds_query(rows))
                seconds |= fetched_seconds(found, self.folder.path, self._begins_us, most)
        return seconds

    def histograms(self, trial: int | None = None, *, totals: bool | None = None) -> list[HistogramRow]:
        """Return only histograms of whole measured parts (`totals`) or only those of seconds. Raises StoreError."""
        if totals and trial in self._paths:
            return self._totals.get(trial, [])
        where = "true" if totals is None else f"(second = {TOTAL}) = {totals}"
        return self._rows(HistogramRow, trial, order="trial, second, script", where=where)

    def histogram(self, trial: int) -> dict[int, bytes]:
        """Return the histogram of the whole measured part of trial number `trial`, by script. Raises StoreError."""
        return {row.script: row.histogram for row in self.histograms(trial, totals=True)}

    def statements(self, trial: int | None = None) -> list[StatementRow]:
        """Return statements in the order of their scripts. Raises StoreError."""
        if trial is None:
            return [row for rows in self._statements.values() for row in rows]
        return (
            self._statements.get(trial, []) if trial in self._paths else self._rows(StatementRow, trial, order="trial")
        )

    # a file per trial and query would take seconds for a hundred trials

    @cached_property
    def _statements(self) -> Mapping[int, list[StatementRow]]:
        return _by_trial(self._rows(StatementRow, None, order="trial, script, statement"))

    @cached_property
    def _totals(self) -> Mapping[int, list[HistogramRow]]:
        return _by_trial(self._rows(HistogramRow, None, order="trial, script", where=f"second = {TOTAL}"))

    @cached_property
    def _events(self) -> list[EventRow]:
        return self._rows(EventRow, None, order="trial, t_us")

    def effect_of_script(self, name: str) -> Effect | None:
        """Return the effect of a script of the workload by the text that the run kept; None if it kept none."""
        capture = self.manifest.capture
        script = next((each for each in self.manifest.scripts or () if each.name == name), None)
        try:
            if capture is not None and capture.statements_sha256 is not None:
                replayed = read_capture_of(self.folder.path)
                return Effect.UNKNOWN if replayed is None else replayed.effect
            if script is None:
                return None
            return Effect.UNKNOWN if name.endswith(".lua") else effect_of_sql(kept_text(self.folder.path, script))
        except StoreError:
            return Effect.UNKNOWN

    def events(self, trial: int | None = None) -> list[EventRow]:
        """Return the engine's other events, unchanged. Raises StoreError."""
        return self._events if trial is None else self._rows(EventRow, trial, order="trial, t_us")

    def settings(self, trial: int | None = None, names: Sequence[str] = ()) -> list[SettingRow]:
        """Return the server's settings, by name; only `names` if given. Raises StoreError."""
        if trial is not None or not self._paths:
            where = f"name IN ({', '.join(map(quote_text, names))})" if names else "true"
            rows = self._rows(SettingRow, trial, order="trial, name", where=where)
            return [replace(row, setting=row.setting and kept_value(row.name, row.setting)) for row in rows]
        by_trial: dict[int, list[SettingRow]] = {number: [] for number in self._paths}
        for numbers, name, value, unit, source in self._settings:
            # runs of earlier versions have secrets
            kept = value and kept_value(name, value)
            for number in numbers if not names or name in names else ():
                by_trial[number].append(SettingRow(number, name, kept, unit, source))
        return [row for rows in by_trial.values() for row in rows]

    def unmasked_settings(self) -> set[int]:
        """Return the trials whose table of settings has secrets, as earlier versions wrote them. Raises StoreError."""
        secret = (numbers for numbers, name, value, *_ in self._settings if value and kept_value(name, value) != value)
        return set().union(*secret)

    @cached_property
    def _settings(self) -> Sequence[tuple[Any, ...]]:
        paths = [path / "settings.parquet" for path in self._paths.values()]
        fields = "name, setting, unit, source"
        sql = f"SELECT list(trial), {fields} FROM {_parquet(paths, SettingRow)} GROUP BY ALL ORDER BY name"  # noqa: S608
        with store_errors("read", self.folder.path), session() as connection:
            found = connection.execute(sql).fetchall()
        self._refuse_unknown(set().union(*(numbers for numbers, *_ in found)), "settings")
        return found

    def series(self, trial: int | None = None, sources: Sequence[str] = ()) -> list[SeriesRow]:
        """Return the probe's samples in order of time; only of `sources` if given. Raises StoreError.

        Empty for a trial without a probe, and for folders from before probes existed.
        """
        where = f"source IN ({', '.join(map(quote_text, sources))})" if sources else "true"
        return self._rows(SeriesRow, trial, order="trial, t_us", where=where)

    def waits(self, trial: int | None = None) -> list[WaitRow]:
        """Return the samples of waits; empty if `series` is. Raises StoreError."""
        return self._rows(WaitRow, trial, order="trial, t_us")

    def amounts_within(
        self, stretches: Stretches, wanted: Sequence[Metric]
    ) -> dict[tuple[int, int], Mapping[Metric, float]]:
        """Return the increase of counters, by trial and stretch; nothing without a sample. Raises StoreError."""
        # the audit and the comparison need the same ones
        known = self._amounts.setdefault(tuple(wanted), {})
        missing = {trial: spans for trial, spans in stretches.items() if (trial, tuple(spans)) not in known}
        read: dict[tuple[int, int], dict[Metric, float]] = {}
        for trial, place, source, metric, value in rows_within(self._files("series"), missing, AMOUNTS, wanted):
            read.setdefault((trial, place), {})[source, metric] = value
        for trial, spans in missing.items():
            known[trial, tuple(spans)] = {at: read[trial, at] for at in range(len(spans)) if (trial, at) in read}
        return {
            (trial, at): amounts
            for trial, spans in stretches.items()
            for at, amounts in known[trial, tuple(spans)].items()
        }

    def shares_within(self, stretches: Stretches, wanted: Sequence[Metric]) -> Shares:
        """Return means over time of the probe's shares, by trial and number of the stretch. Raises StoreError."""
        found: dict[tuple[int, int], tuple[float, dict[Metric, float]]] = {}
        rows = rows_within(self._files("series"), stretches, SHARES, wanted)
        for trial, place, length_us, source, metric, share in rows:
            found.setdefault((trial, place), (length_us, {}))[1][source, metric] = share
        return found

    def series_within(self, stretches: Stretches, wanted: Sequence[Metric]) -> list[SeriesRow]:
        """The probe's figures of some metrics within stretches, by trial and time. Raises StoreError."""
        return [SeriesRow(*values) for values in rows_within(self._files("series"), stretches, SAMPLES, wanted)]

    def sessions_within(self, stretches: Stretches) -> dict[tuple[int, int], tuple[int, list[WaitRow]]]:
        """Look at sessions, and what these waited for, added up over all looks, by trial and number of its stretch.

        Nothing without a look. Raises StoreError.
        """
        found: dict[tuple[int, int], tuple[int, list[WaitRow]]] = {}
        rows = rows_within(self._files("waits"), stretches, SESSIONS)
        for trial, place, looks, backend, kind, wait, sessions in rows:
            begin_us = stretches[trial][place][0]
            row = WaitRow(trial, begin_us, 0, backend, kind, wait, None, sessions)
            found.setdefault((trial, place), (looks, []))[1].append(row)
        return found

    def query_plans(self) -> list[KeptPlan]:
        """Return the plans of statements, each once; empty if the run kept none. Raises StoreError."""
        return self._query_plans

    @cached_property
    def _query_plans(self) -> list[KeptPlan]:
        paths = _files(list(self._paths.values()), "query_plans")
        if not paths:
            return []
        sql = (
            "SELECT text, shape, arg_min(plan, trial), list(trial), list(script), list(statement)"  # noqa: S608
            f" FROM {_parquet(paths, QueryPlanRow)} WHERE shape IS NOT NULL GROUP BY text, shape"
            " ORDER BY min(trial), min(script), min(statement), shape"
        )
        found = []
        with store_errors("read", self.folder.path), session() as connection:
            for text, shape, plan, *places in fetched_rows(connection.execute(sql), self.folder.path):
                self._refuse_unknown(places[0], "query plans")
                found.append(KeptPlan(text, shape, plan or "", tuple(zip(*places, strict=True))))
        return found

    def _refuse_unknown(self, trials: Iterable[int], what: str) -> None:
        other = next((trial for trial in trials if trial not in self._paths), None)
        if other is not None:
            raise StoreError(
                f"cannot read {self.folder.path}: {what} of trial {other}, which is not there", hint=DAMAGED
            )

    def query(self, sql: str) -> QueryResult:
        """Run `sql` on this run; see `query`."""
        return query(sql, [self.folder])

    @cached_property
    def _paths(self) -> dict[int, Path]:
        return {record.number: self.folder.trials_path / record.slug for record in self.trials}

    @cached_property
    def _begins_us(self) -> dict[int, int]:
        return {record.number: record.load_begins_us for record in self.trials}

    def _files(self, name: str) -> dict[int, Path]:
        return {number: path / f"{name}.parquet" for number, path in self._paths.items()}

    def _rows(self, row: type[_RowT], trial: int | None, *, order: str, where: str = "true") -> list[_RowT]:
        name = next(name for name, each in TABLES.items() if each is row)
        if trial is not None and trial not in self._paths:
            raise StoreError(f"run {self.folder.name} has no trial {trial}")
        folders = list(self._paths.values()) if trial is None else [self._paths[trial]]
        paths = _files(folders, name)
        if not paths:
            return []
        names = ", ".join(columns(row))
        if row is IntervalRow:
            cases = (f"WHEN {number} THEN {us}" for number, us in self._begins_us.items() if trial in (None, number))
            begins = f"CASE trial {' '.join(cases)} END"
            names = names.replace("from_us, to_us", f"from_us + {begins}, to_us + {begins}")
        known = self._paths if trial is None else (trial,)
        # the sort is stable: samples of the same microsecond keep their order
        sql = f"SELECT {names} FROM {_parquet(paths, row)} WHERE {where} ORDER BY {order}, file_row_number"  # noqa: S608
        with store_errors("read", paths[0] if trial is not None else self.folder.path), session() as connection:
            return [row(*values) for values in fetched_rows(connection.execute(sql), self.folder.path, known)]


def _by_trial(rows: Iterable[_RowT]) -> Mapping[int, list[_RowT]]:
    found: dict[int, list[_RowT]] = defaultdict(list)
    for row in rows:
        found[row.trial].append(row)
    return found


@dataclass(frozen=True, slots=True)
class QueryResult:
    """A table that a query returned."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


def load_run(run: Path | RunFolder) -> RunData:
    """Load the run at a path. Raises StoreError if it or one of its trials cannot be read."""
    folder = run if isinstance(run, RunFolder) else RunFolder.open(run)
    return RunData(folder, tuple(folder.trials()))


def query(sql: str, runs: Sequence[Path | RunFolder]) -> QueryResult:
    """Run `sql` (DuckDB's dialect) over all `runs`; `views` names what it may read.

    Raises UsageError for SQL that DuckDB rejects, StoreError for runs that cannot be read.
    """
    with views(runs) as connection:
        result = connection.execute(sql)
        if result is None:
            raise UsageError("cannot run the query: it is empty")
        described = cast("list[tuple[Any, ...]]", result.description or [])
        return QueryResult([column[0] for column in described], result.fetchall())


@contextmanager
def views(runs: Sequence[Path | RunFolder]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a database that has all tables of `runs`.

    Views: `intervals`, `histograms`, `statements`, `events`, `settings`, `series`, `waits`, `server_statements`,
    `query_plans`, `standby_series`, `standby_waits`, `cloud_series` and `cloud_events`, each with the run's name as
    `run` before the columns of run-folder.md, and `trials`: run, trial, slug, target, the point's parameters, repeat,
    outcome, tps and latencies.

    Raises UsageError for SQL that DuckDB rejects inside, StoreError for runs that cannot be read.
    """
    import duckdb

    folders = [run if isinstance(run, RunFolder) else RunFolder.open(run) for run in runs]
    with connect() as connection:
        with store_errors("read", folders[0].path if folders else Path()):
            for name, row in TABLES.items():
                _view(connection, name, row, folders)
            _trials_table(connection, folders)
        try:
            yield connection
        except duckdb.IOException as error:
            raise StoreError(f"cannot read the runs: {error}") from error
        except duckdb.Error as error:
            raise UsageError(f"cannot run the query: {error}") from error


def _view(connection: duckdb.DuckDBPyConnection, name: str, row: type[Row], folders: Sequence[RunFolder]) -> None:
    types = columns(row)
    parts = []
    for folder in folders:
        paths = _files(folder.trial_paths(), name)
        if paths:
            parts.append(f"SELECT {quote_text(folder.name)} AS run, {', '.join(types)} FROM {_parquet(paths, row)}")  # noqa: S608
    if not parts:
        nulls = ", ".join(f"NULL::{sql_type} AS {column}" for column, sql_type in types.items())
        parts = [f"SELECT NULL::VARCHAR AS run, {nulls} WHERE false"]
    connection.execute(f"CREATE VIEW {name} AS {' UNION ALL '.join(parts)}")


_ALWAYS = ("intervals", "histograms", "statements", "events", "settings")


def _files(trials: Sequence[Path], name: str) -> list[Path]:
    """Return the table `name` of `trials`; a probe's only where they exist: earlier versions had none."""
    paths = [trial / f"{name}.parquet" for trial in trials]
    return paths if name in _ALWAYS else [path for path in paths if path.exists()]


def _parquet(paths: Sequence[Path], row: type[Row]) -> str:
    files = table_query(paths, "union_by_name = true, file_row_number = true")
    # earlier versions wrote fewer columns: those are null
    known = ", ".join(f"NULL::{sql_type} AS {column}" for column, sql_type in columns(row).items())
    every = f"(FROM {files} UNION ALL BY NAME SELECT {known} WHERE false)"
    return f"(SELECT {checked_columns(row)}, file_row_number FROM {every})"  # noqa: S608 - names of ours


_TRIALS = {
    "run": "VARCHAR", "trial": "INTEGER", "slug": "VARCHAR", "target": "VARCHAR", "clients": "INTEGER",
    "workers": "INTEGER", "protocol": "VARCHAR", "scale": "INTEGER", "repeat": "INTEGER", "outcome": "VARCHAR",
    "tps": "DOUBLE", "succeeded": "BIGINT", "failed": "BIGINT", "latency_mean_ns": "DOUBLE", "p50_ns": "BIGINT",
    "p95_ns": "BIGINT", "p99_ns": "BIGINT", "rate": "DOUBLE", "settings": "MAP(VARCHAR, VARCHAR)",
    "variables": "MAP(VARCHAR, VARCHAR)", "step": "VARCHAR", "client_group": "VARCHAR",
    "groups": "MAP(VARCHAR, VARCHAR)", "connect": "VARCHAR",
}  # fmt: skip


def _trials_table(connection: duckdb.DuckDBPyConnection, folders: Sequence[RunFolder]) -> None:
    rows = [_trial_row(folder.name, record) for folder in folders for record in folder.trials()]
    defined = ", ".join(f"{name} {sql_type}" for name, sql_type in _TRIALS.items())
    connection.execute(f"CREATE TABLE trials ({defined})")
    lists = ", ".join(f"unnest(${name}::{sql_type}[])" for name, sql_type in _TRIALS.items())
    connection.execute(f"INSERT INTO trials SELECT {lists}", {name: [row[name] for row in rows] for name in _TRIALS})


def _trial_row(run: str, record: TrialRecord) -> dict[str, Any]:
    point, summary = record.point, record.summary
    latency = summary.latency_ns if summary else None
    row = {name: getattr(record, name) for name in ("slug", "target", "repeat")}
    parameters = ("clients", "workers", "protocol", "scale", "rate", "step", "connect")
    row |= {name: getattr(point, name) for name in parameters}
    row |= {name: _map(getattr(point, name)) for name in ("settings", "variables", "groups")}
    row |= {name: getattr(summary, name, None) for name in ("tps", "succeeded", "failed")}
    row |= {f"{name}_ns": getattr(latency, name, None) for name in ("p50", "p95", "p99")}
    return row | {
        "run": run,
        "trial": record.number,
        "outcome": record.outcome.value,
        "latency_mean_ns": latency.mean if latency else None,
        "client_group": point.group,
    }


def _map(values: Mapping[str, str]) -> dict[str, list[str]]:
    return {"key": list(values), "value": list(values.values())}
