"""The sections of the report, in their order: one line each."""

from __future__ import annotations

from markupsafe import Markup

from pgdyno.report.answers.tpch_figures import query_tables
from pgdyno.report.report_tables import Table
from pgdyno.report.sections import (
    comparison,
    cost,
    every_point,
    latency,
    likeness,
    over_time,
    setup,
    statement_tables,
    validity,
)
from pgdyno.report.sections.draft import Draft
from pgdyno.report.sections.section import Absence, FilledSection, Folded, Paragraph, Section
from pgdyno.report.translation import gettext, sentence_space

QUERIES = Section(
    "queries",
    title=lambda: gettext("Queries"),
    link=lambda: gettext("Queries"),
    blocks=lambda draft: list(query_tables(draft.of)),
)

SECTIONS: tuple[Section, ...] = (
    likeness.SECTION,
    QUERIES,
    comparison.SECTION,
    validity.SECTION,
    every_point.SECTION,
    latency.SECTION,
    over_time.SECTION,
    statement_tables.SECTION,
    cost.SECTION,
    setup.SECTION,
)


def filled_sections(draft: Draft) -> list[FilledSection]:
    """Return the sections that have blocks; the last ends with what the report lacks."""
    blocks = {section: list(section.blocks(draft)) for section in SECTIONS}
    if blocks[likeness.SECTION]:
        # a page with both would have more than eight sections, and both are about statements
        blocks[likeness.SECTION] += [
            Folded(each.caption, [each]) if isinstance(each, Table) else each
            for each in blocks.pop(statement_tables.SECTION)
            if isinstance(each, Table | Folded)
        ]
    absences = [block.text for there in blocks.values() for block in there if isinstance(block, Absence)]
    shown = {section: [each for each in there if not isinstance(each, Absence)] for section, there in blocks.items()}
    if absences:
        lines = Markup("<b>{}</b> {}").format(gettext("Not in this report"), sentence_space().join(absences))
        shown[setup.SECTION].append(Paragraph(lines, "absent"))
    return [FilledSection(section, there) for section, there in shown.items() if there]
