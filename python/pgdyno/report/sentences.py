"""Sentences computed from data: headlines and titles of charts. The measurement comes first, then its meaning."""

from collections.abc import Sequence
from pathlib import PurePath

from pgdyno.analyse.intervals import Estimate
from pgdyno.analyse.over_time.timeline import Timeline
from pgdyno.analyse.pairs import is_duet
from pgdyno.analyse.scaling import ScalingCurve, ScalingPoint
from pgdyno.analyse.series import parameter_label
from pgdyno.records import Manifest, TrialRecord
from pgdyno.registry import WORKLOADS
from pgdyno.report import numbers
from pgdyno.report.charts.latency import SpectrumLine
from pgdyno.report.report_content import NO_EXTRAS, Digest, Extras
from pgdyno.report.translation import enumeration, gettext, ngettext
from pgdyno.units import duration_words, format_significant

NAMED_AT_MOST = 3
"""Series that a title names individually."""


def question(of: Manifest) -> str:
    """Return the plan's question: its name, with its description if it has one."""
    plan = of.plan
    name = plan.get("name") or of.workload
    return f"{name}: {plan['description']}" if plan.get("description") else name


def nothing_finished(of: Digest) -> str:
    count = len(of.run.trials)
    if not count:
        return gettext("No trial has ended")
    return ngettext(
        "No trial finished: {count:,} trial failed or was interrupted",
        "No trial finished: {count:,} trials failed or were interrupted",
        count,
    )


def interval(tps: Estimate) -> str:
    """Return `95 %: 70,100 to 72,500, n = 3`, or that there is no interval."""
    return (
        gettext("one trial, no interval")
        if tps.half is None
        else gettext("95 %: {interval}, n = {n}", interval=numbers.low_to_high(tps), n=tps.n)
    )


def conditions(of: Digest) -> str:
    """Return the line under the headline: workload, duration, repeats, and machine."""
    parts = [of.manifest.workload]
    if of.manifest.scale_factor is not None:
        parts.append(gettext("scale factor {factor}", factor=f"{of.manifest.scale_factor:g}"))
    parts += _same_everywhere(of)
    measured = [trial for trial in of.run.trials if trial.summary is not None] or of.run.trials[:1]
    # the trials of two runs may differ in length
    parts += dict.fromkeys(_length(trial) for trial in measured if trial.imported is None)
    repeats = max((trial.repeat for trial in of.run.trials), default=0)
    if repeats:
        parts.append(ngettext("one trial per point", "{count:,} trials per point", repeats))
    instances = max((point.tps.instances for point in of.points if point.tps is not None), default=1)
    if instances > 1:
        parts.append(gettext("{count:,} instances of a target", count=instances))
    if is_duet(of.run.trials):
        parts.append(gettext("two targets at the same time (duet): only their ratio is valid"))
    generators = max((len(trial.generator.hosts) for trial in of.run.trials if trial.generator is not None), default=0)
    if generators:
        parts.append(ngettext("{count:,} generator", "{count:,} generators", generators))
    host, imported = of.manifest.host, of.manifest.imported
    where = (
        f"{host.cpu_model}, {ngettext('{count:,} core', '{count:,} cores', host.cores)}"
        if host is not None
        else gettext("machine unknown")
    )
    if imported is not None:
        names = ", ".join(PurePath(file.path).name for file in imported.files)
        where = gettext("imported from {files}", files=names)
    return gettext(", ").join(parts) + gettext("; ") + where


def _same_everywhere(of: Digest) -> list[str]:
    if not of.points:
        return []
    point, workload = of.points[0].point, of.manifest.plan.get("workload") or {}
    names = dict.fromkeys(["scale", *point.parameters()])
    if "replay" in workload or of.manifest.runs_once:
        # a capture has no scale, and tpch its own
        del names["scale"]
    if WORKLOADS[of.manifest.workload_kind].keys:
        # a capture has the protocol of each statement; the others send statements in their own way
        names.pop("protocol", None)
    # groups of clients may differ in what is no parameter of the sweep
    same = (name for name in names if len({each.point.parameter(name) for each in of.points}) == 1)
    values = {name: point.parameter(name) for name in same if name not in of.parameters}
    if values.get("scale") == 1 and (workload.get("dataset") == "none" or isinstance(workload.get("dataset"), dict)):
        # nothing was loaded that could have a scale
        del values["scale"]
    said = {name: _parameter(name, value) for name, value in values.items() if value not in (None, "")}
    if point.scale is not None and "scale" in said and workload.get("dataset") == "sbtest":
        said["scale"] = _sbtest_size(int(workload.get("tables") or 1), point.scale)
    return list(said.values())


def _sbtest_size(tables: int, rows: int) -> str:
    return ngettext("{count:,} table of {rows:,} rows", "{count:,} tables of {rows:,} rows", tables, rows=rows)


