"""Maps figures to positions on a drawing, and chooses ticks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps `low`…`high` to `start`…`end` (which may run backwards), linearly after `transform`."""

    low: float
    high: float
    start: float
    end: float
    transform: Callable[[float], float] = float

    def __call__(self, value: float) -> float:
        """Return the position of `value`, limited to the ends."""
        low, high = self.transform(self.low), self.transform(self.high)
        if high == low:
            return (self.start + self.end) / 2
        share = (self.transform(min(max(value, self.low), self.high)) - low) / (high - low)
        return self.start + share * (self.end - self.start)


STEPS = (1, 2, 2.5, 5, 10)
WHOLE_STEPS = (1, 2, 5, 10)


def linear_ticks(high: float, wanted: int = 5, steps: Sequence[float] = STEPS) -> list[float]:
    """Return 0 and round steps (one of `steps` times a power of ten), the last at or above `high`."""
    if high <= 0:
        return [0.0, 1.0]
    raw = high / wanted
    power: float = 10.0 ** math.floor(math.log10(raw))
    step = next(each * power for each in steps if each * power >= raw * 0.999)
    return [step * at for at in range(math.ceil(high / step - 1e-9) + 1)]


def log_ticks(low: float, high: float, most: int = 7) -> list[float]:
    """Return ticks of a log axis from at or below `low` to at or above `high`: 1, 2, 5 per decade, or fewer."""
    for mantissas in ((1, 2, 5), (1, 3), (1,)):
        ticks = _decades(low, high, mantissas)
        if len(ticks) <= most:
            return ticks
    every = math.ceil(len(ticks) / most)
    return [ticks[0] * 10.0 ** (every * at) for at in range(math.ceil((len(ticks) - 1) / every) + 1)]


def _decades(low: float, high: float, mantissas: Sequence[int]) -> list[float]:
    first, last = math.floor(math.log10(low)), math.floor(math.log10(high)) + 1
    every = [mantissa * 10.0**power for power in range(first, last + 1) for mantissa in mantissas]
    begin = max(at for at, tick in enumerate(every) if tick <= low * (1 + 1e-9))
    end = min(at for at, tick in enumerate(every) if tick >= high * (1 - 1e-9))
    # a single tick is no axis
    return every[begin : max(end, begin + 1) + 1]


FEW_CLIENTS = 14


def client_ticks(clients: Sequence[int], scale: Scale, widths: Callable[[int], float]) -> list[int]:
    """Return the measured `clients` that get a label: the ends first, then powers of two, then the rest if they are
    few.

    `widths` are the widths of labels, including the distance to the next one.
    """
    chosen: list[int] = []
    by_rank = sorted(set(clients), key=lambda each: (each not in (min(clients), max(clients)), each & (each - 1) != 0))
    few = len(by_rank) <= FEW_CLIENTS
    for each in (each for each in by_rank if few or each & (each - 1) == 0 or each in (by_rank[0], by_rank[1])):
        if all(abs(scale(each) - scale(other)) >= (widths(each) + widths(other)) / 2 for other in chosen):
            chosen.append(each)
    return sorted(chosen)
