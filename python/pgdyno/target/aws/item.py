"""One thing at Amazon that is paid for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pgdyno.records.price import HOURS_A_YEAR, MONTHS_A_YEAR
from pgdyno.target.aws.rate import Rate

HOURS_A_MONTH = HOURS_A_YEAR / MONTHS_A_YEAR
Unit = Literal["hour", "GB", "IOPS", "MB/s", "metrics"]


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
