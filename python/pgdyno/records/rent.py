"""Costs of rented servers."""

from __future__ import annotations

from datetime import date

from pydantic import Field

from pgdyno.records.base import Instant, Record


class RentRecord(Record):
    """One target's server in one attempt of the run."""

    target: str
    instance: str
    """The rented class, possibly one of `instead`."""
    zone: str
    since: Instant
    """Time of the request; for a server that existed before, the start of the attempt."""
    until: Instant
    """End of the attempt, when the removal began; the same for a server that stays."""
    hourly: float | None = Field(default=None, ge=0)
    """Hourly cost with storage, at the run's prices; None if unknown."""
    currency: str | None = None
    price_date: date | None = None
    """Date of the price; for several prices, the oldest."""
    price_source: str | None = None
    """Where that is from: the provider's price list, or the package's."""

    @property
    def hours(self) -> float:
        """Return the duration of the rental."""
        return (self.until - self.since).total_seconds() / 3600.0

    @property
    def amount(self) -> float | None:
        """In the currency; None if unknown."""
        return None if self.hourly is None else self.hours * self.hourly
