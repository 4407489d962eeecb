"""The peak of each series in words: the answer of a run of one arm."""

from collections.abc import Iterator
from dataclasses import dataclass

from pgdyno.analyse.intervals import Estimate
from pgdyno.analyse.summary import KNEE_NOT_DETERMINED, PEAK_AT_EDGE, PointSummary
from pgdyno.report import numbers
from pgdyno.report.report_content import Digest
from pgdyno.report.sentences import interval, peak_range
from pgdyno.report.translation import gettext, translate

MOST_NAMED = 9


@dataclass(frozen=True, slots=True)
class Peak:
    """The point of highest throughput of a series."""

    name: str
    """The series' name; for a single one, its server's."""
    tps: Estimate
    point: PointSummary

    @property
    def clients(self) -> str:
        return numbers.clients(self.point.clients)


def peaks(of: Digest) -> list[Peak]:
    """Return a peak for each series that has a result. An imported point without clients is on no curve, but counts."""
    highest = {
        curve.series: Peak(of.named[curve.series].name, curve.peak.tps, curve.peak.summary) for curve in of.curves
    }
    for point in of.points:
        known = highest.get(point.series)
        if point.tps is not None and (known is None or (not known.point.clients and point.tps.mean > known.tps.mean)):
            highest[point.series] = Peak(of.named[point.series].name, point.tps, point)
    if len(of.named) == 1:
        return [Peak(of.server_name(series), peak.tps, peak.point) for series, peak in highest.items()]
    return list(highest.values())


def peaks_text(of: Digest) -> str:
    """Return the peak of the only series; for several, the range of peaks: no rank, because none was tested."""
    found = peaks(of)
    if len(found) == 1:
        only = found[0]
        if not only.point.clients:
            return gettext(
                "{server} reaches {tps} transactions a second ({interval}); clients unknown",
                server=only.name,
                tps=numbers.estimate(only.tps),
                interval=interval(only.tps),
            )
        return gettext(
            "{server} reaches {tps} transactions a second at {clients} ({interval})",
            server=only.name,
            tps=numbers.estimate(only.tps),
            clients=only.clients,
            interval=interval(only.tps),
        )
    ordered = sorted(found, key=lambda peak: peak.tps.mean)
    first, last = ordered[0], ordered[-1]
    return peak_range(first.name, first.tps, last.name, last.tps)


def edges(of: Digest) -> Iterator[str]:
    """Return the series whose peak was not reached: the answer is then a lower bound."""
    for curve in of.curves:
        for warning in curve.warnings:
            if warning.id == PEAK_AT_EDGE:
                said = translate(warning)
                yield said if len(of.named) == 1 else f"{of.named[curve.series].name}: {said}"


def _knee(of: Digest) -> Iterator[str]:
    for curve in of.curves:
        if curve.peak is curve.points[-1] or curve.knee is curve.peak:
            continue
        if curve.knee is not None:
            clients = numbers.clients(curve.knee.clients)
            yield gettext("the knee is at {clients}, the fewest shown to reach 95 % of the peak", clients=clients)
        else:
            yield from (translate(each) for each in curve.warnings if each == KNEE_NOT_DETERMINED)


def spread(of: Digest) -> Iterator[str]:
    """Describe noise: the spread of trials at the only peak; for several series, the peak of each with its interval."""
    found = peaks(of)
    if len(found) > 1:
        for peak in found[:MOST_NAMED]:
            yield gettext(
                "{name}: {tps} transactions a second at {clients} ({interval})",
                name=peak.name,
                tps=numbers.estimate(peak.tps),
                clients=peak.clients,
                interval=interval(peak.tps),
            )
        if len(found) > MOST_NAMED:
            yield gettext("and {count} more", count=len(found) - MOST_NAMED)
        return
    yield from _knee(of)
    rates = found[0].point.tps_by_trial
    if len(rates) < 2:
        yield gettext("one trial does not show the spread between trials")
        return
    low, high = min(rates), max(rates)
    low_text, high_text = numbers.distinct_texts(low, high)
    yield gettext(
        "noise: the trials there lie between {low} and {high}, {percent} % apart",
        low=low_text,
        high=high_text,
        percent=numbers.round_text(100 * (high - low) / found[0].tps.mean, 2) if found[0].tps.mean > 0 else 0,
    )
