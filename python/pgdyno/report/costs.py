"""Prices next to throughput, and what a run's rented servers really cost."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pgdyno.analyse.capacity import Capacity, capacity_at
from pgdyno.analyse.price import Price, PriceComparison, PriceList, price_of
from pgdyno.analyse.scaling import ScalingCurve
from pgdyno.analyse.series import Series, label
from pgdyno.records import Manifest, Outcome, RentRecord, TrialRecord
from pgdyno.records.price import comparable_prices
from pgdyno.records.promise import Promise, parse_latency
from pgdyno.report import numbers
from pgdyno.report.answers.comparison import percent
from pgdyno.report.report_content import Digest
from pgdyno.report.table import Table
from pgdyno.report.translation import gettext
from pgdyno.units import format_duration


@dataclass(frozen=True, slots=True)
class PricedCurve:
    curve: ScalingCurve
    name: str
    price: Price | None
    """At its peak; None if the price list lacks the target, or nothing succeeded."""
    capacity: Capacity | None
    """At the latency target; None without one, and if no point met it. Rates of an open loop are points of one curve.
    """
    capacity_name: str
    """The name without the rate; empty if an earlier curve differs only in its rate: they have one capacity."""
    at_capacity: Price | None

    @property
    def target(self) -> str:
        return self.curve.series.target


def latency_target(prices: PriceList | None, asked: Promise | None) -> Promise | None:
    """Return the target that was asked for, otherwise that of the price list."""
    return asked or (parse_latency(prices.latency) if prices is not None and prices.latency is not None else None)


def priced_curves(of: Digest, prices: PriceList | None, limit: Promise | None) -> list[PricedCurve]:
    """Return every curve with its capacity at `limit` and, with `prices`, what both cost."""
    found = []
    seen: set[Series] = set()
    for curve in of.curves:
        series = replace(curve.series, rate=None)
        points = [point for point in of.points if replace(point.series, rate=None) == series]
        capacity = capacity_at(points, limit) if limit is not None else None
        named = "" if series in seen else _name_without_rate(of, curve.series)
        seen.add(series)
        costs = prices.target.get(series.target) if prices is not None else None
        at_peak, at_capacity = (
            price_of(costs, prices.years, tps) if prices is not None and costs is not None and tps is not None else None
            for tps in (curve.peak.tps, capacity.tps if capacity is not None else None)
        )
        name = of.named[curve.series].name
        found.append(PricedCurve(curve, name, at_peak, capacity, named, at_capacity))
    return found


def _name_without_rate(of: Digest, series: Series) -> str:
    if all(each.rate is None for each in of.named):
        return of.named[series].name
    return label(series, [name for name in of.parameters if name != "rate" and name not in of.following])


def price_comparison_lines(base: str, other: str, found: Sequence[PriceComparison]) -> Iterator[str]:
    """Compare the price of the other arm's throughput with the base's, a line per point."""
    for each in found:
        interval = f"{percent(each.low, plus=True).removesuffix(' %')} to {percent(each.high, plus=True)}"
        yield (
            f"price per tps, {each.label}: {numbers.round_text(each.other_per_tps)} vs "
            f"{numbers.round_text(each.base_per_tps)}, {percent(each.change)} ({100 * each.level:.3g} % interval "
            f"{interval}): {other} is {_WORDS[each.verdict]} {base}"
        )


def price_basis_line(base: PriceList, other: PriceList) -> str:
    """Return what the prices of two arms are based on, or why they are not compared."""
    left_out = [", ".join(sorted(each.left_out)) or "nothing" for each in (base, other)]
    if not comparable_prices(base, other):
        years = [numbers.span_of_years(each.years) for each in (base, other)]
        pairs = {"currency": [base.currency, other.currency], "period": years, "left out": left_out}
        differing = [f"{name}: {a} vs {b}" for name, (a, b) in pairs.items() if a != b]
        return f"price per tps: not compared, because the price lists differ; {'; '.join(differing)}"
    dates = " vs ".join(dict.fromkeys(each.date.isoformat() for each in (base, other)))
    return f"prices in {base.currency} over {numbers.span_of_years(base.years)}, as of {dates}; left out: {left_out[0]}"


_WORDS = {
    "cheaper": "cheaper than", "dearer": "more expensive than", "same": "as expensive as",
    "inconclusive": "indistinguishable by price from",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rent:
    """The rental of one target, all attempts together."""

    target: str
    instances: str
    hours: float
    amount: float | None
    """None if the hourly price is unknown."""
    currency: str
    prices: str
    """Origin and date of its price; empty if unknown."""
    transactions: int
    """Succeeded transactions in the measured parts of its finished trials."""

    @property
    def per_million(self) -> float | None:
        """Return the cost per million transactions, with the time around trials; None without any, or a price."""
        return None if self.amount is None or not self.transactions else 1e6 * self.amount / self.transactions


def rents(manifest: Manifest, trials: Sequence[TrialRecord]) -> list[Rent]:
    """Return rentals by target, in the manifest's order; empty if nothing was rented."""
    found: dict[str, list[RentRecord]] = {}
    for each in manifest.rented:
        found.setdefault(each.target, []).append(each)
    return [_rent(target, records, trials) for target, records in found.items()]


