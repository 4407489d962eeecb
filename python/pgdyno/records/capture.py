"""`capture.json`: what a capture saw, without any single statement.

Times are microseconds since the start of the capture; distributions are of the time on the server.
"""

from __future__ import annotations

from enum import StrEnum

from pgdyno.effect import Effect, effect_of_sql, total_effect
from pgdyno.records.base import Instant, KeptMessage, Record

FORMAT = 1
"""Version of the folder that this code writes."""
UNKNOWN_SQLSTATE = "?????"
"""Stands in `capture.parquet` for the code of an error that the log does not have."""
CAPTURE_FILE, STATEMENTS_FILE = "capture.json", "capture.parquet"


class Source(StrEnum):
    LOG = "log"
    PROXY = "proxy"
    """Sessions that went through `pgdrive --proxy`."""
    STATEMENTS = "pg_stat_statements"


class Values(StrEnum):
    """What became of the constants and parameters."""

    ANONYMISED = "anonymised"
    """Text was replaced; types, lengths, and which values are equal are kept."""
    KEPT = "kept"
    UNKNOWN = "unknown"
    """The source has none."""


class Ended(StrEnum):
    TIME = "time"
    """The capture reached its duration, or the end of the log files."""
    INTERRUPTED = "interrupted"
    LIMIT = "limit"
    """The log was larger than the limit of the capture."""
    SERVER_LOST = "server-lost"
    """The server went away and was not back in time."""


class LeftOut(Record):
    """What a capture could not keep."""

    reason: str
    """An id, such as `copy-data`; `capture/left_out.py` has its sentence."""
    count: int
    """Statements, or lines or files if the reason concerns them."""
    first: str | None = None
    """Where it was first seen: file and line."""


OTHER_STATEMENTS = "other statements"
"""The text of a class of statements whose own classes have no place."""
CUT_OFF = "…"
"""Ends a text that is too long for the parser, and of which a class has only the beginning."""


class StatementClass(Record):
    """Statements that differ in their constants only."""

    text: str
    """Normalised: constants are `$1`, `$2`, …"""
    fingerprint: str | None = None
    """libpg_query's; None if the parser refuses the text."""
    calls: int
    errors: int = 0
    rows: int | None = None
    """Rows returned or affected, in total; None if unknown."""
    total_us: float | None = None
    """Time on the server, in total; None if unknown."""
    p50_us: float | None = None
    p99_us: float | None = None

    @property
    def has_text(self) -> bool:
        """Whether `text` is that of each of its statements, without the constants."""
        return self.fingerprint is not None or not (self.text == OTHER_STATEMENTS or self.text.endswith(CUT_OFF))


class ServerIdentity(Record):
    """What distinguishes a server from others, and from its own copies."""

    system_identifier: str | None = None
    """That of its cluster, which a physical copy keeps; None if the role may not see it."""
    started_at: Instant | None = None
    """When its postmaster started."""
    places: list[str] = []
    """Host and port to which pgdyno connected, by name and by address: `db.example.net:5432`."""

    def is_same(self, other: ServerIdentity) -> bool:
        """Whether `other` is this server, perhaps after a restart, rather than a copy of it or another server.

        A copy has the same system identifier, and another place.
        """
        identifiers = {self.system_identifier, other.system_identifier} - {None}
        if len(identifiers) > 1:
            return False
        has_same_start = self.started_at is not None and self.started_at == other.started_at
        return has_same_start or not set(self.places).isdisjoint(other.places)


class Wait(Record):
    """The mean number of sessions in a state, from samples of pg_stat_activity."""

    wait: str
    """`CPU` for an active session that does not wait, else `type:event`."""
    sessions: float


class Capture(Record):
    """Everything that capture.json says."""

    format: int = FORMAT
    source: Source
    values: Values
    database: str | None = None
    server_version: str | None = None
    server: ServerIdentity | None = None
    """None if log files alone were read, which do not name their server."""
    began: Instant
    span_us: int
    sessions: int = 0
    most_sessions: int = 0
    """How many sessions were open at the busiest moment."""
    transactions: int = 0
    """Blocks, and statements outside of one."""
    calls: int
    """Statements of all classes."""
    statements: list[StatementClass]
    """Their order gives each class its number."""
    waits: list[Wait] = []
    """Empty if pg_stat_activity was not sampled."""
    left_out: list[LeftOut] = []
    sequences: dict[str, int] = {}
    """Where they were at the start, by their names in SQL; empty if no log of a server was recorded."""
    references: dict[str, str] = {}
    """Foreign keys: `table.column` and what it references, likewise; only of a capture by proxy."""
    has_whole_seconds: bool = False
    """Whether the log has times without milliseconds, which show no pauses."""

    @property
    def effect(self) -> Effect:
        """Whether its statements write."""
        return total_effect(effect_of_sql(each.text) if each.has_text else Effect.UNKNOWN for each in self.statements)

    ended: Ended = Ended.TIME
    notes: list[KeptMessage] = []
    """What the server did not log or show, and what went wrong meanwhile."""
    commands: dict[str, list[int]] = {}
    """Of a model: the number of the class of each SQL command, by script."""


MOST_REPORTED = 10_000
"""Classes under which pgdrive reports a replay: each has a histogram in every worker."""


def as_reported(capture: Capture) -> tuple[Capture, list[int]]:
    """Return `capture` with the classes that a replay reports, and for each of its own classes the number there.

    Classes beyond the most frequent ones are one, the last.
    """
    classes = capture.statements
    if len(classes) <= MOST_REPORTED:
        return capture, list(range(len(classes)))
    by_calls = sorted(
        range(len(classes)), key=lambda number: (classes[number].text == OTHER_STATEMENTS, -classes[number].calls)
    )
    kept = sorted(by_calls[: MOST_REPORTED - 1])
    numbers = [len(kept)] * len(classes)
    for place, number in enumerate(kept):
        numbers[number] = place
    others = [classes[number] for number in by_calls[MOST_REPORTED - 1 :]]
    other = StatementClass(
        text=OTHER_STATEMENTS,
        calls=sum(each.calls for each in others),
        errors=sum(each.errors for each in others),
        total_us=sum(each.total_us or 0.0 for each in others),
    )
    return capture.model_copy(update={"statements": [*(classes[number] for number in kept), other]}), numbers
