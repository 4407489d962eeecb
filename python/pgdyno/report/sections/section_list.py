"""The sections of the report, in their order: one line each."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from pgdyno.analyse.over_time.timeline import RunSource
from pgdyno.report.answers.instruction_costs import CountedArm, cost_table, count_lines, counted_arms, function_table
from pgdyno.report.answers.workload_figures import MOST_COLUMNS, point_tables
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
from pgdyno.report.sections.draft import Draft, Section
from pgdyno.report.sections.section_blocks import Absence, Block, Folded, Items, Paragraph
from pgdyno.report.table import Table
from pgdyno.report.translation import gettext, gettext_noop, sentence, sentence_space

QUERIES = Section(
    "queries", gettext_noop("Queries"), lambda draft: list(point_tables(draft.of, 1 if draft.brief else MOST_COLUMNS))
)


def instruction_blocks(run: RunSource) -> list[Block]:
    """Return what each arm of a run costs in instructions; nothing if it counted none."""
    arms = counted_arms(run)
    if not arms:
        return []
    blocks: list[Block] = []
    others: Sequence[CountedArm | None] = arms[1:] or [None]
    for other in others:
        tables = cost_table(arms[0], other), function_table(arms[0], other)
        blocks += [each for each in tables if each is not None]
    return [*blocks, Items([sentence(line) for line in count_lines(arms)])]


INSTRUCTIONS = Section("instructions", gettext_noop("Instructions"), lambda draft: instruction_blocks(draft.of.run))

SECTIONS: tuple[Section, ...] = (
    likeness.SECTION,
    QUERIES,
    INSTRUCTIONS,
    comparison.SECTION,
    validity.SECTION,
    every_point.SECTION,
    latency.SECTION,
    over_time.SECTION,
    statement_tables.SECTION,
    cost.SECTION,
    setup.SECTION,
)


def filled_sections(draft: Draft) -> Mapping[Section, Sequence[Block]]:
    """Return the sections that have blocks, in their order; the last ends with what the report lacks."""
    blocks = {section: list(section.blocks(draft)) for section in SECTIONS}
    if draft.brief:
        return blocks
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
    return {section: there for section, there in shown.items() if there}
