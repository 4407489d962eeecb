"""The price: its total, its rates, dates and exclusions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pgdyno.analyse.price import Costs, PriceList
from pgdyno.records.price import latency_limit
from pgdyno.report import numbers
from pgdyno.report.costs import PricedCurve, priced_curves, rent_table
from pgdyno.report.report_content import Digest, Extras
from pgdyno.report.report_tables import Table
from pgdyno.report.sections.key_figures import curve_price
from pgdyno.report.sections.section import Absence, Block, Folded, Section
from pgdyno.report.translation import gettext, gettext_each

if TYPE_CHECKING:
    from pgdyno.report.sections.draft import Draft


def _blocks(draft: Draft) -> list[Block]:
    of, extras = draft.of, draft.extras
    blocks: list[Block] = list(_priced(of, extras.prices)) if extras.prices is not None else []
    rent = rent_table(of.manifest, of.run.trials)
    blocks += [rent] if rent is not None else []
    return blocks or [Absence(_absence(extras))]


def _priced(of: Digest, prices: PriceList) -> Iterator[Block]:
    """Yield nothing if the list has none of the targets."""
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
                numbers.between(numbers.rounded(price.per_million_low), numbers.rounded(price.per_million_high))
                if curve.peak.tps.half is not None
                else numbers.NOTHING,
            )
        )
    if not rows:
        return
    currency = prices.currency
    told = {"currency": currency, "span": numbers.span_of_years(prices.years)}
    table = Table(
        gettext("Price at each peak, for that throughput all the time; the interval is that of the throughput"),
        (
            gettext("series"),
            gettext("total over {span}, {currency}", **told),
            gettext("at, tps"),
            gettext("per tps, {currency}", **told),
            gettext("per million transactions, {currency}", **told),
            gettext("interval"),
        ),
        tuple(rows),
    )
    summary = gettext("Prices as of {date}, in {currency}, over {span}.", date=prices.date.isoformat(), **told)
    if prices.source:
        summary += gettext(" Source: {source}.", source=prices.source)
    if prices.left_out:
        left = gettext(" Left out: {parts}.", parts=gettext(", ").join(prices.left_out))
    else:
        left = gettext(" The price list names no exclusions.")
    used = {curve.series.target for curve in of.curves}
    rates = [row for name, costs in prices.target.items() if name in used for row in _rates(name, costs)]
    paid = (*gettext_each("target", "what", "paid"), gettext("amount, {currency}", currency=currency), gettext("count"))
    yield summary + left
    yield table
    at_target = _at_targets(of, prices)
    if at_target is not None:
        yield at_target
    yield Folded(gettext("Its rates"), [Table(gettext("Rates"), paid, tuple(rates), 3)])


def _at_targets(of: Digest, prices: PriceList) -> Table | None:
    """Return the price at the latency target; None if the list has no target."""
    limit = latency_limit(prices.latency) if prices.latency is not None else None
    if limit is None:
        return None
    rows = tuple(
        _at_target(curve) for curve in priced_curves(of, prices) if curve.price is not None and curve.limit is not None
    )
    headings = (
        *gettext_each("series", "point", "tps"),
        gettext("per tps, {currency}", currency=prices.currency),
        gettext("per million transactions, {currency}", currency=prices.currency),
    )
    return Table(gettext("Price at the highest throughput that meets {limit}", limit=limit.text), headings, rows, 2)


def _at_target(curve: PricedCurve) -> tuple[str, ...]:
    if curve.capacity is None or curve.at_capacity is None:
        return (curve.capacity_name, gettext("no measured point meets it"), *[numbers.NOTHING] * 3)
    point, price = curve.capacity.point.point, curve.at_capacity
    where = [numbers.clients(point.clients)]
    where += [gettext("rate {rate}", rate=f"{point.rate:,.10g}")] if point.rate is not None else []
    where += [gettext("closed loop")] if curve.capacity.closed_loop else []
    figures = (numbers.estimate(curve.capacity.tps), numbers.rounded(price.per_tps), numbers.rounded(price.per_million))
    return (curve.capacity_name, gettext(", ").join(where), *figures)


def _rates(name: str, costs: Costs) -> Sequence[tuple[str, ...]]:
    rows = [
        (name, part.name or gettext("purchase"), gettext("once"), f"{part.amount:,.10g}", f"{part.count:g}")
        for part in costs.purchase
    ]
    rows += [
        (
            name,
            part.name or gettext("subscription"),
            gettext("per {unit} and year", unit=part.per),
            f"{part.amount:,.10g}",
            f"{part.count:g}",
        )
        for part in costs.subscription
    ]
    rows += [
        (name, part.name or gettext("instance"), gettext("per hour"), f"{part.amount:,.10g}", f"{part.count:g}")
        for part in costs.hourly
    ]
    rows += [
        (
            name,
            part.name or part.unit,
            gettext("per {unit} and month", unit=part.unit),
            f"{part.amount:,.10g}",
            f"{part.count:g}",
        )
        for part in costs.monthly
    ]
    return rows


def _absence(extras: Extras) -> str:
    if extras.prices is not None:
        return gettext("The price list has none of these targets.")
    return gettext(
        "No prices given: to show a price next to each peak, set {key} in the plan, or use {command}.",
        key="[price]",
        command="pgdyno report RUN --price FILE",
    )


SECTION = Section(
    "price",
    title=lambda: gettext("Price"),
    link=lambda: gettext("Price"),
    blocks=_blocks,
)
