"""Events start at their times, whatever they do and however the trial ends."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from pgdyno.errors import TargetError
from pgdyno.plan.model import EventSpec
from pgdyno.records import EventOutcome
from pgdyno.run.event_injection import Cutoff, Injector, failure_of_events
from tests.present import present
from tests.waiting import wait_until

CLOCKS_S = 0.01
"""Which the wall clock may be set by while a test runs."""


def spec(at: str, do: str = "vacuum") -> EventSpec:
    return EventSpec.model_validate({"at": at, "do": do})


def begin(injector: Injector, warmup_s: float = 0.0) -> None:
    """Starts as the engine does, after 50 ms."""
    now_us = time.time() * 1e6
    injector.handle({"event": "start", "t_us": 0, "epoch_us": now_us - 50_000, "warmup_s": warmup_s})
    injector.handle({"event": "connected", "t_us": 50_000, "origin_us": 50_000})


def test_each_comes_at_its_instant_and_a_long_one_delays_no_other() -> None:
    came: dict[str, float] = {}
    last_came = threading.Event()

    def act(event: EventSpec, _cutoff: Cutoff) -> str | None:
        came[event.name] = time.monotonic()
        if event.name == "vacuum":
            # for so long that the other one comes meanwhile
            assert last_came.wait(60)
        else:
            last_came.set()
        return f"did {event.name}"

    injector = Injector([spec("200ms", "checkpoint"), spec("100ms")], act)
    with injector:
        started = time.monotonic()
        begin(injector, warmup_s=0.1)
        wait_until(lambda: settled(injector))
    # a busy machine may be late; nothing comes early
    assert came["vacuum"] - started > 0.2 - CLOCKS_S
    assert came["checkpoint"] - started > 0.3 - CLOCKS_S
    checkpoint, vacuum = injector.records
    assert (checkpoint.number, checkpoint.message, checkpoint.outcome) == (1, "did checkpoint", EventOutcome.DONE)
    assert present(checkpoint.began_s) > 0.2 - CLOCKS_S
    assert present(vacuum.began_s) > 0.1 - CLOCKS_S
    assert present(vacuum.began_s) + present(vacuum.seconds) > present(checkpoint.began_s) - CLOCKS_S
    assert failure_of_events(injector.records) is None


def settled(injector: Injector) -> bool:
    return all(each.outcome is not EventOutcome.NOT_REACHED for each in injector.records)


def fail(_event: EventSpec, _cutoff: Cutoff) -> str | None:
    raise TargetError("the server does not run")


def wait(_event: EventSpec, cutoff: Cutoff) -> str | None:
    stopped: list[bool] = []
    with cutoff.stopping(lambda: stopped.append(True)):
        cutoff.wait(600)
    assert stopped
    raise OSError("was stopped")


@pytest.mark.parametrize(
    ("at", "act", "outcome", "failure"),
    [
        ("0s", fail, EventOutcome.FAILED, "event 1 of the plan (vacuum at 0s) failed: the server does not run"),
        ("0s", wait, EventOutcome.UNFINISHED, None),
        ("600s", fail, EventOutcome.NOT_REACHED, "the trial ended before event 1 of the plan (vacuum at 10m00s)"),
    ],
)
def test_outcomes_of_events(
    at: str, act: Callable[[EventSpec, Cutoff], str | None], outcome: EventOutcome, failure: str | None
) -> None:
    began = threading.Event()

    def noted(event: EventSpec, cutoff: Cutoff) -> str | None:
        began.set()
        return act(event, cutoff)

    injector = Injector([spec(at)], noted)
    with injector:
        begin(injector)
        if outcome is EventOutcome.FAILED:
            wait_until(lambda: settled(injector))
        assert began.wait(0.2 if outcome is EventOutcome.NOT_REACHED else 60) == (at == "0s")
    assert injector.records[0].outcome is outcome
    found = failure_of_events(injector.records)
    assert (found and found.message) == failure


def test_an_exception_in_the_trial_ends_its_events() -> None:
    began = threading.Event()

    def act(event: EventSpec, cutoff: Cutoff) -> str | None:
        began.set()
        return wait(event, cutoff)

    injector = Injector([spec("0s"), spec("600s")], act)

    def interrupted() -> None:
        with injector:
            begin(injector)
            assert began.wait(60)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [each.outcome for each in injector.records] == [EventOutcome.UNFINISHED, EventOutcome.NOT_REACHED]


def test_plan_events_are_merged_with_the_engine_s_by_time() -> None:
    injector = Injector([spec("1s"), spec("0s")], lambda _event, _cutoff: None)
    with injector:
        begin(injector)
        wait_until(lambda: settled(injector))
    engine: list[dict[str, Any]] = [{"event": "start", "t_us": 0}]
    # half a second for the first one to come, and an hour for the second
    engine += [{"event": "interval", "t_us": 550_000}, {"event": "interval", "t_us": 3_600_000_000}]
    merged = injector.put_among([*engine, {"event": "end", "t_us": 3_700_000_000}])
    assert [each.get("number", each["event"]) for each in merged] == ["start", 2, "interval", 1, "interval", "end"]
    cut = injector.put_among([{"event": "end", "t_us": 10}])
    assert [each["event"] for each in cut] == ["plan_event", "plan_event", "end"]


def test_an_engine_that_never_connects_has_no_events() -> None:
    injector = Injector([spec("0s")], fail)
    with injector:
        injector.handle({"event": "start", "t_us": 0, "epoch_us": 0, "warmup_s": 0})
    assert injector.put_among([]) == []
    assert injector.records[0].outcome is EventOutcome.NOT_REACHED
