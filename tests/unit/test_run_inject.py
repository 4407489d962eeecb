"""Events at their instants, whatever they do and however the trial ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pgdyno.errors import TargetError
from pgdyno.plan.model import EventSpec
from pgdyno.records import EventOutcome
from pgdyno.run.cutoff import Cutoff
from pgdyno.run.inject import Injector, failure_of_events


def spec(at: str, do: str = "vacuum") -> EventSpec:
    return EventSpec.model_validate({"at": at, "do": do})


def begin(injector: Injector, warmup_s: float = 0.0) -> None:
    """As the engine does 50 ms after its start."""
    now_us = time.time() * 1e6
    injector.heard({"event": "start", "t_us": 0, "epoch_us": now_us - 50_000, "warmup_s": warmup_s})
    injector.heard({"event": "connected", "t_us": 50_000, "origin_us": 50_000})


def test_each_comes_at_its_instant_and_a_long_one_delays_no_other() -> None:
    came: list[tuple[str, float]] = []

    def act(event: EventSpec, cutoff: Cutoff) -> str | None:
        came.append((event.name, time.monotonic()))
        if event.name == "vacuum":
            cutoff.wait(0.4)
        return f"did {event.name}"

    injector = Injector([spec("200ms", "checkpoint"), spec("100ms")], act)
    with injector:
        started = time.monotonic()
        begin(injector, warmup_s=0.1)
        time.sleep(0.7)
    assert [name for name, _ in came] == ["vacuum", "checkpoint"]
    assert [at - started for _, at in came] == [pytest.approx(0.2, abs=0.08), pytest.approx(0.3, abs=0.08)]
    checkpoint, vacuum = injector.records
    assert (checkpoint.number, checkpoint.message, checkpoint.outcome) == (1, "did checkpoint", EventOutcome.DONE)
    assert checkpoint.began_s == pytest.approx(0.2, abs=0.08)
    assert vacuum.seconds == pytest.approx(0.4, abs=0.1)
    assert failure_of_events(injector.records) is None


def fail(_event: EventSpec, _cutoff: Cutoff) -> str | None:
    raise TargetError("the server does not run")


def wait(_event: EventSpec, cutoff: Cutoff) -> str | None:
    stopped: list[bool] = []
    with cutoff.stopping(lambda: stopped.append(True)):
        cutoff.wait(60)
    assert stopped
    raise OSError("was stopped")


@pytest.mark.parametrize(
    ("at", "act", "outcome", "failure"),
    [
        ("0s", fail, EventOutcome.FAILED, "event 1 of the plan (vacuum at 0s) failed: the server does not run"),
        ("0s", wait, EventOutcome.UNFINISHED, None),
        ("60s", fail, EventOutcome.NOT_REACHED, "the trial ended before event 1 of the plan (vacuum at 1m00s)"),
    ],
)
def test_what_becomes_of_an_event(
    at: str, act: Callable[[EventSpec, Cutoff], str | None], outcome: EventOutcome, failure: str | None
) -> None:
    injector = Injector([spec(at)], act)
    with injector:
        begin(injector)
        time.sleep(0.2)
    assert injector.records[0].outcome is outcome
    found = failure_of_events(injector.records)
    assert (found and found.message) == failure


def test_an_exception_in_the_trial_ends_its_events() -> None:
    injector = Injector([spec("0s"), spec("60s")], wait)

    def interrupted() -> None:
        with injector:
            begin(injector)
            time.sleep(0.1)
            raise KeyboardInterrupt

    before = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.monotonic() - before < 5
    assert [each.outcome for each in injector.records] == [EventOutcome.UNFINISHED, EventOutcome.NOT_REACHED]


def test_they_stand_among_the_engines_events_in_time() -> None:
    injector = Injector([spec("100ms"), spec("0s")], lambda _event, _cutoff: None)
    with injector:
        begin(injector)
        time.sleep(0.3)
    engine: list[dict[str, Any]] = [{"event": "start", "t_us": 0}]
    engine += [{"event": "interval", "t_us": 100_000}, {"event": "interval", "t_us": 900_000}]
    merged = injector.put_among([*engine, {"event": "end", "t_us": 1_000_000}])
    assert [each.get("number", each["event"]) for each in merged] == ["start", 2, "interval", 1, "interval", "end"]
    cut = injector.put_among([{"event": "end", "t_us": 10}])
    assert [each["event"] for each in cut] == ["plan_event", "plan_event", "end"]


def test_an_engine_that_never_connects_has_no_events() -> None:
    injector = Injector([spec("0s")], fail)
    with injector:
        injector.heard({"event": "start", "t_us": 0, "epoch_us": 0, "warmup_s": 0})
    assert injector.put_among([]) == []
    assert injector.records[0].outcome is EventOutcome.NOT_REACHED
