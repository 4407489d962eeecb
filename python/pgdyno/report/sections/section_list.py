"""The sections between "Second by second" and "Set-up", in the order of the report: one line each."""

from __future__ import annotations

from pgdyno.report.digest import Digest, Extras
from pgdyno.report.sections import cost, statement_tables
from pgdyno.report.sections.section import FilledSection, Section

SECTIONS: tuple[Section, ...] = (
    statement_tables.SECTION,
    cost.SECTION,
)


def filled_sections(of: Digest, extras: Extras) -> list[FilledSection]:
    """Return every section, also those without blocks."""
    return [FilledSection(section, section.blocks(of, extras)) for section in SECTIONS]
