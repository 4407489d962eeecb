"""Sentences computed from the data: headlines and the titles of charts. Measured first, meaning after."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from pgdyno.analyse.estimate import Estimate
from pgdyno.analyse.scaling import ScalingCurve, ScalingPoint
from pgdyno.analyse.series import named
from pgdyno.analyse.timeline import Timeline
from pgdyno.records import TrialRecord
from pgdyno.report import numbers
from pgdyno.report.charts.spectrum import SpectrumLine
from pgdyno.report.digest import Digest
from pgdyno.units import format_duration, format_significant

NAMED_AT_MOST = 3
"""Series that a title names one by one."""


def headline(of: Digest) -> str:
    """The run in one sentence."""
    best, trials = of.best, of.run.trials
    if best is None:
        if not trials:
            return "No trial has ended yet"
        return f"No trial finished: {numbers.count(len(trials), 'trial')} failed or {_were(len(trials))} interrupted"
    server, tps, clients = of.server_name(best.series), best.peak.tps, numbers.count(best.peak.clients, "client")
    if len(of.curves) == 1:
        return f"{server} reaches {numbers.estimate(tps)} transactions a second at {clients} ({interval(tps)})"
    name = of.named[best.series].name
    who = name if server == best.series.target else f"{name} ({server})"
    return f"The highest peak is {numbers.estimate(tps)} transactions a second: {who} at {clients} ({interval(tps)})"


def interval(tps: Estimate) -> str:
    """`95 %: 70,100 to 72,500, n = 3`, or that there is none."""
    return "one trial, no interval" if tps.half is None else f"95 %: {numbers.low_to_high(tps)}, n = {tps.n}"


def conditions(of: Digest) -> str:
    """Under the headline: what was run, for how long, how often, and where."""
    parts = [of.manifest.workload]
    parts += _same_everywhere(of)
    parts += [_length(trial) for trial in of.run.trials[:1] if trial.imported is None]
    repeats = max((trial.repeat for trial in of.run.trials), default=0)
    if repeats:
        parts.append("one trial a point" if repeats == 1 else f"{repeats} trials a point")
    host, imported = of.manifest.host, of.manifest.imported
    where = f"{host.cpu_model}, {numbers.count(host.cores, 'core')}" if host is not None else "machine not known"
    if imported is not None:
        where = f"imported from {', '.join(PurePath(file.path).name for file in imported.files)}"
    return ", ".join(parts) + f"; {where}"


def _same_everywhere(of: Digest) -> list[str]:
    """Parameters in which all points are alike."""
    if not of.points:
        return []
    point = of.points[0].point
    names = dict.fromkeys(["scale", *point.parameters()])
    values = {name: point.parameter(name) for name in names if name not in of.parameters}
    return [_parameter(name, value) for name, value in values.items() if value not in (None, "")]


def _parameter(name: str, value: float | str) -> str:
    return f"{value} protocol" if name == "protocol" else named(name, value)


def _length(trial: TrialRecord) -> str:
    if trial.duration_s is None:
        length = f"trials of {format_significant(trial.transactions or 0)} transactions a client"
    else:
        length = f"trials of {format_duration(trial.duration_s)}"
    return f"{length} after {format_duration(trial.warmup_s)} of warm-up" if trial.warmup_s else length


def scaling_title(of: Digest) -> str:
    """What the curve of throughput shows."""
    curves = of.curves
    if len(curves) == 1:
        return _one_curve(curves[0])
    if len(curves) <= NAMED_AT_MOST:
        return _listed([_peak_of(of, curve, whole=curve is curves[0]) for curve in curves])
    ordered = sorted(curves, key=lambda curve: -curve.peak.tps.mean)
    first, last = ordered[0], ordered[-1]
    return (
        f"Peaks lie between {numbers.estimate(last.peak.tps)} ({of.named[last.series].name}) and "
        f"{numbers.estimate(first.peak.tps)} transactions a second ({of.named[first.series].name})"
    )


def _peak_of(of: Digest, curve: ScalingCurve, *, whole: bool) -> str:
    """`pg18 peaks at 71,300 transactions a second with 16 clients`; the unit only in the first of several."""
    at_edge = curve.peak is curve.points[-1]
    unit = " transactions a second" if whole else ""
    clients = numbers.count(curve.peak.clients, "client") + (" (the most measured)" if at_edge else "")
    verb = "reaches" if at_edge else "peaks at"
    return f"{of.named[curve.series].name} {verb} {numbers.estimate(curve.peak.tps)}{unit} with {clients}"


def _one_curve(curve: ScalingCurve) -> str:
    peak, knee, most = curve.peak, curve.knee, curve.points[-1]
    tps, clients = numbers.estimate(peak.tps), numbers.count(peak.clients, "client")
    if peak is most:
        if knee is peak:
            return f"Throughput still rises at {clients}, the most measured: {tps} transactions a second"
        return (
            f"Throughput is highest at {clients}, the most measured: {tps} transactions a second; "
            f"the knee, within its noise, is at {numbers.count(knee.clients, 'client')}"
        )
    if peak is curve.points[0]:
        return f"Throughput is highest at {clients}, the fewest measured: {tps} transactions a second"
    peaks = f"Throughput peaks at {clients} with {tps} transactions a second"
    if knee is peak:
        return peaks + ("; no fewer clients come within its interval" if peak.tps.half is not None else "")
    return f"{peaks}; the knee, within its noise, is at {numbers.count(knee.clients, 'client')}"


def dots_title(of: Digest, points: Sequence[ScalingPoint]) -> str:
    """What throughput at the only number of clients shows."""
    ordered = sorted(points, key=lambda point: -point.tps.mean)
    first, last = ordered[0], ordered[-1]
    between = "overlap" if first.tps.overlaps(last.tps) else "do not overlap"
    intervals = f"; their intervals {between}" if first.tps.half is not None and last.tps.half is not None else ""
    return (
        f"At {numbers.count(first.clients, 'client')}, {of.named[first.summary.series].name} has the most with "
        f"{numbers.estimate(first.tps)} transactions a second, {of.named[last.summary.series].name} the least with "
        f"{numbers.estimate(last.tps)}{intervals}"
    )


def latency_title(of: Digest) -> str:
    """What latency by clients shows: p99 at the ends and at the peak, or at each peak."""
    if len(of.curves) == 1:
        curve = of.curves[0]
        parts = []
        for point in (curve.points[0], curve.peak, curve.points[-1]):
            latency = point.summary.latency
            if latency is not None and latency.p99_ns is not None:
                at_peak = " (the peak)" if point is curve.peak else ""
                parts.append(f"{numbers.ms(latency.p99_ns)} ms at {numbers.count(point.clients, 'client')}{at_peak}")
        return f"p99 is {_listed(list(dict.fromkeys(parts)))}" if parts else "Latency by clients"
    peaks = [
        (of.named[curve.series].name, latency.p99_ns)
        for curve in of.curves
        if (latency := curve.peak.summary.latency) is not None and latency.p99_ns is not None
    ]
    if not peaks:
        return "Latency by clients"
    if len(peaks) <= NAMED_AT_MOST:
        return "At its own peak, p99 is " + _listed([f"{numbers.ms(p99)} ms on {name}" for name, p99 in peaks])
    low, high = min(peaks, key=lambda peak: peak[1]), max(peaks, key=lambda peak: peak[1])
    return (
        f"At its own peak, p99 lies between {numbers.ms(low[1])} ms ({low[0]}) and {numbers.ms(high[1])} ms ({high[0]})"
    )


def spectrum_title(line: SpectrumLine) -> str:
    """What the spectrum of the best point shows."""
    half, rare = line.histogram.percentile_ns(50), line.histogram.percentile_ns(99.9)
    return (
        f"{line.name}: half of the transactions take {numbers.ms(half)} ms or less, "
        f"one in 1,000 more than {numbers.ms(rare)} ms"
    )


def timeline_title(name: str, timelines: Sequence[Timeline]) -> str:
    """What a point's trials show: the range of their means, and the slowest second."""
    means, slowest = [], None
    for timeline in timelines:
        measured = timeline.measured()
        if measured:
            means.append(sum(second.tps for second in measured) / len(measured))
            low = min(measured, key=lambda second: second.tps)
            if slowest is None or low.tps < slowest[0]:
                slowest = (low.tps, timeline.trial)
    if slowest is None:
        return f"{name}: nothing was measured"
    low_text, high_text = numbers.rounded(min(means)), numbers.rounded(max(means))
    spread = low_text if low_text == high_text else f"{low_text} to {high_text}"
    what = "trial at" if len(means) == 1 else "trials at"
    return (
        f"{name}: {what} {spread} transactions a second; the slowest second has "
        f"{numbers.rounded(slowest[0])}, in trial {slowest[1]}"
    )


def _listed(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def _were(count: int) -> str:
    return "was" if count == 1 else "were"
