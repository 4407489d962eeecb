"""Times of another host: the offset from round trips, and its uncertainty."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.probe.clock_offset import Round, align
from tests.present import present

START_US = 1_795_000_000_000_000.0


def asked(t_us: int, *, rate: float = 1.0, trip_us: float = 200.0, late: float = 0.5, skew_us: int = 0) -> Round:
    """Returns a round trip answered at the fraction `late` of its time, by a clock that runs at `rate`."""
    true_us = START_US + rate * t_us
    return Round(true_us + (0.5 - late) * trip_us, t_us, round(true_us) + skew_us, trip_us)


def test_without_a_round_nothing_is_known() -> None:
    assert align([], 5) is None


def test_one_round_tells_the_offset_and_no_drift() -> None:
    found = present(align([asked(1_000_000, skew_us=-7_000)], 11_000_000))
    assert (found.drift_ppm, found.drift_uncertainty_ppm) == (None, None)
    assert found.ahead_us == -7_000
    # half a round trip, and 100 ppm for the ten seconds after it
    assert found.uncertainty_us == 100 + 1_000
    assert found.local_us(2_000_000) == START_US + 2_000_000


def test_two_rounds_tell_the_drift() -> None:
    found = present(align([asked(0, rate=1 / 1.00005), asked(100_000_000, rate=1 / 1.00005)], 100_000_000))
    assert found.drift_ppm == pytest.approx(50, abs=0.01)
    assert found.drift_uncertainty_ppm == pytest.approx(2)
    assert found.uncertainty_us == 100


def test_rounds_that_lie_together_tell_none() -> None:
    found = present(align([asked(0), asked(900_000, late=0)], 900_000))
    assert (found.drift_ppm, found.rate) == (None, 1.0)


def test_a_round_that_contradicts_the_line_widens_the_uncertainty() -> None:
    between = asked(50_000_000)
    straight = align([asked(0), between, asked(100_000_000)], 100_000_000)
    stepped = Round(between.local_us + 20_000, between.t_us, between.wall_us, between.round_trip_us)
    bent = present(align([asked(0), stepped, asked(100_000_000)], 100_000_000))
    assert present(straight).uncertainty_us == 100
    assert bent.uncertainty_us == pytest.approx(100 + 20_000 - 100)


@given(
    st.floats(0.999, 1.001),
    st.lists(st.tuples(st.floats(50, 50_000), st.floats(0, 1)), min_size=2, max_size=5),
    st.floats(0, 1),
)
def test_no_sample_is_farther_than_the_uncertainty(rate: float, trips: list[tuple[float, float]], where: float) -> None:
    rounds = [
        asked(10_000_000 * place, rate=rate, trip_us=trip_us, late=late) for place, (trip_us, late) in enumerate(trips)
    ]
    last_us = rounds[-1].t_us + 5_000_000
    found = present(align(rounds, last_us))
    t_us = where * last_us
    # times since 1970 have 0.25 us in a double
    assert abs(found.local_us(t_us) - (START_US + rate * t_us)) <= found.uncertainty_us + 2
