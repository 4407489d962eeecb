"""The price: its total, its rates, dates and exclusions."""

from collections.abc import Iterator, Sequence

from pgdyno.analyse.price import Costs, PriceList
from pgdyno.records.promise import Promise
from pgdyno.report import numbers
from pgdyno.report.costs import PricedCurve, latency_target, priced_curves, rent_table
from pgdyno.report.report_content import Digest, Extras
from pgdyno.report.sections.draft import Draft, Section
from pgdyno.report.sections.section_blocks import Absence, Block, Folded
from pgdyno.report.table import Table
from pgdyno.report.translation import enumeration, gettext, gettext_each, gettext_noop


def _blocks(draft: Draft) -> list[Block]:
    of, extras = draft.of, draft.extras
    return cost_blocks(of, extras.prices) or [Absence(_absence(extras))]


def cost_blocks(of: Digest, prices: PriceList | None, latency: Promise | None = None) -> list[Block]:
    """Return prices at peaks and at a latency target (`latency`, else the list's), and costs of rented servers."""
    blocks: list[Block] = list(_price_blocks(of, prices, latency)) if prices is not None else []
    rent = rent_table(of.manifest, of.run.trials)
    return [*blocks, rent] if rent is not None else blocks


def _price_blocks(of: Digest, prices: PriceList, latency: Promise | None) -> Iterator[Block]:
    """Yield nothing if the list has none of the targets."""
    limit = latency_target(prices, latency)
    curves = priced_curves(of, prices, limit)
    if all(curve.target not in prices.target for curve in curves):
        return
    currency = prices.currency
    told = {"currency": currency, "span": numbers.span_of_years(prices.years)}
    headings: tuple[str, ...] = (
        gettext("series"),
        gettext("total over {span}, {currency}", **told),
        gettext("at, tps"),
        gettext("per tps, {currency}", **told),
        gettext("per million transactions, {currency}", **told),
        gettext("interval"),
    )
    caption = gettext("Price at each peak, for that throughput all the time; the interval is that of the throughput")
    summary = gettext("Prices as of {date}, in {currency}, over {span}.", date=prices.date.isoformat(), **told)
    if prices.source:
        summary += gettext(" Source: {source}.", source=prices.source)
    if prices.left_out:
        left = gettext(" Left out: {parts}.", parts=gettext(", ").join(prices.left_out))
    else:
        left = gettext(" The price list names no exclusions.")
    missing = dict.fromkeys(curve.target for curve in curves if curve.target not in prices.target)
    lacks = gettext(" The price list has no target {names}.", names=enumeration([*missing])) if missing else ""
    yield summary + left + lacks
    yield Table(caption, headings, tuple(map(_at_peak, curves)))
    limited = [curve for curve in curves if curve.price is not None and curve.capacity_name]
    if limited and limit is not None:
        at_limit = gettext("Price at the highest throughput that meets {limit}", limit=limit.text)
        headings = (*gettext_each("series", "point", "tps"), *headings[3:5])
        yield Table(at_limit, headings, tuple(map(_at_limit, limited)), 2)
    paid = (*gettext_each("target", "what", "paid"), gettext("amount, {currency}", currency=currency), gettext("count"))
    used = {curve.target for curve in curves}
    rates = [row for name, costs in prices.target.items() if name in used for row in _rates(name, costs)]
    yield Folded(gettext("Its rates"), [Table(gettext("Rates"), paid, tuple(rates), 3)])


def _at_peak(curve: PricedCurve) -> tuple[str, ...]:
    price = curve.price
    if price is None:
        # no transaction succeeded, or the list lacks the target
        return (curve.name, *[numbers.NOTHING] * 5)
    interval = numbers.range_text(numbers.round_text(price.per_million_low), numbers.round_text(price.per_million_high))
    return (
        curve.name,
        f"{price.total:,.2f}",
        numbers.estimate(curve.curve.peak.tps),
        numbers.round_text(price.per_tps),
        numbers.round_text(price.per_million),
        numbers.NOTHING if curve.curve.peak.tps.half is None else interval,
    )


def _at_limit(curve: PricedCurve) -> tuple[str, ...]:
    if curve.capacity is None or curve.at_capacity is None:
        return (curve.capacity_name, gettext("no measured point meets it"), *[numbers.NOTHING] * 3)
    point, price = curve.capacity.point.point, curve.at_capacity
    where = [numbers.clients(point.clients)]
    where += [gettext("rate {rate}", rate=f"{point.rate:,.10g}")] if point.rate is not None else []
    where += [gettext("closed loop")] if curve.capacity.closed_loop else []
    figures = (
        numbers.estimate(curve.capacity.tps),
        numbers.round_text(price.per_tps),
        numbers.round_text(price.per_million),
    )
    return (curve.capacity_name, gettext(", ").join(where), *figures)


def _rates(name: str, costs: Costs) -> Sequence[tuple[str, ...]]:
    per_year = [(part, gettext("per {unit} and year", unit=part.per)) for part in costs.subscription]
    per_month = [(part, gettext("per {unit} and month", unit=part.unit)) for part in costs.monthly]
    parts = [
        *((part, gettext("purchase"), gettext("once")) for part in costs.purchase),
        *((part, gettext("subscription"), paid) for part, paid in per_year),
        *((part, gettext("instance"), gettext("per hour")) for part in costs.hourly),
        *((part, part.unit, paid) for part, paid in per_month),
    ]
    return [(name, part.name or what, paid, f"{part.amount:,.10g}", f"{part.count:g}") for part, what, paid in parts]


def _absence(extras: Extras) -> str:
    if extras.prices is not None:
        return gettext("The price list has none of these targets.")
    return gettext(
        "No prices given: to show a price next to each peak, set {key} in the plan, or use {command}.",
        key="[price]",
        command="pgdyno report RUN --price FILE",
    )


SECTION = Section("price", gettext_noop("Price"), _blocks)
