"""Errors that users may see, each with its documented exit code.

The table is in `docs/reference/exit-codes.md`; a test compares the two.
"""

from enum import IntEnum
from typing import NamedTuple

from pgdyno.messages import Message


class ExitCode(IntEnum):
    OK = 0
    INTERNAL = 1
    USAGE = 2
    PLAN = 3
    TARGET = 4
    TRIALS_FAILED = 5
    STORE = 6
    ENGINE = 7
    STOPPED = 8
    PREFLIGHT = 9
    REGRESSION = 10
    INCONCLUSIVE = 11
    INVALID = 12
    PROMISE_BROKEN = 13
    UNDECIDABLE = 14
    HANGUP = 129
    INTERRUPTED = 130
    TERMINATED = 143


class PgdynoError(Exception):
    """An expected failure: what was being done, to what, and why it failed.

    `message` is in lower case and complete without `hint`, which contains the remedy.
    """

    exit_code: ExitCode = ExitCode.INTERNAL

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InvalidValueError(ValueError):
    """A value that a plan or an option cannot have, for those who know where it is."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"{message}; {hint}")
        self.message = message
        self.hint = hint


class UsageError(PgdynoError):
    exit_code = ExitCode.USAGE


class Problem(NamedTuple):
    """One mistake in a plan file."""

    path: str
    """Dotted field, `target.pg18.version`; empty for the whole file."""
    message: str
    line: int | None = None
    """Line in the file, from 1; None if the field is missing or was set by `--set`."""
    hint: str | None = None
    source: str | None = None
    """The plan with the mistake, if it is one that this plan extends."""


class PlanError(PgdynoError):
    """An invalid plan, with all its problems."""

    exit_code = ExitCode.PLAN

    def __init__(self, source: str, problems: list[Problem]) -> None:
        count = len(problems)
        super().__init__(f"plan {source} has {count} problem{'s' if count != 1 else ''}")
        self.source = source
        self.problems = problems


class TargetError(PgdynoError):
    """A server cannot be downloaded, unpacked, started, reached or loaded."""

    exit_code = ExitCode.TARGET


class StoreError(PgdynoError):
    exit_code = ExitCode.STORE


class EngineError(PgdynoError):
    """pgdrive is missing, has another version, or ended without a result."""

    exit_code = ExitCode.ENGINE


class PreflightError(PgdynoError):
    """The machine lacks the disk space, open files or memory that the plan needs."""

    exit_code = ExitCode.PREFLIGHT


class StopRunError(PgdynoError):
    """The run must end now: the current trial is not stored, and resuming repeats it."""

    exit_code = ExitCode.STOPPED

    def __init__(self, reason: Message, *, hint: str | None = None) -> None:
        super().__init__(str(reason), hint=hint)
        self.reason = reason
