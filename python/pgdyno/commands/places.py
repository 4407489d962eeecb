"""Parses the hosts in `--generators` and `--cluster`."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.errors import UsageError
from pgdyno.plan.generators import Places, generators


def checked_places(option: str, texts: Sequence[str]) -> Places:
    """Parses the hosts in `texts` of `option`. Raises UsageError."""
    try:
        return generators(texts)
    except ValueError as error:
        message, _, hint = str(error).partition("; ")
        raise UsageError(f"{option}: {message}", hint=hint) from error
