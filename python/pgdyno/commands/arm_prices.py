"""What the arms of a comparison cost."""

from __future__ import annotations

from pathlib import Path

from pgdyno.analyse.price import PriceList, prices_of
from pgdyno.commands.price_file import read_prices
from pgdyno.store import RunData


def arm_prices(run: RunData, file: Path | None) -> PriceList | None:
    """The price file's prices, else those of the run's plan. Raises UsageError."""
    return prices_of(run.manifest) if file is None else read_prices(file)


def alone(run: RunData) -> str | None:
    """The run's only target; None where it has several."""
    names = {trial.target for trial in run.trials}
    return names.pop() if len(names) == 1 else None


def total_of(prices: PriceList | None, target: str | None) -> float | None:
    """What a target costs over the period; None where nobody says."""
    if prices is None or target is None or target not in prices.target:
        return None
    return prices.target[target].total(prices.years)


def alike(a: PriceList | None, b: PriceList | None) -> bool:
    """Whether two lists are in one currency and over one period."""
    return a is not None and b is not None and (a.currency, a.years) == (b.currency, b.years)
