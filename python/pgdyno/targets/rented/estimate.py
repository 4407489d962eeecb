"""The estimated cost of rented servers: every billed item with its price, and the sum."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Literal

from pgdyno.messages import Message
from pgdyno.plan.model import Plan, rented_targets
from pgdyno.records.base import server_name
from pgdyno.records.price import HOURS_A_YEAR, MONTHS_A_YEAR, Costs, Hourly, Monthly, PriceList

CURRENCY = "USD"
HOURS_A_MONTH = HOURS_A_YEAR / MONTHS_A_YEAR
Unit = Literal["hour", "vCPU", "ACU", "GB", "IOPS", "MB/s", "metrics", "I/O"]
HOURLY = ("hour", "vCPU", "ACU")
ONCE = ("I/O",)
RESERVE = 2.0
"""How many times its planned length a trial may take without exceeding the most that a run may cost."""
STALE_DAYS = 180
"""The age in days from which a price may no longer be right."""


class Origin(StrEnum):
    """The source of a price."""

    PROVIDER = "provider"
    """The provider's price service, asked now or earlier."""
    PACKAGE = "package"
    """The price list in the package."""


@dataclass(frozen=True, slots=True)
class Rate:
    """The price of one unit."""

    amount: float
    """USD per unit."""
    asked: date
    """The date of the price."""
    origin: Origin = Origin.PROVIDER


@dataclass(frozen=True, slots=True)
class Item:
    target: str
    what: str
    count: float
    unit: Unit
    """Instances, processors and capacity units are billed by the hour, requests once, all else by the month."""
    rate: Rate | None
    """The price per unit; None if unknown."""

    @property
    def words(self) -> str:
        """`100 GB of gp3`, `db.m7g.large`."""
        # capacity units come in halves
        count = f"{self.count:,.{0 if float(self.count).is_integer() else 1}f}"
        return self.what if self.unit == "hour" else f"{count} {self.unit} of {self.what}"

    @property
    def hourly(self) -> float | None:
        """USD per hour; None if unknown."""
        if self.rate is None:
            return None
        if self.unit in ONCE:
            return 0.0
        return self.count * self.rate.amount / (1.0 if self.unit in HOURLY else HOURS_A_MONTH)

    @property
    def once(self) -> float:
        """USD for the whole rental, however long it is; 0 if unknown."""
        return self.count * self.rate.amount if self.rate is not None and self.unit in ONCE else 0.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated cost of a plan or of some items."""

    items: tuple[Item, ...]
    hours: float | None
    """The length of the rental; None if the duration of the trials is unknown."""
    left_out: tuple[str, ...]
    provider: str = ""
    """The provider of the price list, such as `Amazon`."""
    why_not: str | None = None
    """Why the provider's price service gave no answer, or None."""
    most: float | None = None
    """The most that it may cost in USD, with the dearest choices; a run stops before it costs more. None if unknown."""
    assumed: tuple[Message, ...] = ()
    """Assumptions behind items whose count nobody knows before the run."""

    @property
    def unknown(self) -> list[Item]:
        return [each for each in self.items if each.rate is None]

    @property
    def hourly(self) -> float:
        """USD per hour, without items of unknown price."""
        return math.fsum(each.hourly or 0.0 for each in self.items)

    @property
    def once(self) -> float:
        """USD that do not depend on the length, without items of unknown price."""
        return math.fsum(each.once for each in self.items)

    @property
    def total(self) -> float | None:
        """USD; None if the length or a price is unknown."""
        return None if self.hours is None or self.unknown else self.hours * self.hourly + self.once

    def days_old(self, today: date) -> int:
        """Return the age of the oldest price in days."""
        return 0 if self.asked is None else (today - self.asked).days

    @property
    def asked(self) -> date | None:
        return min(self._dates(*Origin), default=None)

    @property
    def source(self) -> str:
        """Describes the source of the prices, with the dates of those in the package."""
        asked, listed = f"{self.provider}'s price list", self._dates(Origin.PACKAGE)
        if not listed:
            return asked
        package = f"list prices of {format_dates(listed)}, from the package"
        return f"{asked}, and {package}" if self._dates(Origin.PROVIDER) else package

    @property
    def is_listed(self) -> bool:
        """Whether some prices come from the package."""
        return bool(self._dates(Origin.PACKAGE))

    def _dates(self, *origins: Origin) -> list[date]:
        return sorted(each.rate.asked for each in self.items if each.rate is not None and each.rate.origin in origins)


def format_dates(dates: Sequence[date]) -> str:
    """Format the range of the sorted `dates`: `2026-07-20`, or `2021-03-30 to 2026-10-07`."""
    return f"{dates[0]}" if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"


def price_list(plan: Plan, found: Estimate) -> PriceList | None:
    """Convert the estimate to the plan's format for the run's reports; None unless every target has a price."""
    if found.unknown or found.asked is None or rented_targets(plan).keys() != plan.target.keys():
        return None
    # an amount per hour cannot contain what is billed once
    once = tuple(dict.fromkeys(f"{each.unit} of {each.what}" for each in found.items if each.unit in ONCE))
    left_out = (*found.left_out, *once)
    # the generator is not part of a server's cost
    # a trial runs on one instance of several, so a target costs what one of them costs
    first = {name: name if spec.instance_count == 1 else server_name(name, 1) for name, spec in plan.target.items()}
    costs = {name: _costs([each for each in found.items if each.target == server]) for name, server in first.items()}
    return PriceList(
        currency=CURRENCY, date=found.asked, source=found.source, years=1.0, left_out=left_out, target=costs
    )


def _costs(items: list[Item]) -> Costs:
    hourly = [
        Hourly(amount=each.rate.amount, count=each.count, name=each.what)
        for each in items
        if each.rate is not None and each.unit in HOURLY
    ]
    monthly = [
        Monthly(amount=each.rate.amount, count=each.count, name=each.what, unit=each.unit)  # type: ignore[arg-type]
        for each in items
        if each.rate is not None and each.unit not in (*HOURLY, *ONCE)
    ]
    return Costs(hourly=tuple(hourly), monthly=tuple(monthly))
