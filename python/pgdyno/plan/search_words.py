"""The goals of a search, and latency targets such as `p99 < 10ms`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pgdyno.units import parse_duration_s

PERCENTILES = {
    "p50": "p50",
    "p75": "p75",
    "p90": "p90",
    "p95": "p95",
    "p99": "p99",
    "p99.9": "p999",
    "p99.99": "p9999",
    "mean": "mean",
    "max": "max",
}
"""Figures that a target may limit, with their names in a trial's record."""
_TARGET = re.compile(r"\s*(\S+?)\s*<\s*(.+?)\s*")
_PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")


@dataclass(frozen=True, slots=True)
class LatencyTarget:
    """A limit on one figure of a latency."""

    name: str
    """As in a plan: p99.9"""
    limit_ns: float

    @property
    def field(self) -> str:
        """The figure's name in the record of a latency."""
        return PERCENTILES[self.name]


def parse_target(text: str) -> LatencyTarget:
    """Parses `p99 < 10ms`. Raises ValueError with the correct format."""
    match = _TARGET.fullmatch(text)
    if match is None or match[1] not in PERCENTILES:
        raise ValueError(f'{text!r} is not a latency target; write "p99 < 10ms", on one of {", ".join(PERCENTILES)}')
    limit_s = parse_duration_s(match[2])
    if limit_s <= 0:
        raise ValueError("a latency target must be more than 0ms")
    return LatencyTarget(match[1], limit_s * 1e9)


def latency_targets(value: object) -> object:
    """Validates `search.latency`: a target for all scripts together, or a table of targets by script.

    Raises ValueError.
    """
    targets = value.values() if isinstance(value, dict) else [value]
    if value is not None:
        for target in targets:
            if not isinstance(target, str):
                raise ValueError('write a latency target as text; such as latency = "p99 < 10ms"')
            parse_target(target)
        if not targets:
            raise ValueError("must not be empty")
    return value


def percent(text: str) -> str:
    """Validates `5%`. Raises ValueError."""
    share_of(text)
    return text


def share_of(text: str) -> float:
    """Returns 0.05 for `5%`. Raises ValueError."""
    match = _PERCENT.fullmatch(text)
    share = float(match[1]) / 100 if match is not None else 0.0
    if not 0.001 <= share <= 1:
        raise ValueError(f'{text!r} is not right; write a share from 0.1% to 100%, such as "5%"')
    return share
