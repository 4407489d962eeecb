"""Prices of the arms of a comparison."""

from __future__ import annotations

from pathlib import Path

from pgdyno.analyse.price import PriceList, prices_of
from pgdyno.commands.price_file import read_prices
from pgdyno.store import RunData


def arm_prices(run: RunData, file: Path | None) -> PriceList | None:
    """Returns the prices in the price file, or else those of the run's plan. Raises UsageError."""
    return prices_of(run.manifest) if file is None else read_prices(file)


def alone(run: RunData) -> str | None:
    """Returns the run's only target, or None if the run has several."""
    names = {trial.target for trial in run.trials}
    return names.pop() if len(names) == 1 else None


def total_of(prices: PriceList | None, target: str | None) -> float | None:
    """Returns a target's price over the period, or None without a price."""
    if prices is None or target is None or target not in prices.target:
        return None
    return prices.target[target].total(prices.years)


def alike(a: PriceList | None, b: PriceList | None) -> bool:
    """Tells whether two price lists share a currency and a period."""
    return a is not None and b is not None and (a.currency, a.years) == (b.currency, b.years)
