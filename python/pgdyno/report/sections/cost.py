"""The price: what it comes to, its rates, dates and what is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.analyse.price import Costs, PriceList
from pgdyno.report import numbers
from pgdyno.report.digest import Digest
from pgdyno.report.sections.four import curve_price
from pgdyno.report.tables import Table


@dataclass(frozen=True, slots=True)
class Cost:
    """What the section shows."""

    summary: str
    table: Table
    rates: Table


def cost_section(of: Digest, prices: PriceList) -> Cost | None:
    """None where the list has none of the targets."""
    rows = []
    for curve in of.curves:
        price = curve_price(curve, prices)
        if price is None:
            continue
        rows.append(
            (
                of.named[curve.series].name,
                f"{price.total:,.2f}",
                numbers.estimate(curve.peak.tps),
                numbers.rounded(price.per_tps),
                numbers.rounded(price.per_million),
                f"{numbers.rounded(price.per_million_low)} to {numbers.rounded(price.per_million_high)}"
                if curve.peak.tps.half is not None
                else numbers.NOTHING,
            )
        )
    if not rows:
        return None
    currency = prices.currency
    headings = ("series", f"total over {prices.years:g} years, {currency}", "at, tps", f"for each tps, {currency}")
    table = Table(
        "Price at each peak, as if it served so much all the time; the interval is that of the throughput",
        (*headings, f"a million transactions, {currency}", "interval"),
        tuple(rows),
    )
    left = f" Left out: {', '.join(prices.left_out)}." if prices.left_out else " Nothing is said to be left out."
    summary = f"Prices as of {prices.date.isoformat()}, in {currency}, over {prices.years:g} years.{left}"
    used = {curve.series.target for curve in of.curves}
    rates = [row for name, costs in prices.target.items() if name in used for row in _rates(name, costs)]
    return Cost(
        summary, table, Table("Rates", ("target", "what", "paid", f"amount, {currency}", "count"), tuple(rates), 3)
    )


def _rates(name: str, costs: Costs) -> Sequence[tuple[str, ...]]:
    rows = [
        (name, part.name or "purchase", "once", f"{part.amount:,.10g}", f"{part.count:g}") for part in costs.purchase
    ]
    rows += [
        (name, part.name or "subscription", f"a {part.per} and year", f"{part.amount:,.10g}", f"{part.count:g}")
        for part in costs.subscription
    ]
    rows += [
        (name, part.name or "instance", "an hour", f"{part.amount:,.10g}", f"{part.count:g}") for part in costs.hourly
    ]
    rows += [
        (name, part.name or part.unit, f"a {part.unit} and month", f"{part.amount:,.10g}", f"{part.count:g}")
        for part in costs.monthly
    ]
    return rows
