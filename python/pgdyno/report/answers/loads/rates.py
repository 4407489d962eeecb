"""Fixed rates: the answer of an open-loop run is the latency at each rate, and whether the server kept up."""

import math
from collections.abc import Iterator, Sequence

from pgdyno.analyse.series import label, varying_parameters
from pgdyno.analyse.summary import PointSummary
from pgdyno.records import Summary
from pgdyno.report import numbers
from pgdyno.report.report_content import Digest
from pgdyno.report.table import Table
from pgdyno.report.translation import enumeration, gettext, gettext_each, ngettext

NAMED_AT_MOST = 4
"""Rates that one sentence names individually."""
KEPT_UP = 0.99
"""A server keeps up with a rate if it answers this share of the due transactions."""
FAILED = 0.001
"""The share of failed transactions from which on a report names it."""
MUCH_FAILED = 0.01
"""As for the audit's rule `errors`."""


def has_rates(of: Digest) -> bool:
    """Return whether every point has a rate: then the plan sets the throughput, which has neither peak nor knee."""
    return bool(of.points) and all(point.point.rate is not None for point in of.points)


def rates_text(of: Digest) -> str | None:
    """Return the latency at the rate, or p99 at each of several; None if a point has no rate."""
    points = rated_points(of)
    if not points:
        return None
    names = {of.server_name(series) for series in of.named}
    name = names.pop() if len(names) == 1 else of.manifest.workload
    if len(points) == 1:
        latency, n = points[0].latency, len(points[0].finished)
        assert latency is not None
        if latency.p99 is None and latency.mean is not None:
            return gettext(
                "At {rate} transactions a second, {name} has a mean latency of {mean} ms; its percentiles are "
                "unknown ({trials})",
                rate=_rate(points[0]),
                name=name,
                mean=numbers.ms(latency.mean),
                trials=numbers.trials(n),
            )
        return gettext(
            "At {rate} transactions a second, {name} has a p99 of {p99} ms and a p50 of {p50} ms ({trials})",
            rate=_rate(points[0]),
            name=name,
            p99=numbers.ms(latency.p99),
            p50=numbers.ms(latency.p50),
            trials=numbers.trials(n),
        )
    chosen = points if len(points) <= NAMED_AT_MOST else [points[0], points[-1]]
    # several points at one rate differ in something else, which a name shows
    by_name = len({point.point.rate for point in points}) < len(points)
    parts = [
        gettext(
            "{ms} ms at {rate}",
            ms=numbers.ms(point.latency.p99 if point.latency is not None else None),
            rate=of.point_name(point) if by_name else _rate(point),
        )
        for point in chosen
    ]
    if by_name:
        return gettext("p99 of {name} is {parts}", name=name, parts=enumeration(parts))
    return gettext("p99 of {name} is {parts} transactions a second", name=name, parts=enumeration(parts))


def kept_up(of: Digest) -> Iterator[str]:
    """Return for each server or arm the rates that it kept up with, then the others."""
    if of.manifest.search:
        # shows the highest rate that the server keeps up with
        return
    for name, points in _points_by_server(of).items():
        kept = [point for point in points if has_kept_up(of, point)]
        rates = list(dict.fromkeys(_rate(point) for point in kept if failed_share(of, point) < FAILED))
        if rates:
            yield gettext(
                "{name} keeps up with {rate} transactions a second: the rate limits throughput, not the server",
                name=name,
                rate=enumeration(rates) if len(rates) <= NAMED_AT_MOST else numbers.range_text(rates[0], rates[-1]),
            )
        others = [point for point in points if point not in kept]
        for point in others[:NAMED_AT_MOST]:
            yield gettext(
                "{name} does not keep up with {rate} transactions a second: it serves {tps}, {share} % of those due",
                name=name,
                rate=_rate(point),
                tps=numbers.estimate(point.tps),
                share=numbers.round_text(100 * served_share(of, point)),
            )
        if len(others) > NAMED_AT_MOST:
            more = len(others) - NAMED_AT_MOST
            yield ngettext(
                "{name} does not keep up with {count:,} further rate",
                "{name} does not keep up with {count:,} further rates",
                more,
                name=name,
            )


def _points_by_server(of: Digest) -> dict[str, list[PointSummary]]:
    names = [name for name in varying_parameters(list(of.named)) if name != "rate"]
    by_name: dict[str, list[PointSummary]] = {}
    for point in rated_points(of):
        name = label(point.series, names) if names else of.server_name(point.series)
        by_name.setdefault(name, []).append(point)
    return by_name


def failure_lines(of: Digest) -> list[str]:
    """Return for each rate how many of its transactions failed, most failures first."""
    failing = [
        (share, name, point)
        for name, points in _points_by_server(of).items()
        for point in points
        if (share := failed_share(of, point)) >= FAILED
    ]
    failing.sort(key=lambda each: each[0], reverse=True)
    return [_failure_line(*each) for each in failing[:NAMED_AT_MOST]]


