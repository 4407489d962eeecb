"""What all records have in common, and how a trial may end."""

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
"""A time in the years that runs are of; in UTC where it has no zone."""


class Record(BaseModel):
    """Base of all records: immutable; fields of later versions are kept, not refused."""

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
    """The trial's figures were taken, and then the dataset was found not to hold together."""
