"""What all records have in common, and how a trial may end."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict

FORMAT = 1
"""Version of the run folder that this code writes."""


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
