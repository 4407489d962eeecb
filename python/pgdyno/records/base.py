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

    # most commands read a few of them: a validator is built when its record is first used
    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)


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


class FailureId(StrEnum):
    """What went wrong with a trial, for programs: `failure.id` in `trial.json`. The values are stable."""

    STEP = "step-failed"
    """A step of the trial failed: `stage` says which."""
    STATEMENT = "statement-failed"
    """A statement of pgdyno's own failed: `stage` says where, `sqlstate` why."""
    INCONSISTENT = "dataset-inconsistent"
    """The dataset's invariants do not hold after the trial."""
    SILENT = "server-silent"
    """The server stopped answering pgdyno."""
    EVENT_FAILED = "event-failed"
    """An event of the plan failed."""
    EVENT_NOT_REACHED = "event-not-reached"
    """The trial ended before an event of the plan."""
    TOO_MANY_ERRORS = "too-many-errors"
    """More transactions failed than `trial.max_errors` allows."""
    CLIENTS_ABORTED = "clients-aborted"
    """Clients gave up; `sqlstate` is the first one's error."""
    ENGINE_REFUSED = "engine-refused"
    """pgdrive did not accept its options."""
    ENGINE_ENDED = "engine-ended"
    """pgdrive ended without its last event."""
    ENGINE_STOPPED = "engine-stopped"
    """pgdrive was stopped before the end of the trial."""
    EVENTS_UNREADABLE = "events-unreadable"
    """pgdrive's events could not be read."""
    NOT_BEGUN = "load-not-begun"
    """pgdrive could not begin the load."""
    NOT_PREPARED = "load-not-prepared"
    """pgdrive could not prepare the load: a script, the dataset or the first connection."""
    NOT_CONNECTED = "load-not-connected"
    """A client could not connect."""
    GENERATOR_LOST = "generator-lost"
    """One of several generators was lost."""
    PARTNER_FAILED = "partner-failed"
    """The other trial of the pair (`trial.order = "duet"`) failed."""
    NO_GENERATORS = "generators-unavailable"
    """The generators of a cluster are not available."""
    IMPORTED = "aborted-elsewhere"
    """The imported output says that the run was aborted."""
