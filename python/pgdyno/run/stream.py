"""The engine's events as they come: parsed, checked, and whole or known to be cut."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pgdyno.errors import EngineError

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
        except ValueError as error:
            raise EngineError(f"line {number} of the engine's events is not JSON: {error}") from error
        if not isinstance(event, dict) or "event" not in event:
            raise EngineError(f"line {number} of the engine's events has no kind: {line[:80]!r}")
        if event["event"] == "start" and event.get("v", 0) > VERSION:
            raise EngineError(
                f"the engine writes events of version {event['v']}, and this pgdyno reads up to {VERSION}",
                hint="use a pgdrive and a pgdyno of one release",
            )
        yield event


def among(events: Sequence[Event], others: Sequence[Event]) -> list[Event]:
    """`events` of the engine with `others` where they belong in time; nothing comes behind its `end`.

    What has the same time as an event of the engine comes behind it.
    """
    last = len(events) - 1 if events and events[-1]["event"] == "end" else len(events)
    return [*sorted([*events[:last], *others], key=lambda event: event["t_us"]), *events[last:]]
