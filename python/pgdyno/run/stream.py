"""Parses and checks the engine's events as they arrive, and detects a truncated stream."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pgdyno.errors import EngineError

_RELEASE = "use pgdrive and pgdyno of the same release"
VERSION = 1
"""The newest version of the event stream that this code reads; see docs/reference/events.md."""

Event = dict[str, Any]


def read_events(lines: Iterable[bytes]) -> Iterator[Event]:
    """Yields the events of `lines`, one object per line.

    Raises EngineError for a stream of a newer version, or an invalid line.
    """
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            return  # truncated: the caller detects the missing end event
        try:
            event = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise EngineError(f"line {number} of the engine's events is not JSON: {error}") from error
        if not isinstance(event, dict) or "event" not in event:
            raise EngineError(f"line {number} of the engine's events has no kind: {line[:80]!r}")
        version = event.get("v", 0) if event["event"] == "start" else 0
        if not isinstance(version, int) or version > VERSION:
            raise EngineError(
                f"the engine writes events of version {version!r}, and this pgdyno reads up to {VERSION}", hint=_RELEASE
            )
        yield event


@contextmanager
def understood(doing: str) -> Iterator[None]:
    """Raises EngineError for errors inside the block that come from a missing or wrong field of an event."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        why = f"field {error}" if isinstance(error, KeyError) else str(error).split("\n", 1)[0]
        raise EngineError(
            f"cannot {doing}, because the engine's events have an unexpected form: {why}", hint=_RELEASE
        ) from error


def among(events: Sequence[Event], others: Sequence[Event]) -> list[Event]:
    """Merges `others` into the engine's `events` by time; none follows its `end`.

    An event of `others` follows an engine event of the same time.
    """
    last = len(events) - 1 if events and events[-1]["event"] == "end" else len(events)
    return [*sorted([*events[:last], *others], key=lambda event: event["t_us"]), *events[last:]]
