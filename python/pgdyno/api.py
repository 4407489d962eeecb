"""What Python programs and notebooks read of a run: `pgdyno.open("latest").trials.pandas()`.

Columns and units are those of docs/reference/run-folder.md. pandas, Polars and pyarrow are imported by the methods of
that name alone, and none of them comes with pgdyno.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgdyno.errors import UsageError
from pgdyno.records import Manifest
from pgdyno.store import RunData, find_run, load_run
from pgdyno.store.read_runs import views
from pgdyno.units import quantity
from pgdyno.user_config import config_path, read_config

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    import pyarrow

    from pgdyno.analyse.histogram import LatencyHistogram

SHOWN_ROWS = 20
"""Rows of a table in a notebook."""
_SHOWN_IF_VARIED = ("protocol", "scale", "workers", "settings", "variables")
_HISTOGRAM_FIELDS = "run VARCHAR, trial INTEGER, script INTEGER, latency_ns BIGINT, count BIGINT"
_HISTOGRAMS = "histograms_by_bucket"


def open_run(run: str | os.PathLike[str] = "latest", *, runs: str | os.PathLike[str] | None = None) -> Run:
    """Open a run by its path, its name, the beginning of its name, its address on object storage, or `latest`.

    `runs` is the folder of run folders: by default PGDYNO_RUNS, else `runs` of config.toml, else pgdyno-runs, as for
    commands. Raises UsageError for the beginning of several names or a wrong config.toml, StoreError if there is no
    such run or it cannot be read.
    """
    folder = runs if runs is not None else _runs_folder()
    # a Path is a path even if it has no slash
    named = run if isinstance(run, str) else os.path.join(os.curdir, run)  # noqa: PTH118 - pathlib removes the "."
    return Run(load_run(find_run(named, Path(folder))))


def _runs_folder() -> str:
    # commands take an empty variable for none, too
    return os.environ.get("PGDYNO_RUNS") or read_config(config_path()).get("runs") or "pgdyno-runs"


class Run:
    """One run: its tables, its histograms, and SQL over both."""

    def __init__(self, data: RunData) -> None:
        self._data = data

    @property
    def name(self) -> str:
        """Return the name of the run's folder."""
        return self._data.folder.name

    @property
    def manifest(self) -> Manifest:
        """Return the run's record: plan, host, targets, versions, times."""
        return self._data.manifest

    @property
    def promises(self) -> list[dict[str, Any]]:
        """Return whether each promise of the plan was held, by arm and point, as `answer.promises` in JSON."""
        from pgdyno.report.answers.promises import judged_promises, promises_json
        from pgdyno.report.full_report import judged_run

        return promises_json(judged_promises(*judged_run(self._data)))

    @property
    def trials(self) -> Table:
        """Return a row per trial: target, point, repeat, outcome, tps, latencies in ns."""
        return self.sql("SELECT * FROM trials ORDER BY trial")

    @property
    def seconds(self) -> Table:
        """Return a row per trial, second and script: counts, and latencies in ns."""
        return self.sql("SELECT * FROM intervals ORDER BY trial, second, script")

    @property
    def series(self) -> Table:
        """Return the probe's samples of host and server: source, metric, labels, value; time in µs."""
        return self.sql("SELECT * FROM series ORDER BY trial, t_us")

    @property
    def waits(self) -> Table:
        """Return what sessions waited for, sample by sample."""
        return self.sql("SELECT * FROM waits ORDER BY trial, t_us")

    @property
    def statements(self) -> Table:
        """Return a row per statement of a script: executions, failures, latencies in ns."""
        return self.sql("SELECT * FROM statements ORDER BY trial, script, statement")

    @property
    def events(self) -> Table:
        """Return errors, checkpoints and other events, in order of time."""
        return self.sql("SELECT * FROM events ORDER BY trial, t_us")

    @property
    def settings(self) -> Table:
        """Return pg_settings during each trial."""
        return self.sql("SELECT * FROM settings ORDER BY trial, name")

    @property
    def histograms(self) -> Table:
        """Return latencies of measured parts: a row per trial, script and bucket (largest latency in ns, count)."""
        return self.sql(f"SELECT * FROM {_HISTOGRAMS} ORDER BY trial, script, latency_ns")  # noqa: S608 - our own name

    def histogram(self, trial: int) -> LatencyHistogram | None:
        """Return the latencies of all scripts in the measured part of trial number `trial`; None if nothing succeeded.

        Its `percentiles_ns([50, 99])` are exact to 0.1 %. Raises StoreError.
        """
        from pgdyno.analyse.histogram import merge

        return merge(self._data.histogram(trial).values())

    def sql(self, query: str) -> Table:
        """Return the answer of DuckDB to `query`, as `Table`.

        It may read `trials`, `intervals`, `histograms`, `statements`, `events`, `settings`, `series`, `waits`,
        `server_statements`, `query_plans`, `standby_series`, `standby_waits`, `cloud_series`, `cloud_events` and
        `histograms_by_bucket`.
        """
        return Table(query, self._data)

    def __repr__(self) -> str:
        return f"<pgdyno run {self.name}: {quantity(len(self._data.trials), 'trial')}>"

    def _repr_html_(self) -> str:
        varied = "".join(f" {name}," for name in self._varied_parameters())
        shown = self.sql(
            f"SELECT trial, target, clients,{varied} rate, repeat, outcome,"  # noqa: S608 - our own names
            f" {_round_figure('tps', 1)} AS tps, {_round_figure('latency_mean_ns / 1e6', 3)} AS mean_ms,"
            f" {_round_figure('p99_ns / 1e6', 3)} AS p99_ms"
            " FROM trials ORDER BY trial"
        )
        plan = escape(str(self.manifest.plan.get("name", "")))
        return f"<p><b>{escape(self.name)}</b> (plan {plan})</p>{shown._repr_html_()}"

    def _varied_parameters(self) -> list[str]:
        points = [trial.point for trial in self._data.trials]
        return [
            name
            for name in _SHOWN_IF_VARIED
            if any(getattr(point, name) != getattr(points[0], name) for point in points)
        ]


