"""The effect of an event on the load, derived from the engine's intervals."""

from collections.abc import Sequence
from typing import Any

import pytest

from pgdyno.records import EventOutcome, EventRecord
from pgdyno.run.event_effects import with_effects
from tests.present import present

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
        events.append(
            {
                "event": "interval",
                "t_us": (number + 1) * 1_000_000,
                "from_us": number * 1_000_000,
                "to_us": (number + 1) * 1_000_000,
                "phase": "warm-up" if number < WARMUP_S else "measure",
                "scripts": [{"succeeded": succeeded, "failed": lost, "lost": lost}],
                "lulls_us": of_second,
            }
        )
    outage = {"began_us": 6_100_000, "connections_lost": 4, "all_away_us": 200_000}
    return [*events, {"event": "end", "t_us": 99_000_000, "outages": [outage]}]


def record(began_s: float | None, number: int = 1) -> EventRecord:
    return EventRecord(
        number=number, do="kill", at_s=began_s or 0, began_s=began_s, seconds=0.1, outcome=EventOutcome.DONE
    )


STEADY = [100.0, 102, 98, 100]


def test_the_stretch_without_service_is_joined_over_seconds() -> None:
    # the kill comes 4 s into measuring, 6 s into the load; no client is served from 6.0 to 8.3
    tps = [*STEADY, 0, 0, 60, 99, 101, 100, 100]
    (found,) = with_effects([record(4.0)], stream(tps, [(5.2, 5.21), (6.0, 8.3)], {4: 4}))
    effect = present(found.effect)
    assert effect.nobody_served_s == pytest.approx(2.3)
    assert effect.first_success_s == pytest.approx(2.3)
    assert (effect.failed, effect.lost, effect.connections_lost, effect.all_away_s) == (4, 4, 4, 0.2)
    assert (effect.before_tps, effect.lowest_tps) == (100, 0)
    # the three seconds from 9 s into the load on
    assert effect.recovered_s == 3.0


def test_catching_up_does_not_hide_the_stretch() -> None:
    tps = [*STEADY, 50, 150, 100, 100, 100]
    (found,) = with_effects([record(4.2)], stream(tps, [(6.2, 6.7)]))
    assert present(found.effect).recovered_s == pytest.approx(0.8)


def test_an_event_without_effect_is_recorded_as_such() -> None:
    (found,) = with_effects([record(4.5)], stream([*STEADY, 99, 100, 101, 100]))
    assert found.effect is not None
    assert (found.effect.nobody_served_s, found.effect.first_success_s) == (0, None)
    assert (found.effect.recovered_s, found.effect.connections_lost) == (0, 0)


def test_a_server_that_does_not_come_back() -> None:
    (found,) = with_effects([record(4.0)], stream([*STEADY, 0, 0, 0, 0], [(6.0, 10.0)]))
    assert found.effect is not None
    assert (found.effect.nobody_served_s, found.effect.first_success_s, found.effect.recovered_s) == (4, None, None)


def test_an_event_ends_where_the_next_begins() -> None:
    tps = [*STEADY, 0, 100, 100, 100, 0, 0, 100, 100, 100]
    first, second = with_effects(
        [record(4.0), record(8.0, 2)], stream(tps, [(6.0, 7.0), (10.0, 12.0)], {4: 1, 8: 2, 9: 1})
    )
    assert first.effect is not None
    assert second.effect is not None
    assert [each.nobody_served_s for each in (first.effect, second.effect)] == [1, 2]
    assert [each.lost for each in (first.effect, second.effect)] == [1, 3]
    assert [each.recovered_s for each in (first.effect, second.effect)] == [1, 2]


@pytest.mark.parametrize(("began_s", "phases"), [(4.0, [{"name": "a"}]), (2.0, None)])
def test_too_few_seconds_before_an_event_give_no_recovery_time(began_s: float, phases: object) -> None:
    (found,) = with_effects([record(began_s)], stream([*STEADY, 0, 100, 100, 100], phases=phases))
    assert (present(found.effect).before_tps, present(found.effect).recovered_s) == (None, None)


def test_an_event_that_never_came_has_no_effect() -> None:
    (found,) = with_effects([record(None)], stream(STEADY))
    assert found.effect is None


def at_a_rate(means_ms: Sequence[float]) -> list[Event]:
    events = stream([20.0, 9, 24, 17, 0, 30, 22, 15, 26, 19, 20])
    events[0]["rate_per_s"] = 20
    for event, mean_ms in zip((each for each in events if each.get("phase") == "measure"), means_ms, strict=True):
        count = event["scripts"][0]["succeeded"]
        event["scripts"][0]["latency_ns"] = {"sum": count * mean_ms * 1e6}
    return events


def test_at_a_rate_recovery_is_judged_by_latency_because_throughput_is_drawn_by_chance() -> None:
    (found,) = with_effects([record(4.0)], at_a_rate([2, 3, 2, 2, 0, 900, 500, 2, 2, 2, 2]))
    assert found.effect is not None
    assert found.effect.before_latency_ns == pytest.approx(2.8e6, rel=0.03)
    assert found.effect.recovered_s == 3.0
    (still_late,) = with_effects([record(4.0)], at_a_rate([2, 3, 2, 2, 0, 900, 500, 9, 9, 9, 9]))
    assert still_late.effect is not None
    assert still_late.effect.recovered_s is None
