"""The noise floor: the difference that a comparison shows between two equal arms."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgdyno.analyse.comparison import LEAST_DELTA, POWER, Verdict, compare, logs_of_units
from pgdyno.analyse.intervals import CONFIDENCE, Interval, upper_spread
from pgdyno.analyse.pairs import Arms, PointPairs
from pgdyno.messages import Message
from pgdyno.records.base import FEWEST_PAIRS

WIDEST_FLOOR = 0.10
"""Relative. With a wider floor, differences that users notice would count as none."""
EFFECTS = (0.01, 0.02, 0.05, 0.10)
"""Differences for which `pairs_for` is reported."""


FIND_DISTURBANCE = Message(
    "find-disturbance",
    "find what disturbs the two equal arms (pgdyno audit), run longer trials or more repeats, or compare without a "
    "floor",
)


@dataclass(frozen=True, slots=True)
class PointNoise:
    """One point of an A/A run."""

    label: Message
    pairs: int
    interval: Interval
    """95 % interval of the log ratio of the two equal arms, as a comparison has it."""
    spread: float
    """Standard deviation of one pair's log ratio."""
    spread_low: float
    """Lower end of its 95 % interval."""
    spread_high: float

    @property
    def planning_spread(self) -> float:
        """Return the spread for `pairs_for`."""
        return upper_spread(self.spread, self.pairs - 1)

    @property
    def floor(self) -> float:
        """Return the largest relative difference, of either sign, that the interval allows between the equal arms."""
        return math.expm1(max(abs(self.interval.low), abs(self.interval.high)))

    @property
    def differs(self) -> bool:
        """Return whether the arms differ although they should be equal."""
        return not self.interval.low <= 0 <= self.interval.high


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """The floor of a set-up."""

    base: str
    other: str
    points: tuple[PointNoise, ...]
    few: tuple[tuple[Message, int], ...]
    """Points with fewer than six pairs, with their number of pairs."""
    warnings: tuple[Message, ...]
    differences: tuple[str, ...] = ()
    """In what the arms are known to differ: then they are not equal, and their difference is no noise."""
    apart: tuple[Message, ...] = ()
    """Points at which the comparison calls one arm faster."""

    @property
    def floor(self) -> float:
        """Return the largest floor of the points; 0 without any."""
        return max((point.floor for point in self.points), default=0.0)

    @property
    def delta(self) -> float:
        """Return max(1 %, floor): the largest difference that counts as none on this set-up."""
        return max(LEAST_DELTA, self.floor)

    @property
    def refusal(self) -> FloorRefusal | None:
        """Return why it must not be the floor of a comparison; None if it may. No other code decides this."""
        if self.differences:
            return FloorRefusal(
                Message(
                    "floor-arms-unequal",
                    "its arms {base} and {other} are not equal: {differences}",
                    base=self.base,
                    other=self.other,
                    differences="; ".join(self.differences),
                ),
                Message(
                    "measure-equal-arms",
                    "measure the noise with two targets of the same version and settings, as pgdyno run noise-floor "
                    "does",
                ),
            )
        if self.few or not self.points:
            what = ", ".join(f"{pairs} at {label}" for label, pairs in self.few) or "none"
            return FloorRefusal(
                Message(
                    "floor-few-pairs",
                    "too few pairs for a noise floor ({pairs}): it needs at least {least} at every point",
                    pairs=what,
                    least=FEWEST_PAIRS,
                ),
                Message("repeat-floor", "repeat the A/A run with trial.repeats = {least} or more", least=FEWEST_PAIRS),
            )
        if self.floor > WIDEST_FLOOR:
            widest = max(self.points, key=lambda point: point.floor)
            return FloorRefusal(
                Message(
                    "floor-too-wide",
                    "the noise floor is ±{floor_percent:.1f} % at {point}, wider than {widest_percent:.0f} %: large "
                    "differences would count as none",
                    floor_percent=100 * widest.floor,
                    widest_percent=100 * WIDEST_FLOOR,
                    point=widest.label,
                ),
                FIND_DISTURBANCE,
            )
        if self.apart:
            return FloorRefusal(self.apart[0], FIND_DISTURBANCE)
        return None


