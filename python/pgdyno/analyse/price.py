"""What throughput costs: cost of ownership over a stated period, over what is served in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from pgdyno.analyse.estimate import Estimate

HOURS_A_YEAR = 8_760.0
MONTHS_A_YEAR = 12.0
SECONDS_A_YEAR = HOURS_A_YEAR * 3_600.0


class _Part(BaseModel):
    """Base: immutable; an unknown key is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    amount: float = Field(ge=0)
    """Of one, in the file's currency."""
    count: float = Field(default=1.0, gt=0)
    """How many."""
    name: str = ""


class Purchase(_Part):
    """Paid once; the whole of it falls into the period."""


class Subscription(_Part):
    """Paid each year, for every core, socket or server: `count` says how many there are."""

    per: Literal["core", "socket", "server"] = "server"


class Hourly(_Part):
    """Paid for each hour, of 8,760 a year; `count` instances."""


class Monthly(_Part):
    """Paid each month for `count` units: gigabytes of storage, provisioned IOPS, MB/s."""

    unit: Literal["GB", "IOPS", "MB/s", "month"] = "month"


class Costs(BaseModel):
    """All that one target costs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    purchase: tuple[Purchase, ...] = ()
    subscription: tuple[Subscription, ...] = ()
    hourly: tuple[Hourly, ...] = ()
    monthly: tuple[Monthly, ...] = ()

    def total(self, years: float) -> float:
        """purchase + years x (subscription + 8,760 x hourly + 12 x monthly), each an amount times its count."""
        yearly = [
            _sum(self.subscription),
            HOURS_A_YEAR * _sum(self.hourly),
            MONTHS_A_YEAR * _sum(self.monthly),
        ]
        return _sum(self.purchase) + years * math.fsum(yearly)


class PriceList(BaseModel):
    """A price file: what each target costs, over which period, as of when, and what is left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    currency: str
    date: date
    """As of which these prices are."""
    years: float = Field(gt=0)
    """The period over which purchases are spread."""
    left_out: tuple[str, ...] = ()
    """What is not in it: power, people, traffic."""
    target: dict[str, Costs]


class Price(BaseModel):
    """What a target's throughput costs at one point."""

    model_config = ConfigDict(frozen=True)

    total: float
    """Over the whole period."""
    per_tps: float
    """`total` for each transaction a second."""
    per_tps_low: float
    """Ends of its interval: `total` over the ends of throughput's."""
    per_tps_high: float
    per_million: float
    """For a million transactions, served at this rate all the time."""
    per_million_low: float
    per_million_high: float


def price_of(costs: Costs, years: float, tps: Estimate) -> Price | None:
    """The price at a throughput; None for a throughput of 0. An interval that reaches 0 has no upper end (inf).

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


def _sum(parts: Sequence[_Part]) -> float:
    return math.fsum(part.amount * part.count for part in parts)