def _parameter(name: str, value: float | str) -> str:
    return gettext("{name} protocol", name=value) if name == "protocol" else parameter_label(name, value)


def _length(trial: TrialRecord) -> str:
    if trial.duration_s is None and trial.summary is not None and trial.summary.replay is not None:
        length = gettext("trials of the whole capture")
    elif trial.summary is not None and trial.summary.tpch is not None:
        length = gettext("trials of a power run and a throughput run")
    elif trial.summary is not None and trial.summary.queries:
        runs = 1 + max(each.round for each in trial.summary.queries if not each.changed)
        length = gettext("trials of {count} runs of each query", count=runs)
    elif trial.duration_s is None:
        number = trial.transactions or 0
        length = ngettext(
            "trials of one transaction per client",
            "trials of {many} transactions per client",
            number,
            many=format_significant(number),
        )
    else:
        length = gettext("trials of {duration}", duration=duration_words(trial.duration_s))
    warmup = duration_words(trial.warmup_s)
    return gettext("{trials} after {duration} of warm-up", trials=length, duration=warmup) if trial.warmup_s else length


def scaling_title(of: Digest, extras: Extras = NO_EXTRAS) -> str:
    """Describe the curve of throughput; of several, name the highest only if the comparison is significant."""
    curves = of.curves
    if len(curves) == 1:
        return _one_curve(curves[0])
    if len(curves) <= NAMED_AT_MOST:
        return enumeration([_peak_of(of, curve, whole=curve is curves[0]) for curve in curves])
    ordered = sorted(curves, key=lambda curve: -curve.peak.tps.mean)
    first, last = ordered[0], ordered[-1]
    if not extras.ranks(first.series, last.series):
        low, high = numbers.estimate(last.peak.tps), numbers.estimate(first.peak.tps)
        return gettext("Peaks lie between {low} and {high} transactions a second", low=low, high=high)
    return peak_range(of.named[last.series].name, last.peak.tps, of.named[first.series].name, first.peak.tps)


def peak_range(lowest: str, low: Estimate, highest: str, high: Estimate) -> str:
    return gettext(
        "Peaks lie between {low} ({lowest}) and {high} transactions a second ({highest})",
        low=numbers.estimate(low),
        lowest=lowest,
        high=numbers.estimate(high),
        highest=highest,
    )


def _peak_of(of: Digest, curve: ScalingCurve, *, whole: bool) -> str:
    """Return `pg18 peaks at 71,300 transactions a second with 16 clients`; the unit only in the first of several."""
    clients = numbers.clients(curve.peak.clients)
    told = {"name": of.named[curve.series].name, "tps": numbers.estimate(curve.peak.tps), "clients": clients}
    if curve.peak is curve.points[-1]:
        if whole:
            return gettext("{name} reaches {tps} transactions a second with {clients} (the most measured)", **told)
        return gettext("{name} reaches {tps} with {clients} (the most measured)", **told)
    if whole:
        return gettext("{name} peaks at {tps} transactions a second with {clients}", **told)
    return gettext("{name} peaks at {tps} with {clients}", **told)


def _one_curve(curve: ScalingCurve) -> str:
    peak, knee, most = curve.peak, curve.knee, curve.points[-1]
    at = {
        "tps": numbers.estimate(peak.tps),
        "clients": numbers.clients(peak.clients),
        "knee": numbers.clients(knee.clients) if knee is not None else "",
    }
    if peak is most:
        if knee is peak:
            return gettext("Throughput still rises at {clients}, the most measured: {tps} transactions a second", **at)
        if knee is None:
            return gettext(
                "Throughput is highest at {clients}, the most measured: {tps} transactions a second; the knee is not "
                "determined",
                **at,
            )
        return gettext(
            "Throughput is highest at {clients}, the most measured: {tps} transactions a second; the knee, at 95 % "
            "of it or more, is at {knee}",
            **at,
        )
    if peak is curve.points[0]:
        return gettext("Throughput is highest at {clients}, the fewest measured: {tps} transactions a second", **at)
    if knee is None:
        return gettext(
            "Throughput peaks at {clients} with {tps} transactions a second; the knee is not determined", **at
        )
    if knee is not peak:
        return gettext(
            "Throughput peaks at {clients} with {tps} transactions a second; the knee, at 95 % of it or more, is at "
            "{knee}",
            **at,
        )
    return gettext(
        "Throughput peaks at {clients} with {tps} transactions a second; no fewer clients are shown to reach 95 % of "
        "it",
        **at,
    )


