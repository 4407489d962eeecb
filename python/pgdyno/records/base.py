"""The base of all records, and the outcomes of a trial."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

FORMAT = 1
"""Version of the run folder that this code writes."""


EARLIEST, LATEST = 1970, 2200
"""Years in which a run may have been made."""


def _instant(value: datetime) -> datetime:
    if not EARLIEST <= value.year <= LATEST:
        raise ValueError(f"the year {value.year} is not between {EARLIEST} and {LATEST}")
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


Instant = Annotated[datetime, AfterValidator(_instant)]
"""A time in the years from EARLIEST to LATEST; UTC if it has no zone."""


class Record(BaseModel):
    """Base of all records: immutable; unknown fields, which a later version may have written, are kept."""

    model_config = ConfigDict(frozen=True, extra="allow")


class Outcome(StrEnum):
    """How a trial ended."""

    FINISHED = "finished"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class Stage(StrEnum):
    """Where a trial failed."""

    TARGET = "target"
    PREPARE = "prepare"
    RUN = "run"
    HOOK = "hook"
    """A command of the plan's [hooks] failed before the trial."""
    VERIFY = "verify"
    """The trial's figures were taken, but its dataset was found inconsistent afterwards."""
