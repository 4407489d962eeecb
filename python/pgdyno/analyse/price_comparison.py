"""Comparison of two arms by the cost of their throughput."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from pgdyno.analyse.compare import Comparison, PointComparison, Verdict, verdict_of
from pgdyno.analyse.interval import Interval
from pgdyno.analyse.metric import Metric


class PriceVerdict(StrEnum):
    """The result of the pairs for the other arm's price per tps."""

    CHEAPER = "cheaper"
    DEARER = "dearer"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class PriceComparison:
    """One point, or all of them together."""

    label: str
    base_per_tps: float
    other_per_tps: float
    change: float
    """other / base - 1, of the price per tps; that per million transactions changes by the same ratio."""
    low: float
    high: float
    """Ends of its interval."""
    level: float
    verdict: PriceVerdict


def compare_prices(of: Comparison, base_total: float, other_total: float) -> list[PriceComparison]:
    """Return the price of throughput at every point with an interval; nothing for other metrics, or a total of 0.

    The price per tps is total / tps, and totals have no error: the interval of log(other / base) is log(other total /
    base total) minus that of throughput. Verdicts are as for a latency, less being better, within the comparison's
    delta and at the level at which throughput was judged (Holm's).
    """
    if of.metric is not Metric.TPS or base_total <= 0 or other_total <= 0:
        return []
    points = [*of.points, *([of.overall] if of.overall is not None else [])]
    found = [_priced(point, point.interval, of.delta, base_total, other_total) for point in points if point.interval]
    return [each for each in found if each is not None]


_WORDS = {
    Verdict.FASTER: PriceVerdict.CHEAPER,
    Verdict.SLOWER: PriceVerdict.DEARER,
    Verdict.SAME: PriceVerdict.SAME,
    Verdict.INCONCLUSIVE: PriceVerdict.INCONCLUSIVE,
}


def _priced(
    point: PointComparison, interval: Interval | None, delta: float, base_total: float, other_total: float
) -> PriceComparison | None:
    if interval is None:
        return None
    totals = math.log(other_total / base_total)
    # the certainty of throughput carries over to the price: less is better, so the sign is reversed
    low, high = totals - interval.high, totals - interval.low
    mirrored = replace(interval, low=low, high=high)
    return PriceComparison(
        label=str(point.label),
        base_per_tps=base_total / point.base,
        other_per_tps=other_total / point.other,
        change=math.expm1(totals - interval.mean),
        low=math.expm1(low),
        high=math.expm1(high),
        level=interval.level,
        verdict=_WORDS[verdict_of(mirrored, point.pairs, delta, sign=-1)],
    )
