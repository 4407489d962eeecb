"""Power, throughput and composite of tpch, and the time of each of its queries: tables and the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pgdyno.analyse.intervals import Estimate
from pgdyno.analyse.pairs import Metric
from pgdyno.analyse.summary import PowerAndThroughput, power_and_throughput
from pgdyno.report import numbers
from pgdyno.report.report_content import Digest
from pgdyno.report.report_tables import parameter_cells, parameter_heading
from pgdyno.report.sentences import interval
from pgdyno.report.table import Table
from pgdyno.report.translation import gettext, gettext_each, gettext_noop, ngettext

MOST_COLUMNS = 4
"""Points whose query times are next to each other on a page."""
UNIT = Metric.COMPOSITE.unit
DERIVED = gettext_noop("derived from TPC-H, not comparable with published TPC-H results")


def found_figures(of: Digest) -> list[PowerAndThroughput]:
    """Return the figures of every point of a run of tpch; none for other workloads."""
    return power_and_throughput(of.run.trials, of.points)


def query_tables(of: Digest, at_once: int = MOST_COLUMNS) -> Iterator[Table]:
    """Yield the figures of every point, then the seconds of each query, `at_once` points next to each other."""
    found = found_figures(of)
    if found:
        yield _figures_table(of, found)
    for at in range(0, len(found), at_once):
        yield _query_table(of, found[at : at + at_once])


def queries_json(of: Digest) -> list[dict[str, Any]]:
    """Return the figures of every point and the times of its queries, in seconds."""
    return [
        {
            "target": each.point.series.target,
            "clients": each.point.clients,
            **each.point.point.model_dump(mode="json", exclude={"clients"}),
            **{name: numbers.estimate_json(getattr(each, name)) for name in ("power", "throughput", "composite")},
            "times": [
                {
                    "query": time.query,
                    "power_s": numbers.estimate_json(time.power),
                    "throughput_s": numbers.estimate_json(time.throughput),
                }
                for time in each.queries
            ],
        }
        for each in found_figures(of)
    ]


def _figures_table(of: Digest, found: Sequence[PowerAndThroughput]) -> Table:
    rows = []
    for each in found:
        cells = [cell for figure in (each.power, each.throughput, each.composite) for cell in _with_half(figure)]
        names = parameter_cells(each.point, of.parameters)
        rows.append((*names, f"{each.point.clients:,}", *cells, str(len(each.point.finished))))
    caption = gettext(
        "Queries per hour x scale factor (SF), means over trials, ± half of the 95 % interval; {derived}",
        derived=gettext(DERIVED),
    )
    names = (*map(parameter_heading, of.parameters), gettext("streams"))
    power, throughput, composite = gettext_each("power", "throughput", "composite")
    headings = (*names, power, "±", throughput, "±", composite, "±", gettext("trials"))
    return Table(caption, headings, tuple(rows), len(of.parameters))


def _query_table(of: Digest, points: Sequence[PowerAndThroughput]) -> Table:
    headings = [gettext("query")]
    # the table above has the number of streams
    same = len(of.named) > 1 and len({point.clients for point in of.points}) == 1
    names = [of.named[each.point.series].name if same else of.point_name(each.point) for each in points]
    for shown in names:
        name = "" if len(points) == 1 else f"{shown}: "
        headings += [f"{name}{gettext('power run')}", "±", gettext("throughput run"), "±"]
    rows = [
        (
            times[0].query,
            *(cell for time in times for part in (time.power, time.throughput) for cell in _with_half(part)),
        )
        for times in zip(*(each.queries for each in points), strict=True)
    ]
    caption = gettext(
        "Seconds of each query and refresh function, means over trials, ± half of the 95 % interval; of the throughput "
        "run, the mean over its streams"
    )
    if len(points) == 1 and len(of.points) > 1:
        caption = f"{names[0]}: {caption}"
    return Table(caption, tuple(headings), tuple(rows))


def _with_half(figure: Estimate) -> tuple[str, str]:
    return numbers.estimate(figure), numbers.half(figure)


def figures_sentences(of: Digest) -> list[str]:
    """Return the composite of every point with its parts, for a run of tpch with one arm."""
    return [
        gettext(
            "{point}: composite {composite} {unit} ({interval}), power {power}, throughput {throughput}; {derived}",
            point=_point(of, each),
            composite=numbers.estimate(each.composite),
            unit=UNIT,
            interval=interval(each.composite),
            power=numbers.estimate(each.power),
            throughput=numbers.estimate(each.throughput),
            derived=gettext(DERIVED),
        )
        for each in found_figures(of)
    ]


def _point(of: Digest, each: PowerAndThroughput) -> str:
    streams = ngettext("{count:,} stream", "{count:,} streams", each.point.clients or 0)
    return gettext("{name} with {streams}", name=of.named[each.point.series].name, streams=streams)