def dots_title(of: Digest, points: Sequence[ScalingPoint], extras: Extras = NO_EXTRAS) -> str:
    """Describe throughput at the only number of clients; name the highest only if the comparison is significant.

    If trials failed, each series may have another number of clients.
    """
    if len({point.clients for point in points}) > 1:
        return scaling_title(of, extras)
    ordered = sorted(points, key=lambda point: -point.tps.mean)
    first, last = ordered[0], ordered[-1]
    # in a search for settings, the highest is the best observation, which is not a result
    if of.manifest.finds_settings or not extras.ranks(first.summary.series, last.summary.series):
        return gettext(
            "At {clients}, throughput lies between {least} and {most} transactions a second",
            clients=numbers.clients(first.clients),
            least=numbers.estimate(last.tps),
            most=numbers.estimate(first.tps),
        )
    said = gettext(
        "At {clients}, {first} has the most with {most} transactions a second, {last} the least with {least}",
        clients=numbers.clients(first.clients),
        first=of.named[first.summary.series].name,
        most=numbers.estimate(first.tps),
        last=of.named[last.summary.series].name,
        least=numbers.estimate(last.tps),
    )
    if extras.comparisons or first.tps.half is None or last.tps.half is None:
        # pairs are compared by their ratios, whose interval the answer shows
        return said
    overlap = first.tps.overlaps(last.tps)
    return said + (gettext("; their intervals overlap") if overlap else gettext("; their intervals do not overlap"))


def latency_title(of: Digest) -> str:
    """Describe latency by clients: p99 at the ends and at the peak, or at each peak; open loops have no peak."""
    is_open = any(curve.peak.summary.point.rate is not None for curve in of.curves)
    if len(of.curves) == 1:
        curve = of.curves[0]
        parts = []
        for point in (curve.points[0], *(() if is_open else (curve.peak,)), curve.points[-1]):
            latency = point.summary.latency
            if latency is not None and latency.p99 is not None:
                at = {"ms": numbers.ms(latency.p99), "clients": numbers.clients(point.clients)}
                at_peak = point is curve.peak and not is_open
                said = (
                    gettext("{ms} ms at {clients} (the peak)", **at)
                    if at_peak
                    else gettext("{ms} ms at {clients}", **at)
                )
                parts.append(said)
        return (
            gettext("p99 is {parts}", parts=enumeration(list(dict.fromkeys(parts))))
            if parts
            else gettext("Latency by clients")
        )
    peaks = [
        (of.named[curve.series].name, latency.p99)
        for curve in of.curves
        if (latency := curve.peak.summary.latency) is not None and latency.p99 is not None
    ]
    if not peaks or is_open:
        return gettext("Latency by clients")
    if len(peaks) <= NAMED_AT_MOST:
        parts = [gettext("{ms} ms on {name}", ms=numbers.ms(p99), name=name) for name, p99 in peaks]
        return gettext("At its own peak, p99 is {parts}", parts=enumeration(parts))
    low, high = min(peaks, key=lambda peak: peak[1]), max(peaks, key=lambda peak: peak[1])
    return gettext(
        "At its own peak, p99 lies between {low} ms ({lowest}) and {high} ms ({highest})",
        low=numbers.ms(low[1]),
        lowest=low[0],
        high=numbers.ms(high[1]),
        highest=high[0],
    )


def spectrum_title(line: SpectrumLine) -> str:
    """Describe the spectrum of the best point."""
    half, p99, rare = line.histogram.percentiles_ns([50, 99, 99.9])
    if line.histogram.count < 1_000:
        # none is slower than the slowest
        return gettext(
            "{name}: p50 {p50}, p99 {p99}, largest {largest} ms",
            name=line.name,
            p50=numbers.ms(half),
            p99=numbers.ms(p99),
            largest=numbers.ms(line.histogram.max_ns),
        )
    return gettext(
        "{name}: half of the transactions take at most {half} ms, one in 1,000 more than {rare} ms",
        name=line.name,
        half=numbers.ms(half),
        rare=numbers.ms(rare),
    )


def timeline_title(name: str, timelines: Sequence[Timeline]) -> str:
    """Describe a point's trials: the range of their means, and the slowest second."""
    means, slowest = [], None
    for timeline in timelines:
        measured = timeline.measured_seconds()
        if measured:
            means.append(sum(second.tps for second in measured) / len(measured))
            low = min(measured, key=lambda second: second.tps)
            if slowest is None or low.tps < slowest[0]:
                slowest = (low.tps, timeline.trial)
    if slowest is None:
        return gettext("{name}: nothing was measured", name=name)
    low_text, high_text = numbers.round_text(min(means)), numbers.round_text(max(means))
    spread = low_text if low_text == high_text else numbers.range_text(low_text, high_text)
    return ngettext(
        "{name}: trial at {tps} transactions a second; the slowest second has {slowest}, in trial {number}",
        "{name}: trials at {tps} transactions a second; the slowest second has {slowest}, in trial {number}",
        len(means),
        name=name,
        tps=spread,
        slowest=numbers.round_text(slowest[0]),
        number=slowest[1],
    )
