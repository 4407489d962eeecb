"""One line of a price list, with its date and where it is from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum


class Origin(StrEnum):
    """Who said what something costs."""

    AMAZON = "Amazon"
    """Its Pricing API, now or when it was asked last."""
    PACKAGE = "package"
    """The list that is in the package."""


@dataclass(frozen=True, slots=True)
class Rate:
    """What one of something costs."""

    amount: float
    """USD, of one unit."""
    asked: date
    """As of when it is known."""
    origin: Origin = Origin.AMAZON
