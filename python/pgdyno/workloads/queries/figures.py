"""Power, throughput and composite of a load derived from TPC-H, and the time of each of its queries."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pgdyno.analyse.intervals import Estimate, trials_interval
from pgdyno.analyse.pairs import Metric
from pgdyno.analyse.summary import PointSummary
from pgdyno.records import Summary, TpchFigures
from pgdyno.report import numbers
from pgdyno.report.answers.workload_figures import WorkloadFigures
from pgdyno.report.report_content import Digest
from pgdyno.report.report_tables import parameter_cells, parameter_heading
from pgdyno.report.sentences import interval
from pgdyno.report.table import Table
from pgdyno.report.translation import gettext, gettext_each, gettext_noop, ngettext

DERIVED = gettext_noop("derived from TPC-H, not comparable with published TPC-H results")
NAMES = ("power", "throughput", "composite")


class QueryFigures(NamedTuple):
    """The figures of one point: means over its finished trials, with their intervals."""

    point: PointSummary
    figures: dict[str, Estimate]
    """By NAMES."""
    queries: dict[str, tuple[Estimate, Estimate]]
    """Seconds of Q1 to Q22, RF1 and RF2 in the power run, and in the throughput run as means over its streams."""


def query_figures(of: Digest) -> list[QueryFigures]:
    """Return the figures of every point that has a finished trial of tpch."""
    of_trial = {trial.number: trial for trial in of.run.trials}
    found = []
    for point in of.points:
        measured = [of_trial[number] for number in point.finished]
        figures = [each.summary.tpch for each in measured if each.summary is not None and each.summary.tpch is not None]
        if not figures or len(figures) != len(measured):
            continue
        instances = [each.instance for each in measured]
        # a finished trial has all figures
        means = {name: trials_interval([getattr(each, name) or 0.0 for each in figures], instances) for name in NAMES}
        queries = {
            query: (
                trials_interval([_mean_s(each, query, of_power=True) for each in figures], instances),
                trials_interval([_mean_s(each, query, of_power=False) for each in figures], instances),
            )
            for query in sorted({timing.query for timing in figures[0].timings}, key=_place)
        }
        found.append(QueryFigures(point, means, queries))
    return found


def _mean_s(figures: TpchFigures, query: str, *, of_power: bool) -> float:
    times = [each.seconds for each in figures.timings if each.query == query and (each.stream == 0) == of_power]
    return math.fsum(times) / len(times)


def _place(query: str) -> tuple[bool, int]:
    """Query by number, then the refresh functions."""
    return query.startswith("RF"), int(query.lstrip("QRF"))


def query_tables(of: Digest, at_once: int) -> Iterator[Table]:
    """Yield the figures of every point, then the seconds of each query."""
    found = query_figures(of)
    if found:
        yield _figures_table(of, found)
    for at in range(0, len(found), at_once):
        yield _query_table(of, found[at : at + at_once])


def queries_answer(of: Digest) -> list[str]:
    """Return the composite of every point with its parts."""
    return [
        gettext(
            "{point}: composite {composite} {unit} ({interval}), power {power}, throughput {throughput}; {derived}",
            point=_point(of, each.point),
            unit=Metric.COMPOSITE.unit,
            interval=interval(each.figures["composite"]),
            derived=gettext(DERIVED),
            **{name: numbers.estimate(figure) for name, figure in each.figures.items()},
        )
        for each in query_figures(of)
    ]


def queries_json(of: Digest) -> list[dict[str, Any]]:
    """Return the figures of every point and the times of its queries, in seconds."""
    return [
        {
            "target": each.point.series.target,
            "clients": each.point.clients,
            **each.point.point.model_dump(mode="json", exclude={"clients"}),
            **{name: numbers.estimate_json(figure) for name, figure in each.figures.items()},
            "times": [
                {"query": query, "power_s": numbers.estimate_json(power), "throughput_s": numbers.estimate_json(other)}
                for query, (power, other) in each.queries.items()
            ],
        }
        for each in query_figures(of)
    ]


def _figures_table(of: Digest, found: Sequence[QueryFigures]) -> Table:
    rows = []
    for each in found:
        cells = [cell for figure in each.figures.values() for cell in _with_half(figure)]
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


def _query_table(of: Digest, points: Sequence[QueryFigures]) -> Table:
    headings = [gettext("query")]
    # the table above has the number of streams
    same = len(of.named) > 1 and len({point.clients for point in of.points}) == 1
    names = [of.named[each.point.series].name if same else of.point_name(each.point) for each in points]
    for shown in names:
        name = "" if len(points) == 1 else f"{shown}: "
        headings += [f"{name}{gettext('power run')}", "±", gettext("throughput run"), "±"]
    rows = [
        (query, *(cell for each in points for part in each.queries[query] for cell in _with_half(part)))
        for query in points[0].queries
    ]
    caption = gettext(
        "Seconds of each query and refresh function, means over trials, ± half of the 95 % interval; of the throughput "
        "run, the mean over its streams"
    )
    if len(points) == 1 and len(of.points) > 1:
        caption = f"{names[0]}: {caption}"
    return Table(caption, tuple(headings), tuple(rows))


def _trial_cells(summary: Summary | None) -> Iterator[str]:
    tpch = summary.tpch if summary is not None else None
    for figure in (*(getattr(tpch, name, None) for name in NAMES), getattr(summary, "measured_s", None)):
        yield numbers.round_text(figure) if figure is not None else numbers.NOTHING


def _with_half(figure: Estimate) -> tuple[str, str]:
    return numbers.estimate(figure), numbers.half(figure)


def _point(of: Digest, point: PointSummary) -> str:
    streams = ngettext("{count:,} stream", "{count:,} streams", point.clients or 0)
    return gettext("{name} with {streams}", name=of.named[point.series].name, streams=streams)


FIGURES = WorkloadFigures(
    trial_columns=lambda: gettext_each("power", "throughput", "composite", "measured, s"),
    trial_cells=_trial_cells,
    point_tables=query_tables,
    answer=queries_answer,
    as_json=queries_json,
)
