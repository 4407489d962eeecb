"""What throughput costs, and two arms compared by it."""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, ValidationError

from pgdyno.analyse.comparison import Comparison, PointComparison, Verdict, verdict_of
from pgdyno.analyse.intervals import Estimate, Interval
from pgdyno.analyse.pairs import Metric
from pgdyno.errors import StoreError
from pgdyno.records import Manifest
from pgdyno.records.price import HOURS_A_YEAR, Costs, Hourly, Monthly, PriceList, Purchase, Subscription

__all__ = ["Costs", "Hourly", "Monthly", "Price", "PriceList", "Purchase", "Subscription", "price_of", "prices_of"]

SECONDS_A_YEAR = HOURS_A_YEAR * 3_600.0


def prices_of(manifest: Manifest) -> PriceList | None:
    """Return the price list of the run's plan, as it was at the start; None without one. Raises StoreError."""
    prices = manifest.plan.get("price")
    try:
        return None if prices is None else PriceList.model_validate(prices)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        at = ".".join(map(str, ("plan", "price", *first["loc"])))
        raise StoreError(
            f"cannot read the manifest of {manifest.run}: {at}: {first['msg'].lower()}",
            hint="the file was changed or damaged",
        ) from error


class Price(BaseModel):
    """The cost of a target's throughput at one point."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    total: float
    """Over the whole period."""
    per_tps: float
    """`total` per transaction per second."""
    per_tps_low: float
    """Ends of its interval: `total` over the ends of throughput's."""
    per_tps_high: float
    per_million: float
    """Per million transactions, at this rate for the whole period."""
    per_million_low: float
    per_million_high: float


def price_of(costs: Costs, years: float, tps: Estimate) -> Price | None:
    """Return the price at a throughput; None for a throughput of 0. An interval that reaches 0 has no upper end (inf).

    per_tps = total / tps; per_million = total / (tps x seconds of the period) x 1,000,000.
    """
    if tps.mean <= 0:
        return None
    total = costs.total(years)
    each = [total / rate if rate > 0 else math.inf for rate in (tps.mean, tps.high, tps.low)]
    millions = [value * 1e6 / (years * SECONDS_A_YEAR) for value in each]
    return Price(
        total=total,
        per_tps=each[0],
        per_tps_low=each[1],
        per_tps_high=each[2],
        per_million=millions[0],
        per_million_low=millions[1],
        per_million_high=millions[2],
    )


class PriceVerdict(StrEnum):
    """The result of the pairs for the other arm's price per tps."""

    CHEAPER = "cheaper"
    DEARER = "dearer"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class PriceComparison:
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
    found = [
        _price_comparison(point, point.interval, of.delta, base_total, other_total)
        for point in points
        if point.interval
    ]
    return [each for each in found if each is not None]


_WORDS = {
    Verdict.FASTER: PriceVerdict.CHEAPER,
    Verdict.SLOWER: PriceVerdict.DEARER,
    Verdict.SAME: PriceVerdict.SAME,
    Verdict.INCONCLUSIVE: PriceVerdict.INCONCLUSIVE,
}


def _price_comparison(
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
        verdict=_WORDS[verdict_of(mirrored, point.pairs, delta, sign=-1, fewest=point.fewest)],
    )
