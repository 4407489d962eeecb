"""Which generators a load counts as lost, and that all of its processes know when to end."""

import io
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pgdyno.generators import distributed_load
from pgdyno.generators.distributed_load import ClusterLoad
from pgdyno.generators.generator_protocol import HEARTBEAT_S, LEASE_S, SILENCE_S, EngineOutput, LostError
from pgdyno.generators.shared_load import Share, Shared

pytestmark = pytest.mark.slow

PROMISED_S = 10.0
"""Nothing that was started for a load outlives its driver, or the way to it, for longer (docs/guides/cluster.md)."""
ENGINE_KILLS_ITSELF_S = 3.0
"""Upon its lease: GRACE of crates/pgdrive/src/early_stop.rs."""


def shared(clients: int) -> Shared:
    return Shared(clients, Share([], Path(), [], {}), {})


class Stuck:
    """A generator whose call does not return, even after its own timeout."""

    name = "stuck"
    facts: Mapping[str, Any] = {}

    def __init__(self) -> None:
        self.is_told_to_stop = threading.Event()

    def begin(self, share: Share, environment: Mapping[str, str]) -> None:
        pass

    def start(self, epoch_us: int) -> None:
        pass

    def clock_us(self) -> int:
        return 0

    def listen(self, wait_s: float) -> EngineOutput:
        del wait_s
        self.is_told_to_stop.wait()
        return EngineOutput([], 0, "")

    def interrupt(self) -> None:
        self.is_told_to_stop.set()


def test_a_generator_from_which_nothing_comes_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed_load, "OVERDUE_S", 0.5)
    errors = io.BytesIO()
    made = ClusterLoad([Stuck()], shared(1), errors)
    made.begin({})
    (end,) = made.events()
    assert end["lost_generator"] == 1
    assert end["message"] == "generator 1 of 1 (stuck) was lost: no data from it for 0.5 s"
    assert end["message"].encode() in errors.getvalue()


class Ready(Stuck):
    """A generator that is ready when the other is; a `broken` one has ended when it gets the order to begin."""

    def __init__(self, name: str, *, broken: bool) -> None:
        super().__init__()
        self.name, self.broken = name, broken
        self.said = iter([b'{"event": "ready"}\n'])

    def listen(self, wait_s: float) -> EngineOutput:
        line = next(self.said, None)
        return super().listen(wait_s) if line is None else EngineOutput([line], None, "")

    def start(self, epoch_us: int) -> None:
        del epoch_us
        if self.broken:
            raise LostError("its host is gone")


@pytest.mark.parametrize("broken", [0, 1])
def test_the_one_that_does_not_begin_is_the_one_that_is_lost(broken: int) -> None:
    generators = [Ready(name, broken=number == broken) for number, name in enumerate(("one", "other"))]
    made = ClusterLoad(generators, shared(2), io.BytesIO())
    made.begin({})
    # the one that is ready last, whose end is noticed when all get the order to begin
    (end,) = made.events()
    assert end["lost_generator"] == broken + 1
    name = generators[broken].name
    assert end["message"] == f"generator {broken + 1} of 2 ({name}) was lost: its host is gone"


class CutShort(Stuck):
    """One whose engine ended before its start, for this `reason`."""

    facts: Mapping[str, Any] = {"host": "load1"}

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason

    def listen(self, wait_s: float) -> EngineOutput:
        del wait_s
        end = {"event": "end", "t_us": 9, "outcome": "failed", "exit_code": 1, "message": "any", "reason": self.reason}
        return EngineOutput([json.dumps(end).encode() + b"\n"], 1, "any")


@pytest.mark.parametrize(("reason", "is_lost"), [("interrupted", True), ("not-connected", False)])
def test_an_engine_that_stops_before_its_start_unasked_is_lost(reason: str, is_lost: bool) -> None:
    made = ClusterLoad([CutShort(reason)], shared(1), io.BytesIO())
    made.begin({})
    (end,) = made.events()
    assert ("lost_generator" in end) is is_lost
    assert ("its lease ran out" in end["message"]) is is_lost


def test_everything_ends_within_what_is_promised() -> None:
    assert LEASE_S + ENGINE_KILLS_ITSELF_S < PROMISED_S
    # a generator counted as lost has stopped, or stops before its driver continues
    assert HEARTBEAT_S < SILENCE_S < LEASE_S < distributed_load.OVERDUE_S
