"""Every point of the sweep: throughput and latency by clients, its table, errors, and what its workload counts."""

from __future__ import annotations

from markupsafe import Markup

from pgdyno.report.analysis import usl_words
from pgdyno.report.charts.interval_bars import bar, sparkline
from pgdyno.report.charts.page_figures import CONFIRMED
from pgdyno.report.report_content import Digest
from pgdyno.report.report_tables import PointRow, parameter_heading, point_rows, sweep_table, tpcc_table
from pgdyno.report.sections.draft import Draft
from pgdyno.report.sections.environment import error_table
from pgdyno.report.sections.key_figures import peaks_table
from pgdyno.report.sections.section import Block, Folded, Heading, Items, Paragraph, PointTable, Section
from pgdyno.report.translation import gettext, sentence_space


def _blocks(draft: Draft) -> list[Block]:
    of, curves = draft.of, draft.curves
    if not of.points or of.manifest.scale_factor is not None:
        return []
    blocks: list[Block] = [*draft.elsewhere(curves), *draft.elsewhere(draft.latency)]
    if draft.latency is not None or (curves is not None and curves.name != CONFIRMED):
        text = gettext("Bars at a point are its 95 % interval (Student's t over trials, n in its row).")
        if curves is not None and curves.name == "scaling":
            text += sentence_space() + gettext(
                "The knee is the fewest clients whose throughput is shown to be at least 95 % of the peak's."
            )
        blocks.append(Paragraph(text))
    if len(of.curves) > 1 and draft.said.table is None:
        blocks.append(peaks_table(of, draft.extras))
    blocks.append(PointTable([parameter_heading(name) for name in of.parameters], _rows(of)))
    errors, orders = error_table(of), tpcc_table(of)
    blocks += [errors] if errors is not None else []
    counted = orders or sweep_table(of)
    if counted is not None:
        blocks += [Heading("TPC-C" if orders else gettext("sysbench's figures")), counted]
    if any(len(curve.points) > 1 for curve in of.curves):
        laws = [f"{of.named[series].name}: {usl_words(fit)}" for series, fit in draft.fits.items()]
        blocks.append(Folded(gettext("The scalability law"), [Items(laws)]))
    return blocks


def _rows(of: Digest) -> list[tuple[PointRow, Markup, Markup]]:
    highest = max((point.tps.high for point in of.points if point.tps is not None), default=0.0)
    rows = []
    for row in point_rows(of):
        look, tps = of.named[row.point.series].look, row.point.tps
        rows.append(
            (row, bar(tps, highest, look) if tps is not None else Markup(""), sparkline(row.point.seconds, look))
        )
    return rows


SECTION = Section("points", title=lambda: gettext("Points"), link=lambda: gettext("Points"), blocks=_blocks)
