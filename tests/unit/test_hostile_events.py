"""Malformed events of an engine: an error of pgdyno's own, never a traceback."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pgdyno.errors import EngineError
from pgdyno.programs import Engine
from pgdyno.run.process import Event, read_events
from pgdyno.run.run_trial import TrialResult, run_trial
from tests.unit.events_sample import sample_events


class Ended:
    """An engine whose output is complete."""

    def send_signal(self, _number: int) -> None:
        """Ignores the signal."""

    def wait(self) -> int:
        return 0


def ignore(_interval: object) -> None:
    """Discards an interval."""


def tried(folder: Path, events: list[dict[str, Any]]) -> TrialResult:
    """Runs a trial that receives `events`."""
    lines = [json.dumps(event).encode() + b"\n" for event in events]

    @contextmanager
    def running(*_: object) -> Iterator[tuple[Any, Iterator[Event]]]:
        yield Ended(), read_events(lines)

    return run_trial(Engine(folder / "pgdrive", "0.1.0"), [], {}, folder, folder / "log", ignore, 10, running=running)


@pytest.mark.parametrize("version", [None, "1", [], 2, 1.5])
def test_a_version_that_is_none(tmp_path: Path, version: object) -> None:
    events = sample_events(4, 2, 500, 900, seed=1)
    with pytest.raises(EngineError, match="writes events of version"):
        tried(tmp_path, [{**events[0], "v": version}, *events[1:]])


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("interval", {"scripts": None}),
        ("interval", {"to_us": "soon"}),
        ("interval", {"scripts": [{"script": 0, "succeeded": [], "failed": 0}]}),
        ("start", {"scripts": 7}),
        ("start", {"pgdrive": None}),
        ("end", {"tps": "many"}),
        ("end", {"scripts": [{}]}),
        ("end", {"latency_ns": {"mean": {}}}),
        ("end", {"errors": [{"message": 1}]}),
    ],
)
def test_fields_of_another_type(tmp_path: Path, kind: str, changes: dict[str, Any]) -> None:
    events = [{**each, **(changes if each["event"] == kind else {})} for each in sample_events(4, 2, 500, 900, seed=1)]
    with pytest.raises(EngineError, match=r"cannot .*, because the engine's events have an unexpected form: "):
        tried(tmp_path, events)
