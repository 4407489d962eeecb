"""Measures clock offsets of generators from the fastest of several answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

ROUNDS = 9


@dataclass(frozen=True, slots=True)
class Offset:
    """The offset of another host's wall clock."""

    ahead_us: int
    """How far it is ahead of the local clock."""
    round_trip_us: int
    """Of the fastest answer; half of it bounds the error of the offset."""


def measure_offset(ask: Callable[[], int], rounds: int = ROUNDS) -> Offset:
    """Measures an offset; `ask` returns the other clock in microseconds since 1970.

    (Cristian 1989, probabilistic clock synchronization)
    """
    found = []
    for _ in range(rounds):
        before, wall_us = time.monotonic_ns(), time.time_ns() // 1000
        other_us = ask()
        trip_us = (time.monotonic_ns() - before) // 1000
        found.append(Offset(other_us - wall_us - trip_us // 2, trip_us))
    return min(found, key=lambda offset: offset.round_trip_us)