@dataclass(frozen=True, slots=True)
class FloorRefusal:
    why: Message
    remedy: Message


def noise_floor(arms: Arms, unequal: Sequence[Message] = ()) -> NoiseFloor:
    """Return the floor from two equal arms.

    `unequal` is in what they are known to differ, besides a parameter of the sweep. Arms that the comparison shows to
    be faster or slower, with Holm's correction over all points, are not equal either; an interval that merely excludes
    zero is a warning, because that of equal arms does so in 5 of 100 cases.

    delta is the end of the A/A interval that is further from zero: as far as these pairs show, two equal servers may
    truly differ by that much on this set-up (their position on the disk, their order in a block). With several
    instances, each is one value, as in a comparison: repeats on one show nothing about the next. The interval of the
    spread is s · sqrt((n - 1) / chi-squared), exact for normal log ratios. Points with fewer than two pairs are left
    out.
    """
    (comparison,) = compare([arms])
    found, warnings = [], list(comparison.warnings)
    apart: list[Message] = []
    for point, pairs in zip(comparison.points, arms.points, strict=True):
        noise = _noise(pairs, arms)
        if noise is None:
            warnings.append(
                Message(
                    "noise-few-pairs",
                    "fewer than two pairs at {point}: no estimate of the noise",
                    point=str(point.label),
                )
            )
            continue
        found.append(noise)
        if noise.differs and noise.pairs >= FEWEST_PAIRS:
            differ = Message(
                "noise-arms-differ",
                "{base} and {other} differ at {point} although they should be equal: find the cause before "
                "comparing anything",
                base=arms.base,
                other=arms.other,
                point=str(point.label),
            )
            (apart if point.verdict in (Verdict.FASTER, Verdict.SLOWER) else warnings).append(differ)
    few = tuple((point.label, point.pairs) for point in comparison.points if point.pairs < FEWEST_PAIRS)
    swept = [f"{arms.by} is {arms.base} or {arms.other}"] if arms.by not in (None, "target") else []
    known = (*swept, *map(str, unequal))
    return NoiseFloor(arms.base, arms.other, tuple(found), few, tuple(warnings), known, tuple(apart))


def _noise(pairs: PointPairs, arms: Arms) -> PointNoise | None:
    differences = [pairs.log_ratio(each) for each in pairs.repeats if not pairs.duets or each in pairs.duets]
    interval = logs_of_units(pairs, arms).interval(CONFIDENCE)
    if interval is None or len(differences) < 2:
        return None
    # importing scipy is slow
    from scipy import special

    n = len(differences)
    spread = statistics.stdev(differences)
    low, high = (spread * math.sqrt((n - 1) / special.chdtri(n - 1, tail)) for tail in (0.025, 0.975))
    return PointNoise(pairs.label, n, interval, spread, low, high)


def pairs_for(effect: float, spread: float, delta: float = LEAST_DELTA, most: int = 1_000) -> int | None:
    """Return the pairs with which a true relative difference of `effect` is found with a chance of 80 %; None beyond
    `most`.

    The smallest n with (t + t80) · spread / sqrt(n) <= log(1 + effect) - log(1 + delta). `spread` is to be an upper end
    (`upper_spread`).
    """
    from scipy import special

    room = math.log1p(effect) - math.log1p(delta)
    n = np.arange(FEWEST_PAIRS, most + 1)
    quantiles = special.stdtrit(n - 1, (1 + CONFIDENCE) / 2) + special.stdtrit(n - 1, POWER)
    found = quantiles * spread / np.sqrt(n) <= room
    return int(n[np.argmax(found)]) if found.any() else None
