"""Prices of targets, from a plan or a price file."""

import math
from collections.abc import Sequence
from datetime import date
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from pgdyno.records.promise import parse_latency

HOURS_A_YEAR = 8_760.0
MONTHS_A_YEAR = 12.0
HIGHEST = 1e15
"""The largest amount and number of units: sums stay far below the largest float."""
SHORTEST_YEARS, LONGEST_YEARS = 1e-6, 1_000.0
"""The shortest period is half a minute."""


def _limit(text: str) -> str:
    parse_latency(text)
    return text


class _Part(BaseModel):
    """Base: immutable; refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    amount: float = Field(ge=0, le=HIGHEST)
    """Per unit, in the file's currency."""
    count: float = Field(default=1.0, gt=0, le=HIGHEST)
    """Number of units."""
    name: str = ""


class Purchase(_Part):
    """Paid once; counted in full in the period."""


class Subscription(_Part):
    """Paid per year, for every core, socket or server: `count` is their number."""

    per: Literal["core", "socket", "server"] = "server"


class Hourly(_Part):
    """Paid per hour, of 8,760 a year, for `count` instances."""


class Monthly(_Part):
    """Paid per month for `count` units: gigabytes of storage, provisioned IOPS, MB/s, metrics."""

    unit: Literal["GB", "IOPS", "MB/s", "metrics", "month"] = "month"


class Costs(BaseModel):
    """All costs of one target."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    purchase: tuple[Purchase, ...] = ()
    subscription: tuple[Subscription, ...] = ()
    hourly: tuple[Hourly, ...] = ()
    monthly: tuple[Monthly, ...] = ()

    def total(self, years: float) -> float:
        """Return purchase + years x (subscription + 8,760 x hourly + 12 x monthly), each an amount times its count."""
        yearly = [_sum(self.subscription), HOURS_A_YEAR * _sum(self.hourly), MONTHS_A_YEAR * _sum(self.monthly)]
        return _sum(self.purchase) + years * math.fsum(yearly)


class PriceList(BaseModel):
    """A price file: the costs of each target, the period, the date, and exclusions."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    currency: str
    date: date
    """Date of these prices."""
    source: str = ""
    years: float = Field(ge=SHORTEST_YEARS, le=LONGEST_YEARS)
    """The period over which purchases are spread."""
    left_out: tuple[str, ...] = ()
    """What the prices exclude: power, people, traffic."""
    latency: Annotated[str, AfterValidator(_limit)] | None = None
    """`p99 < 10ms`: prices are also reported at the highest throughput that meets this limit."""
    target: Annotated[dict[str, Costs], Field(min_length=1)]

    def hourly(self) -> float:
        """Return the hourly cost of all targets together."""
        return math.fsum(self.hourly_of(name) for name in self.target)

    def hourly_of(self, target: str) -> float:
        """Return the hourly cost of `target`, which must be in the list."""
        return self.target[target].total(self.years) / (self.years * HOURS_A_YEAR)


def comparable_prices(a: PriceList, b: PriceList) -> bool:
    """Return whether prices of two lists count the same things in the same money; their dates may differ."""
    return (a.currency, a.years, {*a.left_out}) == (b.currency, b.years, {*b.left_out})


def _sum(parts: Sequence[_Part]) -> float:
    return math.fsum(part.amount * part.count for part in parts)
