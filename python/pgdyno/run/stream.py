"""The engine's events as they come: parsed, checked, and whole or known to be cut."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pgdyno.errors import EngineError

_RELEASE = "use a pgdrive and a pgdyno of one release"
VERSION = 1
"""Newest version of the event stream that this code reads; see docs/reference/events.md."""

Event = dict[str, Any]


def read_events(lines: Iterable[bytes]) -> Iterator[Event]:
    """Events of `lines`, one object a line.

    Raises EngineError for a stream of a newer version, or a line that is no event.
    """
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            return  # cut in the middle: the caller misses the end event
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
    """Turns into an EngineError what goes wrong inside because a field of an event is missing or of another type."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        why = f"field {error}" if isinstance(error, KeyError) else str(error).split("\n", 1)[0]
        raise EngineError(
            f"cannot {doing}, for the engine's events are not as expected: {why}", hint=_RELEASE
        ) from error


def among(events: Sequence[Event], others: Sequence[Event]) -> list[Event]:
    """`events` of the engine with `others` where they belong in time; nothing comes behind its `end`.

    What has the same time as an event of the engine comes behind it.
    """
    last = len(events) - 1 if events and events[-1]["event"] == "end" else len(events)
    return [*sorted([*events[:last], *others], key=lambda event: event["t_us"]), *events[last:]]
