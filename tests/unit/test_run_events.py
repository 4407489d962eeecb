"""Events of a plan start at their times, and their effect on the load; the commit ledger compared with its table."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgdyno.errors import TargetError
from pgdyno.plan.model import EventSpec
from pgdyno.records import EventEffect, EventOutcome, EventRecord
from pgdyno.run.commit_ledger import Island, Page, compare, pages
from pgdyno.run.event_effects import with_effects
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
    with cutoff.stop_at_end(lambda: stopped.append(True)):
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


def test_plan_events_are_merged_with_the_engine_s_by_time_if_it_connects() -> None:
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
    injector = Injector([spec("0s")], fail)
    with injector:
        injector.handle({"event": "start", "t_us": 0, "epoch_us": 0, "warmup_s": 0})
    assert injector.put_among([]) == []
    assert injector.records[0].outcome is EventOutcome.NOT_REACHED


Event = dict[str, Any]
WARMUP_S = 2


def stream(
    tps: list[float],
    lulls: Sequence[tuple[float, float]] = (),
    failed: dict[int, int] | None = None,
    phases: object = None,
) -> list[Event]:
    """A load of `WARMUP_S` seconds of warm-up, then of `tps` second by second; stalls in seconds of the whole load."""
    events: list[Event] = [{"event": "start", "t_us": 0, "warmup_s": WARMUP_S, "clients": 4, "phases": phases}]
    for number, succeeded in enumerate([50.0] * WARMUP_S + tps):
        of_second = [
            [round(max(begin, number) * 1e6), round(min(end, number + 1) * 1e6)]
            for begin, end in lulls
            if begin < number + 1 and end > number
        ]
        lost = (failed or {}).get(number - WARMUP_S, 0)
        end_us, phase = (number + 1) * 1_000_000, "warm-up" if number < WARMUP_S else "measure"
        scripts = [{"succeeded": succeeded, "failed": lost, "lost": lost}]
        interval = {"event": "interval", "t_us": end_us, "from_us": end_us - 1_000_000, "to_us": end_us, "phase": phase}
        events.append({**interval, "scripts": scripts, "lulls_us": of_second})
    outage = {"began_us": 6_100_000, "connections_lost": 4, "all_away_us": 200_000}
    return [*events, {"event": "end", "t_us": 99_000_000, "outages": [outage]}]


def effects_of(events: list[Event], *began_s: float | None) -> list[EventEffect | None]:
    records = [
        EventRecord(number=number, do="kill", at_s=at or 0, began_s=at, seconds=0.1, outcome=EventOutcome.DONE)
        for number, at in enumerate(began_s, start=1)
    ]
    return [each.effect for each in with_effects(records, events)]


def effect_at(began_s: float, events: list[Event]) -> EventEffect:
    (found,) = effects_of(events, began_s)
    return present(found)


STEADY = [100.0, 102, 98, 100]


def test_the_stretch_without_service_is_joined_over_seconds_and_recovery_at_a_rate_judged_by_latency() -> None:
    # the kill comes 4 s into measuring, 6 s into the load; no client is served from 6.0 to 8.3
    effect = effect_at(4.0, stream([*STEADY, 0, 0, 60, 99, 101, 100, 100], [(5.2, 5.21), (6.0, 8.3)], {4: 4}))
    assert effect.nobody_served_s == pytest.approx(2.3)
    assert effect.first_success_s == pytest.approx(2.3)
    assert (effect.failed, effect.lost, effect.connections_lost, effect.all_away_s) == (4, 4, 4, 0.2)
    assert (effect.before_tps, effect.lowest_tps) == (100, 0)
    # the three seconds from 9 s into the load on
    assert effect.recovered_s == 3.0
    # catching up does not hide the stretch
    effect = effect_at(4.2, stream([*STEADY, 50, 150, 100, 100, 100], [(6.2, 6.7)]))
    assert effect.recovered_s == pytest.approx(0.8)
    # at a rate, latency tells recovery, because throughput is drawn by chance
    effect = effect_at(4.0, at_a_rate([2, 3, 2, 2, 0, 900, 500, 2, 2, 2, 2]))
    assert effect.before_latency_ns == pytest.approx(2.8e6, rel=0.03)
    assert effect.recovered_s == 3.0
    assert effect_at(4.0, at_a_rate([2, 3, 2, 2, 0, 900, 500, 9, 9, 9, 9])).recovered_s is None


def test_an_event_ends_where_the_next_begins_and_may_have_no_effect() -> None:
    calm = effect_at(4.5, stream([*STEADY, 99, 100, 101, 100]))
    assert (calm.nobody_served_s, calm.first_success_s) == (0, None)
    assert (calm.recovered_s, calm.connections_lost) == (0, 0)
    down = effect_at(4.0, stream([*STEADY, 0, 0, 0, 0], [(6.0, 10.0)]))
    assert (down.nobody_served_s, down.first_success_s, down.recovered_s) == (4, None, None)
    # one that never came
    assert effects_of(stream(STEADY), None) == [None]
    # too few seconds before one
    for began_s, phases in ((4.0, [{"name": "a"}]), (2.0, None)):
        effect = effect_at(began_s, stream([*STEADY, 0, 100, 100, 100], phases=phases))
        assert (effect.before_tps, effect.recovered_s) == (None, None)
    tps = [*STEADY, 0, 100, 100, 100, 0, 0, 100, 100, 100]
    found = effects_of(stream(tps, [(6.0, 7.0), (10.0, 12.0)], {4: 1, 8: 2, 9: 1}), 4.0, 8.0)
    assert [(each.nobody_served_s, each.lost, each.recovered_s) for each in map(present, found)] == [
        (1, 1, 1), (2, 3, 2),
    ]  # fmt: skip


def at_a_rate(means_ms: Sequence[float]) -> list[Event]:
    events = stream([20.0, 9, 24, 17, 0, 30, 22, 15, 26, 19, 20])
    events[0]["rate_per_s"] = 20
    for event, mean_ms in zip((each for each in events if each.get("phase") == "measure"), means_ms, strict=True):
        count = event["scripts"][0]["succeeded"]
        event["scripts"][0]["latency_ns"] = {"sum": count * mean_ms * 1e6}
    return events


FATES = st.sampled_from(["acknowledged", "unknown", "refused"])
CLIENTS = st.lists(st.lists(FATES, max_size=30), max_size=4)
ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(-2, 33)), max_size=120)


def ranges(numbers: list[int]) -> list[tuple[int, int]]:
    found = []
    for _, group in groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        found.append((run[0], run[-1]))
    return found


def page(fates: list[str]) -> Page:
    unknown, refused = ([n for n, each in enumerate(fates, 1) if each == fate] for fate in ("unknown", "refused"))
    return Page(len(fates), ranges(unknown), ranges(refused))


def islands(rows: list[tuple[int, int]]) -> list[Island]:
    counts = Counter(rows)
    found = []
    for client in sorted({client for client, _ in counts}):
        for first, last in ranges([seq for each, seq in counts if each == client]):
            total = sum(counts[client, seq] for seq in range(first, last + 1))
            found.append(Island(client, first, last, total))
    return found


@settings(max_examples=50)
@given(CLIENTS, ROWS)
def test_every_number_is_counted_as_by_hand(clients: list[list[str]], rows: list[tuple[int, int]]) -> None:
    heard = {(c, n): fate for c, fates in enumerate(clients) for n, fate in enumerate(fates, start=1)}
    there = set(rows)
    found = compare({c: page(fates) for c, fates in enumerate(clients)}, islands(rows))

    def count(fate: str, *, present: bool | None = None) -> int:
        return sum(1 for each, of in heard.items() if of == fate and (present is None or (each in there) == present))

    assert (found.acknowledged, found.missing) == (count("acknowledged"), count("acknowledged", present=False))
    assert (found.unknown, found.unknown_present) == (count("unknown"), count("unknown", present=True))
    assert (found.refused, found.refused_present) == (count("refused"), count("refused", present=True))
    assert (found.present, found.duplicates) == (len(there), len(rows) - len(there))
    assert found.strange == len(there - heard.keys())
    missing = {(each.client, seq) for each in found.missing_ranges for seq in range(each.first, each.last + 1)}
    assert missing == {each for each, of in heard.items() if of == "acknowledged" and each not in there}


def test_only_a_ledger_has_pages_and_only_a_hundred_ranges_are_kept() -> None:
    assert pages([{"event": "end", "ledger": None}]) is None
    assert pages([{"event": "end"}]) is None
    # one that was killed: that a ledger was asked for is no ledger
    assert pages([{"event": "start", "ledger": True}]) is None
    assert pages([]) is None
    clients = [{"client": 2, "last": 9, "unknown": [[3, 4]], "refused": []}]
    assert pages([{"event": "end", "ledger": {"clients": clients}}]) == {2: Page(9, [(3, 4)], [])}
    # only the first hundred ranges are kept, and all are counted
    rows = [Island(0, seq, seq, 1) for seq in range(2, 401, 2)]
    found = compare({0: Page(400, (), ())}, rows)
    assert (found.missing, len(found.missing_ranges)) == (200, 100)
