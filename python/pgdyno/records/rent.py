"""What a rented server was paid for."""

from __future__ import annotations

from datetime import date

from pydantic import Field

from pgdyno.records.base import Instant, Record


class RentRecord(Record):
    """One target's server in one attempt at the run."""

    target: str
    instance: str
    """The class that was rented: of `instead`, perhaps."""
    zone: str
    since: Instant
    """When it was asked for; of a server that was up before, when the attempt began."""
    until: Instant
    """When the attempt ended, and its removal began; of one that stays, likewise."""
    hourly: float | None = Field(default=None, ge=0)
    """What it costs an hour with its storage, by the run's prices; None: nobody says."""
    currency: str | None = None
    price_date: date | None = None
    """As of when that is known; of several prices the oldest."""
    price_source: str | None = None
    """Where that is from: Amazon's price list, or the package's."""

    @property
    def hours(self) -> float:
        """For which it was there."""
        return (self.until - self.since).total_seconds() / 3600.0

    @property
    def amount(self) -> float | None:
        """In the currency; None: nobody says."""
        return None if self.hourly is None else self.hours * self.hourly
