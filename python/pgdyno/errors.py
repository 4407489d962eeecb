"""Errors that a user may meet, each with the exit code that a script can rely on.

The table is `docs/reference/exit-codes.md`; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """What `pgdyno` exits with."""

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
    HANGUP = 129
    INTERRUPTED = 130
    TERMINATED = 143


class PgdynoError(Exception):
    """An expected failure: what was being done, to what, and why it failed.

    `message` is lowercase and complete without the hint; `hint` says what to do about it.
    """

    exit_code: ExitCode = ExitCode.INTERNAL

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        """`message` and `hint` as above."""
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(PgdynoError):
    """The command line asks for something that makes no sense."""

    exit_code = ExitCode.USAGE


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a plan file."""

    path: str
    """Dotted field, `target.pg18.version`; empty when the file as a whole is meant."""
    message: str
    line: int | None = None
    """Line in the file, from 1; None when the field stands nowhere (it is missing, or was set by `--set`)."""
    hint: str | None = None
    source: str | None = None
    """The plan that it stands in, where that is another one which this plan extends."""


class PlanError(PgdynoError):
    """A plan that cannot be run: all its problems together."""

    exit_code = ExitCode.PLAN

    def __init__(self, source: str, problems: list[Problem]) -> None:
        """All `problems` of the plan that `source` names."""
        count = len(problems)
        super().__init__(f"plan {source} has {count} problem{'s' if count != 1 else ''}")
        self.source = source
        self.problems = problems


class TargetError(PgdynoError):
    """A server that cannot be had: fetched, unpacked, started, reached or loaded."""

    exit_code = ExitCode.TARGET


class StoreError(PgdynoError):
    """A run folder that cannot be written or read."""

    exit_code = ExitCode.STORE


class EngineError(PgdynoError):
    """pgdrive is missing, of another version, or broke off without saying why."""

    exit_code = ExitCode.ENGINE


class PreflightError(PgdynoError):
    """The machine cannot carry the plan: no room, no files, no memory."""

    exit_code = ExitCode.PREFLIGHT
