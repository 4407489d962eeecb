"""A profile of a server: where its processes spent their CPU time during an extra load."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pgdyno.records.base import Record
from pgdyno.records.measured import Point

MOST_SAMPLES = 10**12
"""The largest number of samples in a record: 99 a second of 10,000 processors for ten days."""
Samples = Annotated[int, Field(ge=0, le=MOST_SAMPLES)]


class ProfileRecord(Record):
    """One profile: the stacks of a target's processes, at the point of an arm with the highest throughput."""

    target: str
    point: Point
    file: str
    """Path of its folded stacks in the run folder."""
    event: str
    """What perf counted, in perf's words: `cycles:P`, `cpu-clock:ppp`. A `u` after the colon: without the kernel."""
    hz: Annotated[int, Field(ge=1, le=100_000)]
    samples: Annotated[Samples, Field(ge=1)]
    unresolved: Samples
    """Samples in a function without a symbol."""
    tps: float
    """Under perf, in one short load."""
    tps_median: float
    """Median of the trials at the same point without perf."""
