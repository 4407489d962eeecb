"""The time of each query that is a file."""

import re
import statistics
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pgdyno.analyse.series import Series
from pgdyno.analyse.summary import PointSummary
from pgdyno.records import QueryResult, QueryRun, Summary
from pgdyno.report import numbers
from pgdyno.report.answers.workload_figures import WorkloadFigures
from pgdyno.report.report_content import Digest
from pgdyno.report.table import Table
from pgdyno.report.translation import gettext, gettext_each, ngettext

MOST_NAMED = 3
RANKS = (0, 0, 0, 3, 0, 4, 2, 5, 5, 5, 6, 7, 1)
"""What a narrow terminal leaves out first: JIT, workers, blocks."""


class QueryTimes(NamedTuple):
    """One query at one point, over its finished trials; in seconds."""

    first_s: float
    """Median of the first runs in a session."""
    median_s: float
    """Median of the others."""
    longest_s: float
    rows: int
    cold_s: float | None = None
    """Median of the cold runs."""


def query_times(runs: Sequence[QueryRun]) -> dict[str, QueryTimes]:
    """Return the figures of each query in `runs`, by name: Q2 before Q10."""
    found = {}
    for query in sorted(
        {each.query for each in runs}, key=lambda name: re.sub(r"\d+", lambda at: at[0].zfill(9), name)
    ):
        own = [each for each in runs if each.query == query]
        later = [each.seconds for each in own if each.is_repeat]
        cold = [each.seconds for each in own if each.is_cold]
        if later:
            first = statistics.median(each.seconds for each in own if each.round == 0 and not each.is_cold)
            cold_s = statistics.median(cold) if cold else None
            found[query] = QueryTimes(first, statistics.median(later), max(later), own[0].rows, cold_s)
    return found


def _points(of: Digest) -> list[tuple[PointSummary, dict[str, QueryTimes]]]:
    of_trial = {trial.number: trial.summary for trial in of.run.trials}
    found = []
    for point in of.points:
        summaries = [summary for number in point.finished if (summary := of_trial[number]) is not None]
        times = query_times([each for summary in summaries for each in summary.queries])
        if times:
            found.append((point, times))
    return found


def _tables(of: Digest, at_once: int) -> Iterator[Table]:
    del at_once
    found = _points(of)
    if not found:
        return
    results = _results(of)
    rows = [
        (query, of.point_name(point), *_time_cells(times[query]), *_work_cells(results.get((query, point.series))))
        for query in found[0][1]
        for point, times in found
        if query in times
    ]
    caption = gettext(
        "Times of each query over all trials: median without anything in memory (cold), and of the first run in a "
        "session, then median and longest of the others; and what it did once more after the first trial, in blocks"
    )
    headings = gettext_each(
        "query",
        "arm",
        "cold, ms",
        "first, ms",
        "median, ms",
        "longest, ms",
        "rows",
        "hit",
        "read",
        "temporary",
        "workers",
        "JIT, ms",
        "instructions",
    )
    yield Table(caption, headings, tuple(rows), 2, RANKS).visible_columns(pictures=False)


def _time_cells(times: QueryTimes) -> Iterator[str]:
    yield "" if times.cold_s is None else numbers.ms(1e9 * times.cold_s)
    for seconds in (times.first_s, times.median_s, times.longest_s):
        yield numbers.ms(1e9 * seconds)
    yield f"{times.rows:,}"


def _results(of: Digest) -> dict[tuple[str, Series], QueryResult]:
    return {(result.query, of.series_of(trial)): result for trial in of.run.trials for result in trial.query_results}


def _work_cells(result: QueryResult | None) -> Iterator[str]:
    if result is None or result.reason is not None:
        yield from [numbers.NOTHING] * 5
    else:
        for count in (result.blocks_hit, result.blocks_read, result.temporary_blocks):
            yield f"{count:,}" if count is not None else numbers.NOTHING
        asked = f" / {result.workers_planned}" if result.workers_planned else ""
        yield from (f"{result.workers_launched}{asked}", numbers.round_text(result.jit_ms or 0.0))
    yield "" if result is None or result.instructions is None else f"{result.instructions:,.0f}"


def _answer(of: Digest) -> list[str]:
    lines = []
    for point, times in _points(of):
        slowest = sorted(times.items(), key=lambda each: -each[1].median_s)[:MOST_NAMED]
        named = ", ".join(f"{query} {numbers.ms(1e9 * each.median_s)} ms" for query, each in slowest)
        all_ms = numbers.ms(1e9 * sum(each.median_s for each in times.values()))
        count = ngettext("{count} query", "{count} queries", len(times))
        text = gettext(
            "{name}: {queries} in {all} ms, by the medians; the slowest: {slowest}",
            name=of.point_name(point),
            queries=count,
            all=all_ms,
            slowest=named,
        )
        lines.append(text)
    return lines


def _json(of: Digest) -> list[dict[str, Any]]:
    counted = {place: each.instructions for place, each in _results(of).items()}
    return [
        {
            "target": point.series.target,
            "clients": point.clients,
            **point.point.model_dump(mode="json", exclude={"clients"}),
            "queries": [
                {"query": query, **each._asdict(), "instructions": counted.get((query, point.series))}
                for query, each in times.items()
            ],
        }
        for point, times in _points(of)
    ]


def _trial_cells(summary: Summary | None) -> Iterator[str]:
    times = query_times(summary.queries) if summary is not None else {}
    yield numbers.ms(1e9 * sum(each.median_s for each in times.values())) if times else numbers.NOTHING
    yield numbers.ms(1e9 * sum(each.first_s for each in times.values())) if times else numbers.NOTHING


FIGURES = WorkloadFigures(
    trial_columns=lambda: (gettext("all queries, ms"), gettext("first, ms")),
    trial_cells=_trial_cells,
    point_tables=_tables,
    answer=_answer,
    as_json=_json,
)