class Table:
    """The answer to a query, read when it is asked for.

    Polars, pyarrow and others take it as it is, by Arrow's PyCapsule interface: `polars.DataFrame(run.seconds)`.
    """

    def __init__(self, query: str, data: RunData) -> None:
        self._query, self._data = query, data

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns."""
        with self._relation() as relation:
            return list(relation.columns)

    def rows(self) -> list[dict[str, Any]]:
        """Return a dict per row. Raises UsageError if two columns have the same name."""
        with self._relation() as relation:
            repeated = [name for name, times in Counter(relation.columns).items() if times > 1]
            if repeated:
                raise UsageError(f"the query returns several columns named {repeated[0]}", hint="rename one by AS")
            return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]

    def pandas(self) -> pandas.DataFrame:
        """Return a pandas DataFrame. Raises UsageError without pandas."""
        _need("pandas")
        with self._relation() as relation:
            frame: pandas.DataFrame = relation.df()
            return frame

    def polars(self) -> polars.DataFrame:
        """Return a Polars DataFrame. Raises UsageError without Polars and pyarrow."""
        _need("polars", "pyarrow")
        with self._relation() as relation:
            frame: polars.DataFrame = relation.pl()
            return frame

    def arrow(self) -> pyarrow.Table:
        """Return a pyarrow Table. Raises UsageError without pyarrow."""
        _need("pyarrow")
        with self._relation() as relation:
            return relation.to_arrow_table()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.arrow().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        with self._relation() as relation:
            return len(relation)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    def __repr__(self) -> str:
        with self._relation() as relation:
            return f"<pgdyno table of {quantity(len(relation), 'row')}: {', '.join(relation.columns)}>"

    def _repr_html_(self) -> str:
        with self._relation() as relation:
            rows, count = relation.limit(SHOWN_ROWS).fetchall(), len(relation)
            head = "".join(f"<th>{escape(name)}</th>" for name in relation.columns)
        body = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in rows)
        more = f"<p>{SHOWN_ROWS} of {count:,} rows</p>" if count > SHOWN_ROWS else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"

    @contextmanager
    def _relation(self) -> Iterator[duckdb.DuckDBPyRelation]:
        with views([self._data.folder]) as connection:
            if _HISTOGRAMS in self._query:
                _buckets(connection, self._data)
            relation = connection.sql(self._query)
            if relation is None:
                raise UsageError("cannot run the query: it is empty")
            yield relation


def _buckets(connection: duckdb.DuckDBPyConnection, data: RunData) -> None:
    """Create the table of decoded histograms: SQL cannot decode them."""
    from pgdyno.analyse.histogram import merge

    connection.execute(f"CREATE TABLE {_HISTOGRAMS} ({_HISTOGRAM_FIELDS})")
    for row in data.histograms(totals=True):
        histogram = merge([row.histogram])
        if histogram is not None:
            connection.execute(
                f"INSERT INTO {_HISTOGRAMS} SELECT $run, $trial, $script, unnest($ns::BIGINT[]), unnest($n::BIGINT[])",
                {
                    "run": data.folder.name,
                    "trial": row.trial,
                    "script": row.script,
                    "ns": histogram.highest_ns.tolist(),
                    "n": histogram.counts.tolist(),
                },
            )


def _round_figure(figure: str, decimals: int) -> str:
    """Return the SQL that rounds `figure` to so many decimals, or to more for three significant digits."""
    return f"round({figure}, greatest({decimals}, 2 - floor(log10(greatest(abs({figure}), 1e-9)))::INTEGER))"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return quantity(len(value), "byte")
    if isinstance(value, Mapping):
        return escape(", ".join(f"{name}={each}" for name, each in value.items()))
    return escape(str(value))


def _need(*libraries: str) -> None:
    from importlib.util import find_spec

    missing = [name for name in libraries if find_spec(name) is None]
    if missing:
        raise UsageError(f"{' and '.join(missing)} not installed", hint=f"pip install {' '.join(missing)}")
