"""A history in lines: its course, its levels, its changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pgdyno.analyse.history import FEWEST_RUNS, History
from pgdyno.analyse.metric import Metric
from pgdyno.fingerprint import Severity, comparable
from pgdyno.records import Manifest
from pgdyno.report import numbers
from pgdyno.report.blocks import printable, sparkline
from pgdyno.report.comparison import percent

WIDEST = 60


def history_lines(of: History, metric: Metric, differences: Mapping[int, Sequence[str]]) -> Iterator[str]:
    """Return a heading, the course, and a line for each change with `differences` of the runs, by its index."""
    first, last = of.points[0], of.points[-1]
    yield (
        f"{printable(of.workload)}, {printable(of.label)}: {metric.words} of {len(of.points)} runs, "
        f"{first.started_at:%Y-%m-%d} to {last.started_at:%Y-%m-%d}"
    )
    figures = [point.figure for point in of.points]
    yield f"  {sparkline(figures, WIDEST)}  {_shown(min(figures), metric)} to {_shown(max(figures), metric)}"
    if of.changes is None:
        yield f"  {len(of.points)} runs are too few for change points, which need at least {FEWEST_RUNS}"
    elif not of.changes:
        yield "  no change of level"
    for change in of.changes or ():
        point = of.points[change.at]
        yield (
            f"  {percent(change.ratio)} at {point.started_at:%Y-%m-%d %H:%M} (run {change.at + 1}, "
            f"{printable(point.run)}): {_shown(change.before, metric)} before, {_shown(change.after, metric)} after"
        )
        for line in differences.get(change.at, ()):
            yield f"    {printable(line)}"


def differing(before: Manifest, after: Manifest) -> list[str]:
    """Return differences between the fingerprints of two runs that may explain a change; nothing if one has none."""
    if before.fingerprint is None or after.fingerprint is None:
        return []
    return [
        f"{each.field}: {each.a} before, {each.b} after"
        for each in comparable(before.fingerprint, after.fingerprint)
        if each.severity is not Severity.HARMLESS
    ]


def _shown(figure: float, metric: Metric) -> str:
    return f"{numbers.rounded(figure)} tps" if metric is Metric.TPS else f"{numbers.ms(figure)} ms"
