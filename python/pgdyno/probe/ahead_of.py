"""A host's clock offset."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ahead:
    """How far its wall clock is ahead of this host's."""

    us: float
    uncertainty_us: float
    """Half of the fastest round trip."""


HERE = Ahead(0.0, 0.0)
"""The offset of this host itself."""
