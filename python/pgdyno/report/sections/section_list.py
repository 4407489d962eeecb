"""The sections that reports show as they are, in their order: one line each.

"Your load" and "Queries" come first, directly after the answer; the others stand between "Second by second" and
"Set-up".
"""

from __future__ import annotations

from pgdyno.report.answers.tpch_figures import query_tables
from pgdyno.report.report_content import Digest, Extras
from pgdyno.report.report_tables import Table
from pgdyno.report.sections import cost, likeness, statement_tables
from pgdyno.report.sections.section import FilledSection, FoldedFigure, FoldedTable, FoldedText, Section
from pgdyno.report.translation import gettext

QUERIES = Section(
    "queries",
    title=lambda: gettext("Queries"),
    link=lambda: gettext("Queries"),
    blocks=lambda of, _: list(query_tables(of)),
    absence=lambda _: "",
    is_first=True,
)

SECTIONS: tuple[Section, ...] = (
    likeness.SECTION,
    statement_tables.SECTION,
    cost.SECTION,
    QUERIES,
)


def filled_sections(of: Digest, extras: Extras) -> list[FilledSection]:
    """Return every section, also those without blocks."""
    filled = [FilledSection(section, section.blocks(of, extras)) for section in SECTIONS]
    load, statements, *others = filled
    if not load.blocks:
        return filled
    # a page with both would have more than eight sections, and both are about statements
    tables = [
        FoldedTable(each.caption, each) if isinstance(each, Table) else each
        for each in statements.blocks
        if isinstance(each, Table | FoldedFigure | FoldedText)
    ]
    return [FilledSection(load.section, [*load.blocks, *tables]), *others]