def _failure_line(share: float, name: str, point: PointSummary) -> str:
    return gettext(
        "{share} % of the {rate} transactions a second fail on {name}",
        share=numbers.round_text(100 * share),
        rate=_rate(point),
        name=name,
    )


def fails_much(of: Digest) -> bool:
    """Return whether so many transactions failed at a rate that its other figures come second."""
    return any(failed_share(of, point) > MUCH_FAILED for point in rated_points(of))


def rate_answers(of: Digest) -> Iterator[str]:
    """Return whether the server kept up with each rate, and the spread of p99 between trials at the only rate."""
    yield from kept_up(of)
    points = rated_points(of)
    if len(points) == 1:
        each = [
            trial.summary.latency_ns.p99
            for trial in of.run.trials
            if trial.number in points[0].finished and trial.summary is not None and trial.summary.latency_ns is not None
        ]
        known = [p99 for p99 in each if p99 is not None]
        if len(known) > 1:
            yield gettext(
                "noise: p99 of the trials lies between {low} and {high} ms",
                low=numbers.ms(min(known)),
                high=numbers.ms(max(known)),
            )
        else:
            yield gettext("one trial does not show the spread between trials")


def rate_table(of: Digest) -> Table | None:
    """Return a row per point: due, served, latency from the intended start. None if a point has no rate."""
    points = rated_points(of)
    if len(points) < 2:
        return None
    # points at one rate differ in something else, too
    named = len({point.point.rate for point in points}) < len(points)
    rows = tuple(
        (
            *((of.point_name(point),) if named else ()),
            _rate(point),
            numbers.estimate(point.tps),
            numbers.round_text(100 * served_share(of, point)),
            numbers.ms(point.latency.p50 if point.latency is not None else None),
            numbers.ms(point.latency.p99 if point.latency is not None else None),
            numbers.ms(point.latency.max if point.latency is not None else None),
        )
        for point in points
    )
    headings = (*gettext_each("rate", "served, tps", "served, %"), "p50, ms", "p99, ms", gettext("max, ms"))
    headings = (gettext("point"), *headings) if named else headings
    return Table(gettext("Latency at each rate, from the intended start"), headings, rows)


def rated_points(of: Digest) -> Sequence[PointSummary]:
    """Return the points that have a result, by their rates; none if a point has no rate, or no rate has a latency."""
    if not has_rates(of):
        return []
    # a server that served nothing at a rate has no latency there
    there = [point for point in of.points if point.tps is not None]
    if all(point.latency is None for point in there):
        return []
    return sorted(there, key=lambda point: point.point.rate or 0.0)


SPREAD = 3.0
"""Standard deviations by which the arrivals of a Poisson process may fall short of their mean."""


def served_share(of: Digest, point: PointSummary) -> float:
    """Return the served share of the due transactions."""
    if _is_own(of, point):
        return 1.0 if point.served is None else min(point.served, 1.0)
    due = _due_count(of, point)
    served = math.fsum(each.tps * _seconds(each) for each in _summaries(of, point))
    return min(served / due, 1.0) if due > 0 else 1.0


def failed_share(of: Digest, point: PointSummary) -> float:
    """Return the share of the due transactions that failed."""
    due = _due_count(of, point)
    return min(sum(each.failed or 0 for each in _summaries(of, point)) / due, 1.0) if due > 0 else 0.0


def has_kept_up(of: Digest, point: PointSummary) -> bool:
    """Return whether the server kept up with the rate; a failed transaction was answered, and is not late.

    A server that fails most transactions serves no load.
    """
    served, failed = served_share(of, point), failed_share(of, point)
    return served > failed and served + failed >= KEPT_UP


def _due_count(of: Digest, point: PointSummary) -> float:
    summaries = _summaries(of, point)
    due = float(sum(each.due for each in summaries))
    if _is_own(of, point):
        return due
    # other programs do not count what was due and had not started at the end, and some count nothing
    arrived = (point.point.rate or 0.0) * math.fsum(map(_seconds, summaries))
    return max(due, arrived - SPREAD * math.sqrt(arrived))


def _is_own(of: Digest, point: PointSummary) -> bool:
    return all(trial.imported is None for trial in of.run.trials if trial.number in point.finished)


def _summaries(of: Digest, point: PointSummary) -> list[Summary]:
    there = (trial.summary for trial in of.run.trials if trial.number in point.finished)
    return [each for each in there if each is not None]


def _seconds(of: Summary) -> float:
    """Return the measured seconds; 1 if neither they nor the counts are known."""
    if of.measured_s:
        return of.measured_s
    return of.succeeded / of.tps if of.succeeded and of.tps > 0 else 1.0


def _rate(point: PointSummary) -> str:
    return f"{point.point.rate or 0:,.10g}"
