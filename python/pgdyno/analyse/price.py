"""The cost of throughput: cost of ownership over a stated period, divided by the work done in it."""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict

from pgdyno.analyse.estimate import Estimate
from pgdyno.records import Manifest
from pgdyno.records.price import HOURS_A_YEAR, Costs, Hourly, Monthly, PriceList, Purchase, Subscription

__all__ = ["Costs", "Hourly", "Monthly", "Price", "PriceList", "Purchase", "Subscription", "price_of", "prices_of"]

SECONDS_A_YEAR = HOURS_A_YEAR * 3_600.0


def prices_of(manifest: Manifest) -> PriceList | None:
    """Return the price list of the run's plan, as it was at the start; None without one."""
    told = manifest.plan.get("price")
    return None if told is None else PriceList.model_validate(told)


class Price(BaseModel):
    """The cost of a target's throughput at one point."""

    model_config = ConfigDict(frozen=True)

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
