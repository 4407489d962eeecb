"""Every point of the sweep: throughput and latency by clients, its table, errors, and what its workload counts."""

from functools import partial

from pgdyno.analyse.summary import PointSummary
from pgdyno.report import numbers
from pgdyno.report.analysis import usl_words
from pgdyno.report.answers.limits import limits_table
from pgdyno.report.answers.loads.connecting import connect_table
from pgdyno.report.answers.loads.groups import steps_tables
from pgdyno.report.answers.promises import promise_table
from pgdyno.report.answers.workload_figures import trial_tables
from pgdyno.report.charts.interval_bars import bar, sparkline
from pgdyno.report.charts.page_figures import CONFIRMED
from pgdyno.report.charts.palette import Look
from pgdyno.report.report_content import Digest
from pgdyno.report.report_tables import PERCENTILES, mark, parameter_cells, parameter_heading
from pgdyno.report.sections.draft import Draft, Section
from pgdyno.report.sections.environment import error_table
from pgdyno.report.sections.key_figures import peaks_table
from pgdyno.report.sections.section_blocks import Block, Folded, Heading, Items, Paragraph
from pgdyno.report.table import UNSEEN, Cell, Picture, Table, first_rows
from pgdyno.report.terminal import text_drawing
from pgdyno.report.translation import gettext, gettext_each, gettext_noop, sentence_space

MOST_ERRORS = 5
"""In a terminal."""

NARROWEST_BAR, WIDEST_BAR, SPARKLINE = 6, 24, 16
"""Columns of drawings in a terminal."""


def _blocks(draft: Draft) -> list[Block]:
    of, curves = draft.of, draft.curves
    if not of.points or of.manifest.is_untimed:
        return []
    promises = promise_table(draft.said.promises, of)
    blocks: list[Block] = [*([promises] if promises is not None else []), *draft.elsewhere(curves)]
    errors = error_table(of)
    connecting = connect_table(of)
    if draft.brief:
        limits = limits_table(of, draft.extras.limits)
        blocks += [points_table(of), *([connecting] if connecting is not None else [])]
        blocks += [gettext("and {count} more in the HTML report", count=draft.left_out)] if draft.left_out else []
        blocks += [*steps_tables(of), *(table for each, table in trial_tables(of) if not each.layout)]
        blocks += [] if errors is None else first_rows(errors, MOST_ERRORS)
        return blocks + ([] if limits is None else first_rows(limits))
    blocks += draft.elsewhere(draft.latency)
    if draft.latency is not None or (curves is not None and curves.name != CONFIRMED):
        text = gettext("Bars at a point are its 95 % interval (Student's t over trials, n in its row).")
        if curves is not None and curves.name == "scaling":
            text += sentence_space() + gettext(
                "The knee is the fewest clients whose throughput is shown to be at least 95 % of the peak's."
            )
        blocks.append(Paragraph(text))
    if len(of.curves) > 1 and draft.said.table is None and not of.has_groups:
        blocks.append(peaks_table(of, draft.extras))
    blocks += [points_table(of), *steps_tables(of)]
    blocks += [table for table in (connecting, errors) if table is not None]
    blocks += [block for each, table in trial_tables(of) for block in (Heading(each.heading()), table)]
    if any(len(curve.points) > 1 for curve in of.curves):
        laws = [f"{of.named[series].name}: {usl_words(fit)}" for series, fit in draft.fits.items()]
        blocks.append(Folded(gettext("The scalability law"), [Items(laws)]))
    return blocks


def points_table(of: Digest) -> Table:
    """Return a row per point, in the order of the digest."""
    highest = max((point.tps.high for point in of.points if point.tps is not None), default=0.0)

    rows = []
    for point in of.points:
        latency, look = point.latency, of.named[point.series].look
        figures = (latency.mean, latency.p50, latency.p95, latency.p99, latency.max) if latency else ()
        errors = numbers.format_count(point.losses.errors if point.finished else None)
        rows.append(
            (
                *parameter_cells(point, of.parameters),
                numbers.format_count(point.clients or None),
                Cell(mark(of, point), "words mark"),
                Cell(numbers.estimate(point.tps), "strong" if point.finished else "strong bad"),
                numbers.half(point.tps),
                _bar(point, highest, look),
                *(map(numbers.ms, figures or (None,) * 5)),
                Cell(errors, "amber" if point.losses.errors else ""),
                Cell(_finished_words(point), "bad" if point.failed else ""),
                _seconds(point, look),
            )
        )
    caption = gettext(
        "Every point over its finished trials: ± is half of the 95 % interval; percentiles are of all transactions "
        "together"
    )
    headings = (
        *map(parameter_heading, of.parameters),
        gettext("clients"),
        Cell(gettext("place on its curve"), UNSEEN),
        *("tps", "±", Cell(gettext("from zero"), "words bar"), gettext("mean, ms"), *PERCENTILES),
        *gettext_each("max, ms", "errors", "trials"),
        Cell(gettext("second by second"), "words"),
    )
    # names, clients and throughput are never left out
    ranks = (*(0,) * (len(of.parameters) + 1), 4, 0, 3, 8, 9, 5, 6, 1, 7, 2, 10, 11)
    return Table(caption, headings, tuple(rows), len(of.parameters), ranks)


def _bar(point: PointSummary, highest: float, look: Look) -> str:
    tps = point.tps
    if tps is None or highest <= 0:
        return ""
    typed = partial(text_drawing.bar, tps.mean / highest)
    return Picture(lambda: bar(tps, highest, look), typed, (NARROWEST_BAR, WIDEST_BAR), "words bar")


def _seconds(point: PointSummary, look: Look) -> str:
    if not point.seconds:
        return ""
    columns = (min(len(point.seconds), SPARKLINE), SPARKLINE)
    return Picture(lambda: sparkline(point.seconds, look), partial(text_drawing.sparkline, point.seconds), columns)


def _finished_words(point: PointSummary) -> str:
    """Return the number of finished trials; `2 of 3` if some did not, `6 on 3 instances` of a target of several."""
    finished = len(point.finished)
    trials = (
        gettext("{count} of {all}", count=finished, all=finished + len(point.failed)) if point.failed else str(finished)
    )
    if point.tps is not None and point.tps.instances > 1:
        return gettext("{trials} on {count} instances", trials=trials, count=point.tps.instances)
    return trials


SECTION = Section("points", gettext_noop("Points"), _blocks)
