"""The error that ends a run before its last trial, in good order."""

from __future__ import annotations

from pgdyno.errors import ExitCode, PgdynoError


class StopRunError(PgdynoError):
    """The run must end now: the current trial is not stored, and resuming repeats it."""

    exit_code = ExitCode.STOPPED
