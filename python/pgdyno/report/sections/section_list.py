"""The sections of the report, in their order: one line each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pgdyno.report import sentences
from pgdyno.report.answers.answer import shows_peak
from pgdyno.report.answers.noise import noise_grade
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
from pgdyno.report.sections.draft import Draft
from pgdyno.report.sections.key_figures import BigNumber, noise_number, peak_numbers
from pgdyno.report.sections.section import Absence, Block, FilledSection, Folded, Paragraph, Section
from pgdyno.report.table import Table
from pgdyno.report.translation import capital, gettext, sentence_space

QUERIES = Section(
    "queries",
    title=lambda: gettext("Queries"),
    link=lambda: gettext("Queries"),
    blocks=lambda draft: list(point_tables(draft.of, 1 if draft.brief else MOST_COLUMNS)),
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


@dataclass(frozen=True, slots=True)
class Content:
    """A report that is to be written: what its first screen shows, and its sections."""

    draft: Draft
    conditions: str
    numbers: Sequence[BigNumber]
    sections: Sequence[FilledSection]

    def blocks(self) -> list[Block]:
        return [block for each in self.sections for block in each.blocks]

    def key_lines(self) -> list[str]:
        """Return the figures of the first screen, and how many rules of the audit passed."""
        lines = [
            capital(f"{each.name}: {each.figure} {each.unit}".rstrip() + f" ({each.about})") for each in self.numbers
        ]
        validity = self.draft.validity
        return lines if validity is None else [*lines, f"{gettext('Validity')}: {validity.line}"]


def report_content(draft: Draft) -> Content:
    """Return the content of every section."""
    of, extras = draft.of, draft.extras
    numbers = peak_numbers(of, of.best, extras) if of.best is not None and shows_peak(of, draft.said) else []
    if any(each.finished for each in of.points):
        numbers.insert(2, noise_number(noise_grade(of, draft.said.chief)))
    return Content(draft, sentences.conditions(of), numbers, filled_sections(draft))


def filled_sections(draft: Draft) -> list[FilledSection]:
    """Return the sections that have blocks; the last ends with what the report lacks."""
    blocks = {section: list(section.blocks(draft)) for section in SECTIONS}
    if draft.brief:
        return [FilledSection(section, there) for section, there in blocks.items()]
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
