"""Why instructions cannot be counted."""

from pgdyno.errors import ExitCode, PgdynoError


class CountError(PgdynoError):
    """Instructions cannot be counted."""

    exit_code = ExitCode.ENGINE
