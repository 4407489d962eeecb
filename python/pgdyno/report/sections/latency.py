"""Latency: its spectrum and heatmaps, and open loop against closed loop."""

from __future__ import annotations

from pgdyno.report.sections.draft import Draft, Section
from pgdyno.report.sections.figures.latency import is_closed
from pgdyno.report.sections.section_blocks import Absence, Block, Paragraph, data_of_chart
from pgdyno.report.translation import gettext


def _blocks(draft: Draft) -> list[Block]:
    if draft.brief or draft.of.manifest.is_untimed:
        return []
    if draft.spectrum is None and not draft.heats:
        return [Absence(gettext("Latency: no histograms."))]
    blocks: list[Block] = []
    for figure, table in ((draft.spectrum, draft.spectrum_table), draft.loops or (None, None)):
        if figure is not None and table is not None:
            shown = draft.elsewhere(figure)
            blocks += [*shown, data_of_chart(table, is_above=bool(shown))]
    if draft.loops is None and is_closed(draft.of):
        text = gettext(
            "Closed loop: a client sends its next request only after the answer, so that a stall also delays the "
            "requests that it would have affected. For comparison with an open loop, sweep rates."
        )
        blocks.append(Paragraph(text))
    return [*blocks, *(block for figure, table in draft.heats for block in (figure, data_of_chart(table)))]


SECTION = Section("spectrum-h", title=lambda: gettext("Latency"), link=lambda: gettext("Latency"), blocks=_blocks)
