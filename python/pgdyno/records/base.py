"""The base of all records, names of servers, the outcomes of a trial, and messages as records keep them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from string import Formatter
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, model_validator

from pgdyno.messages import Message, Parameter, fill_template
from pgdyno.records import EARLIEST, LATEST

FEWEST_PAIRS = 6
"""The fewest pairs of trials for a verdict on a difference."""


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

    @classmethod
    def of_event(cls, event: Mapping[str, Any], **others: object) -> Self:
        """Return the record of a pgdrive event's fields with its names, and `others`. Raises KeyError, ValueError."""
        own = {name: each for name, each in cls.model_fields.items() if name not in others}
        found = {name: event[name] for name, each in own.items() if name in event or each.is_required()}
        return cls.model_validate(found | others)


def server_name(target: str, instance: int | None) -> str:
    """Return the name of a server: `pg18`, or `pg18.2` for an instance of several.

    Names of targets have no dot, so it is not the name of another target.
    """
    return target if instance is None else f"{target}.{instance}"


def target_of(server: str) -> str:
    return server.partition(".")[0]


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
    UNDO_FAILED = "undo-failed"
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
    POOLER_ENDED = "pooler-ended"
    """The connection pooler that pgdyno started ended during the trial."""
    GENERATOR_LOST = "generator-lost"
    PARTNER_FAILED = "partner-failed"
    """The other trial of the pair (`trial.order = "duet"`) failed."""
    NO_GENERATORS = "generators-unavailable"
    """The generators of a cluster are not available."""
    COUNT = "instructions-not-counted"
    """Valgrind or perf could not count instructions, or the server ended under Valgrind."""
    IMPORTED = "aborted-elsewhere"
    """The imported output says that the run was aborted."""


LONGEST_NOTE = 2_000
"""The largest number of characters that are displayed."""
VALUE_FORMAT = re.compile(r"\+?,?(\.\d\d?)?[defg%]?")
"""Format specifications of templates: without a width, so that a forged template cannot fill the memory."""


class KeptMessage(Record):
    """A message with its templates, so that a later version displays it as this one did."""

    id: str
    template: str
    plural: str | None = None
    parameters: dict[str, Parameter]
    messages: dict[str, KeptMessage] = {}
    """Messages within it, by parameter; earlier versions kept only their sentences."""

    @classmethod
    def from_message(cls, message: Message) -> KeptMessage:
        """Convert `message` for storage."""
        return cls(
            id=message.id,
            template=message.template,
            plural=message.plural,
            parameters=message.parameters,
            messages={name: cls.from_message(value) for name, value in message.items if isinstance(value, Message)},
        )

    @property
    def message(self) -> Message:
        within = {name: each.message for name, each in self.messages.items()}
        return Message(self.id, self.template, self.plural, **{**self.parameters, **within})

    @model_validator(mode="after")
    def _fits(self) -> KeptMessage:
        """Refuse templates that do not fit the parameters: the file may come from somebody else."""
        values = {**self.parameters, **{name: str(each.message) for name, each in self.messages.items()}}
        for template in (self.template, self.plural or ""):
            fields = [(name, form or "") for _, name, form, _ in Formatter().parse(template) if name is not None]
            if not all(name in values and VALUE_FORMAT.fullmatch(form) for name, form in fields):
                raise ValueError(f"the template {template[:LONGEST_NOTE]!r} does not fit its parameters")
            fill_template(template, values)
        if self.plural is not None and not {"count", "trials"} & values.keys():
            raise ValueError("a plural without a number")
        str(self.message)
        return self
