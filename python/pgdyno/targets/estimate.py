"""What rented servers cost: the things that are paid for, each with its price, and their sum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Literal

from pgdyno.plan.model import Plan
from pgdyno.plan.targets import rented_targets
from pgdyno.records.price import HOURS_A_YEAR, MONTHS_A_YEAR, Costs, Hourly, Monthly, PriceList

CURRENCY = "USD"
HOURS_A_MONTH = HOURS_A_YEAR / MONTHS_A_YEAR
Unit = Literal["hour", "GB", "IOPS", "MB/s", "metrics"]


class Origin(StrEnum):
    """Who said what something costs."""

    PROVIDER = "provider"
    """Its price service, now or when it was asked last."""
    PACKAGE = "package"
    """The list that is in the package."""


@dataclass(frozen=True, slots=True)
class Rate:
    """What one of something costs."""

    amount: float
    """USD, of one unit."""
    asked: date
    """As of when it is known."""
    origin: Origin = Origin.PROVIDER


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that is paid for."""

    target: str
    what: str
    count: float
    unit: Unit
    """Instances are paid by the hour, all else by the month."""
    rate: Rate | None
    """Of one; None: nobody says."""

    @property
    def words(self) -> str:
        """`100 GB of gp3`, `db.m7g.large`."""
        return self.what if self.unit == "hour" else f"{self.count:,.0f} {self.unit} of {self.what}"

    @property
    def hourly(self) -> float | None:
        """USD."""
        if self.rate is None:
            return None
        return self.count * self.rate.amount / (1.0 if self.unit == "hour" else HOURS_A_MONTH)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Of a plan, or of some things."""

    items: tuple[Item, ...]
    hours: float | None
    """For which it is all rented; None: nobody knows how long the trials take."""
    left_out: tuple[str, ...]
    provider: str = ""
    """Whose price list it is, such as `Amazon`."""
    why_not: str | None = None
    """Why the provider could not be asked; None while it could."""

    @property
    def unknown(self) -> list[Item]:
        """Those without a price."""
        return [each for each in self.items if each.rate is None]

    @property
    def hourly(self) -> float:
        """USD an hour, without what is unknown."""
        return math.fsum(each.hourly or 0.0 for each in self.items)

    @property
    def total(self) -> float | None:
        """USD; None without an end, or where something is unknown."""
        return None if self.hours is None or self.unknown else self.hours * self.hourly

    @property
    def asked(self) -> date | None:
        """As of when the oldest of its prices is known."""
        return min(self._dates(*Origin), default=None)

    @property
    def source(self) -> str:
        """Where its prices are from, with the dates of the package's."""
        asked, listed = f"{self.provider}'s price list", self._dates(Origin.PACKAGE)
        if not listed:
            return asked
        package = f"list prices of {between(listed)}, from the package"
        return f"{asked}, and {package}" if self._dates(Origin.PROVIDER) else package

    @property
    def is_listed(self) -> bool:
        """Whether some of its prices are the package's."""
        return bool(self._dates(Origin.PACKAGE))

    def _dates(self, *origins: Origin) -> list[date]:
        return sorted(each.rate.asked for each in self.items if each.rate is not None and each.rate.origin in origins)


def between(dates: Sequence[date]) -> str:
    """`2026-07-20`, or `2021-03-30 to 2026-10-07`; of `dates` in their order."""
    return f"{dates[0]}" if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"


def price_list(plan: Plan, found: Estimate) -> PriceList | None:
    """The same as a plan has it, for the run's reports; None unless every target has a price."""
    if found.unknown or found.asked is None or rented_targets(plan).keys() != plan.target.keys():
        return None
    # the generator is no part of what a server costs
    costs = {name: _costs([each for each in found.items if each.target == name]) for name in plan.target}
    return PriceList(
        currency=CURRENCY, date=found.asked, source=found.source, years=1.0, left_out=found.left_out, target=costs
    )


def _costs(items: list[Item]) -> Costs:
    hourly = [
        Hourly(amount=each.rate.amount, count=each.count, name=each.what)
        for each in items
        if each.rate is not None and each.unit == "hour"
    ]
    monthly = [
        Monthly(amount=each.rate.amount, count=each.count, name=each.what, unit=each.unit)
        for each in items
        if each.rate is not None and each.unit != "hour"
    ]
    return Costs(hourly=tuple(hourly), monthly=tuple(monthly))
