"""A host's clock against ours."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ahead:
    """By how much its wall clock is ahead."""

    us: float
    uncertainty_us: float
    """Half of the quickest round trip."""


HERE = Ahead(0.0, 0.0)
"""This host's own."""
