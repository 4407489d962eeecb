"""Groups of clients beside each other, and the steps of a trial: what each did."""

import statistics
from collections.abc import Iterator

from pgdyno.analyse.pairs import judged_trials
from pgdyno.analyse.summary import PointSummary
from pgdyno.records import StepRecord
from pgdyno.report import numbers
from pgdyno.report.answers.loads.rates import has_kept_up, served_share
from pgdyno.report.report_content import Digest
from pgdyno.report.table import Table
from pgdyno.report.translation import gettext, gettext_each
from pgdyno.units import format_size

NAMED_AT_MOST = 6
"""Loads that one sentence names individually."""


def groups_text(of: Digest) -> str:
    """Return throughput and p99 of each load by which a trial is judged."""
    judged = {trial.number for trial in judged_trials(of.manifest, of.run.trials)}
    points = [point for point in of.points if judged.intersection(point.finished)]
    # the throughput of an open loop was asked for
    points.sort(key=lambda point: point.point.rate is not None)
    named = [_figures(of, point) for point in points[:NAMED_AT_MOST]]
    if len(points) > NAMED_AT_MOST:
        named.append(gettext("and {count} more", count=len(points) - NAMED_AT_MOST))
    return gettext("; ").join(named)


def _figures(of: Digest, point: PointSummary) -> str:
    p99 = point.latency.p99 if point.latency is not None else None
    return gettext(
        "{load}: {tps} tps, p99 {p99} ms",
        load=of.point_name(point),
        tps=numbers.estimate(point.tps),
        p99=numbers.ms(p99),
    )


def not_served(of: Digest) -> Iterator[str]:
    """Return the groups that did not hold their rate."""
    for point in of.points:
        if point.point.rate is not None and point.tps is not None and not has_kept_up(of, point):
            yield gettext(
                "{load} does not hold its rate of {rate} transactions a second: it serves {tps}, {share} % of those "
                "due",
                load=of.point_name(point),
                rate=f"{point.point.rate:,.10g}",
                tps=numbers.estimate(point.tps),
                share=numbers.round_text(100 * served_share(of, point)),
            )


def steps_tables(of: Digest) -> Iterator[Table]:
    """Return the time and the WAL of each step that is no load, medians over the trials; nothing without steps."""
    found: dict[tuple[str, str], list[StepRecord]] = {}
    for trial in of.run.trials:
        for step in trial.steps:
            found.setdefault((trial.target, step.name), []).append(step)
    if not found:
        return
    targets = {target for target, _ in found}
    rows = []
    for (target, name), steps in found.items():
        written = [step.wal_bytes for step in steps if step.wal_bytes is not None]
        wal = format_size(round(statistics.median(written))) if written else numbers.NOTHING
        seconds = numbers.round_text(statistics.median(step.seconds for step in steps))
        names = (target, name) if len(targets) > 1 else (name,)
        rows.append((*names, gettext(steps[0].does), seconds, wal, str(len(steps))))
    headings = gettext_each("step", "does", "seconds", "WAL", "trials")
    caption = gettext("Steps between the loads: medians over the trials")
    first = (gettext("target"), *headings) if len(targets) > 1 else headings
    yield Table(caption, first, tuple(rows), len(first) - 3)