def _rent(target: str, records: Sequence[RentRecord], trials: Sequence[TrialRecord]) -> Rent:
    amounts = [each.amount for each in records]
    known = [each for each in amounts if each is not None]
    done = [trial for trial in trials if trial.target == target and trial.outcome is Outcome.FINISHED]
    return Rent(
        target=target,
        instances=", ".join(dict.fromkeys(each.instance for each in records)),
        hours=math.fsum(each.hours for each in records),
        amount=math.fsum(known) if len(known) == len(amounts) else None,
        currency=next((each.currency for each in records if each.currency), ""),
        prices="; ".join(dict.fromkeys(text for each in records if (text := _source(each)))),
        transactions=sum(trial.summary.succeeded or 0 for trial in done if trial.summary is not None),
    )


def _source(record: RentRecord) -> str:
    if record.price_source is None or record.price_date is None:
        return ""
    dated = str(record.price_date) in record.price_source
    return record.price_source if dated else f"{record.price_source} of {record.price_date}"


def rent_table(manifest: Manifest, trials: Sequence[TrialRecord]) -> Table | None:
    """Return what was rented, and what it cost; None if nothing was."""
    found = rents(manifest, trials)
    if not found:
        return None
    currency = next((each.currency for each in found if each.currency), "USD")
    headings = (
        gettext("target"),
        gettext("instance"),
        gettext("rented for"),
        gettext("paid, {currency}", currency=currency),
        gettext("transactions measured"),
        gettext("per million transactions, {currency}", currency=currency),
    )
    rows = tuple(
        (
            each.target,
            each.instances,
            format_duration(each.hours * 3600),
            numbers.NOTHING if each.amount is None else f"{each.amount:,.4f}",
            f"{each.transactions:,}",
            numbers.round_or_dash(each.per_million),
        )
        for each in found
    )
    return Table(_caption(found), headings, rows, 2)


def _caption(found: Sequence[Rent]) -> str:
    prices = "; ".join(dict.fromkeys(each.prices for each in found if each.prices))
    if not prices:
        return gettext("Actual cost of this run, from the first request to the end of the last trial")
    return gettext(
        "Actual cost of this run, from the first request to the end of the last trial, by {prices}", prices=prices
    )


def curve_price(curve: ScalingCurve, prices: PriceList | None) -> Price | None:
    """Return the price at a curve's peak; None if the list lacks its target, or for groups, which share a server."""
    is_alone = curve.series.group is None
    costs = prices.target.get(curve.series.target) if prices is not None and is_alone else None
    return price_of(costs, prices.years, curve.peak.tps) if prices is not None and costs is not None else None
