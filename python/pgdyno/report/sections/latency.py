"""Latency: its spectrum and heatmaps, and open loop against closed loop."""

from pgdyno.report.report_tables import spectrum_table
from pgdyno.report.sections.draft import Draft, Section
from pgdyno.report.sections.figures.latency import heat_figures, is_closed
from pgdyno.report.sections.section_blocks import Absence, Block, Paragraph, data_of_chart
from pgdyno.report.translation import gettext, gettext_noop


def _blocks(draft: Draft) -> list[Block]:
    if draft.brief or draft.of.manifest.is_untimed:
        return []
    heats = heat_figures(draft.of)
    if draft.spectrum is None and not heats:
        return [Absence(gettext("Latency: no histograms."))]
    blocks: list[Block] = []
    for figure, table in ((draft.spectrum, spectrum_table(draft.of)), draft.loops or (None, None)):
        if figure is not None and table is not None:
            shown = draft.elsewhere(figure)
            blocks += [*shown, data_of_chart(table, is_above=bool(shown))]
    if draft.loops is None and is_closed(draft.of):
        text = gettext(
            "Closed loop: a client sends its next request only after the answer, so that a stall also delays the "
            "requests that it would have affected. For comparison with an open loop, sweep rates."
        )
        blocks.append(Paragraph(text))
    return [*blocks, *(block for figure, table in heats for block in (figure, data_of_chart(table)))]


SECTION = Section("spectrum-h", gettext_noop("Latency"), _blocks)
