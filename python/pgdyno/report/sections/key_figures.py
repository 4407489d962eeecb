"""The numbers under the answer: peak throughput, p99 below it, noise grade, what limited it, price if there is one."""

from dataclasses import dataclass, replace

from pgdyno.analyse.noise_grade import NoiseGrade
from pgdyno.analyse.price import PriceList
from pgdyno.analyse.scaling import ScalingCurve
from pgdyno.analyse.summary import PointSummary, sum_of_known
from pgdyno.report import numbers
from pgdyno.report.answers.limits import Limit, limit_of
from pgdyno.report.answers.noise import noise_about
from pgdyno.report.costs import curve_price
from pgdyno.report.report_content import Digest, Extras, median_trial
from pgdyno.report.table import Table
from pgdyno.report.translation import gettext, gettext_each

LOAD = 0.8
"""Share of the peak at which latency is reported: a server at its peak has no reserve for a rush."""
FEWEST, MOST = 0.65, 0.9
"""Shares of the peak that are near enough to it."""


@dataclass(frozen=True, slots=True)
class BigNumber:
    """One of the four figures under the headline."""

    name: str
    figure: str
    unit: str
    about: str


def peak_numbers(of: Digest, curve: ScalingCurve, extras: Extras) -> list[BigNumber]:
    """Return the numbers of one curve: the only one, or that of the highest peak."""
    peak, told = curve.peak, numbers.clients(curve.peak.clients)
    interval = f"± {numbers.half(peak.tps)}" if peak.tps.half is not None else gettext("one trial")
    about = [gettext("at {clients}", clients=told), interval]
    if len(of.curves) > 1:
        about.append(of.named[curve.series].name)
    limit = limit_at(of, curve, extras)
    # in an open loop, the plan sets the throughput
    is_rising = len(curve.points) > 1 and peak is curve.points[-1] and peak.summary.point.rate is None
    edge = gettext("still rising at the most clients; ") if is_rising else ""
    name = gettext("peak throughput") if len(curve.points) > 1 else gettext("throughput")
    return [
        BigNumber(name, numbers.estimate(peak.tps), "tps", gettext(", ").join(about)),
        _latency(curve, near(of, curve)),
        BigNumber(gettext("limited by"), limit.word, "", edge + limit.about),
        *_price(curve, extras.prices),
    ]


def noise_number(grade: NoiseGrade | None) -> BigNumber:
    return BigNumber(
        gettext("noise grade"), grade.letter if grade is not None else numbers.NOTHING, "", noise_about(grade)
    )


def near(of: Digest, curve: ScalingCurve) -> PointSummary | None:
    """Return the point of the series nearest to 80 % of the peak, below the peak's clients or at a rate."""
    peak, series = curve.peak, replace(curve.series, rate=None)
    there = [
        (abs(point.tps.mean / peak.tps.mean - LOAD), point)
        for point in of.points
        if point.tps is not None
        and (
            point.series == curve.series
            or (point.point.rate is not None and replace(point.series, rate=None) == series)
        )
        and ((point.clients or 0) < peak.clients or point.point.rate is not None)
        and point.latency is not None
        and point.latency.p99 is not None
        and FEWEST <= point.tps.mean / peak.tps.mean <= MOST
    ]
    return min(there, key=lambda pair: pair[0])[1] if there else None


def _latency(curve: ScalingCurve, point: PointSummary | None) -> BigNumber:
    peak = curve.peak
    if point is not None and point.latency is not None and point.tps is not None:
        at = numbers.clients(point.clients)
        if point.point.rate is not None:
            at = gettext("{clients}, rate {rate}", clients=at, rate=f"{point.point.rate:,.10g}")
        name = gettext("p99 at {share} % of the peak", share=_share(point, curve))
        return BigNumber(name, numbers.ms(point.latency.p99), "ms", gettext("at {clients}", clients=at))
    latency = peak.summary.latency
    p99 = numbers.ms(latency.p99 if latency is not None else None)
    if len(curve.points) > 1:
        ends = {"fewest": f"{100 * FEWEST:.0f}", "most": f"{100 * MOST:.0f}"}
        why = gettext("no point between {fewest} and {most} % of it", **ends)
        return BigNumber(gettext("p99 at the peak"), p99, "ms", why)
    p999 = f"p99.9 {numbers.ms(latency.p999)}, p50 {numbers.ms(latency.p50)}" if latency is not None else ""
    return BigNumber("p99", p99, "ms", p999 or gettext("nothing succeeded"))


def _share(point: PointSummary, curve: ScalingCurve) -> str:
    return f"{100 * point.tps.mean / curve.peak.tps.mean:.0f}" if point.tps is not None else numbers.NOTHING


def _price(curve: ScalingCurve, prices: PriceList | None) -> list[BigNumber]:
    price = curve_price(curve, prices)
    if prices is None or price is None:
        return []
    about = gettext(
        "transactions at the peak, over {span}, prices of {date}",
        span=numbers.span_of_years(prices.years),
        date=prices.date.isoformat(),
    )
    return [BigNumber(gettext("price of a million"), numbers.round_text(price.per_million), prices.currency, about)]


def limit_at(of: Digest, curve: ScalingCurve, extras: Extras) -> Limit:
    trial = median_trial(of, curve.peak.summary)
    if trial.point.rate is not None:
        return Limit(gettext("the rate"), gettext("in an open loop, the plan sets the throughput"))
    found, pooler = limit_of(extras.limits.get(trial.number)), trial.probe.pooler if trial.probe is not None else None
    if pooler is None or not pooler.is_exhausted or found.word == "CPU":
        return found
    about = gettext("clients that wait for a session: {count}", count=numbers.round_text(pooler.clients_waiting or 0.0))
    return Limit(gettext("pool of {size}", size=pooler.pool), about)


def peaks_table(of: Digest, extras: Extras) -> Table:
    """Return these numbers and the knee, a row per series."""
    rows = []
    for curve in of.curves:
        peak, latency, point = curve.peak, curve.peak.summary.latency, near(of, curve)
        price = curve_price(curve, extras.prices)
        p99 = point.latency.p99 if point is not None and point.latency is not None else None
        rows.append(
            (
                of.named[curve.series].name,
                of.server_name(curve.series),
                limit_at(of, curve, extras).word,
                numbers.estimate(peak.tps),
                numbers.half(peak.tps),
                f"{peak.clients:,}",
                f"{curve.knee.clients:,}" if curve.knee is not None else gettext("not determined"),
                _share(point, curve) if point is not None else numbers.NOTHING,
                numbers.ms(p99),
                numbers.ms(latency.p99 if latency is not None else None),
                *([numbers.round_text(price.per_million) if price else numbers.NOTHING] if extras.prices else []),
                numbers.format_count(sum_of_known([each.summary.losses.errors for each in curve.points])),
            )
        )
    money = [gettext("a million, {currency}", currency=extras.prices.currency)] if extras.prices else []
    headings = gettext_each("series", "server", "limited by", "peak, tps")
    more = gettext_each("clients at it", "knee, clients", "load, % of peak", "p99 there, ms", "p99 at peak, ms")
    caption = gettext(
        "Peak and knee of each, and p99 at the load nearest to 80 % of the peak; ± is half of the 95 % interval. The "
        "difference between two peaks is not a paired comparison"
    )
    return Table(caption, (*headings, "±", *more, *money, gettext("errors")), tuple(rows), 3)
