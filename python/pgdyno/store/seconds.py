"""A trial by second as arrays: a large sweep has hundreds of thousands of seconds, too many for an object each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pgdyno.errors import StoreError
from pgdyno.store.parquet import MOST_READ
from pgdyno.store.safe_files import DAMAGED

if TYPE_CHECKING:
    import duckdb

Array = NDArray[np.float64]
MEASURE = "measure"
WARM_UP = "warm-up"
PHASES = (WARM_UP, MEASURE, "drain")
_COLUMNS = (
    "second", "from_us", "to_us", "phase", "succeeded", "failed", "latency_sum_ns", "p99_ns", "worker_cpu_us",
    "scripts",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Seconds:
    """The intervals of a trial in order, all scripts of an interval together; every array has a value for each."""

    second: Array
    """Its number (`IntervalRow.second`)."""
    from_us: Array
    to_us: Array
    """Since the start of measuring: the warm-up is negative."""
    phase: Array
    """Index into PHASES."""
    succeeded: Array
    failed: Array
    latency_sum_ns: Array
    """0 if unknown."""
    p99_ns: Array
    """NaN if nothing succeeded, or if there are several scripts."""
    worker_cpu_us: Array
    """NaN if unknown."""
    scripts: Array
    """How many scripts have a row."""

    @property
    def is_measured(self) -> NDArray[np.bool_]:
        """Return which intervals count."""
        return np.asarray(self.phase == PHASES.index(MEASURE))

    def __len__(self) -> int:
        return len(self.second)


NO_SECONDS = Seconds(*(np.empty(0) for _ in _COLUMNS))


def seconds_query(rows: str) -> str:
    """Return SQL for `fetched_seconds`; `rows` is the intervals of some trials."""
    whens = " ".join(f"WHEN '{phase}' THEN {at}" for at, phase in enumerate(PHASES))
    return f"""
        SELECT trial, second, arg_min(from_us, script) AS from_us, arg_min(to_us, script) AS to_us,
               arg_min(CASE phase {whens} ELSE {len(PHASES)} END, script) AS phase,
               sum(succeeded) AS succeeded, sum(failed) AS failed,
               coalesce(sum(latency_sum_ns), 0) AS latency_sum_ns,
               coalesce(CASE WHEN count(*) = 1 THEN max(p99_ns)::DOUBLE END, 'nan') AS p99_ns,
               coalesce(max(worker_cpu_us)::DOUBLE, 'nan') AS worker_cpu_us, count(*) AS scripts
        FROM {rows} GROUP BY trial, second ORDER BY trial, second
    """  # noqa: S608 - names of ours


def fetched_seconds(
    found: duckdb.DuckDBPyConnection, path: Path, begins_us: Mapping[int, int], most: int = MOST_READ
) -> dict[int, Seconds]:
    """Return the seconds of each trial in the result of `seconds_query`.

    `begins_us` has the start of each trial's load on the clock of timelines. Raises StoreError, which names `path`, for
    more than `most` of them, and for a trial that is not in it.
    """
    columns: Mapping[str, NDArray[Any]] = found.fetchnumpy()
    numbers, firsts = np.unique(columns["trial"], return_index=True)
    if len(columns["trial"]) > most:
        raise StoreError(
            f"cannot read {path}: more than {MOST_READ:,} seconds", hint="read fewer trials at a time, or use DuckDB"
        )
    other = next((int(number) for number in numbers if int(number) not in begins_us), None)
    if other is not None:
        raise StoreError(f"cannot read {path}: a table has rows of trial {other}, which does not exist", hint=DAMAGED)
    begins = np.repeat([begins_us[int(number)] for number in numbers], np.diff([*firsts, len(columns["trial"])]))
    arrays = [
        np.asarray(columns[name], dtype=np.float64) + (begins if name in ("from_us", "to_us") else 0)
        for name in _COLUMNS
    ]
    ends = [*firsts, len(columns["trial"])][1:]
    return {
        int(number): Seconds(*(array[first:end] for array in arrays))
        for number, first, end in zip(numbers, firsts, ends, strict=True)
    }
