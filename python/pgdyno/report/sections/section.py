"""A section that reports show as it is: a heading, then paragraphs, tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pgdyno.report.charts.page_figures import Figure
from pgdyno.report.report_content import Digest, Extras
from pgdyno.report.report_tables import Table


@dataclass(frozen=True, slots=True)
class FoldedTable:
    """A table that the page shows on request, and the PDF in its appendix."""

    title: str
    table: Table


@dataclass(frozen=True, slots=True)
class FoldedFigure:
    """A figure that the page shows on request; the PDF leaves it out."""

    title: str
    figure: Figure


@dataclass(frozen=True, slots=True)
class FoldedText:
    """Text with its line breaks that the page shows on request; the PDF leaves it out."""

    title: str
    lines: str


Block = str | Table | Figure | FoldedTable | FoldedFigure | FoldedText
"""A string is a paragraph."""


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the HTML report and of the PDF."""

    id: str
    """The anchor on the page."""
    title: Callable[[], str]
    """In the current language, like all texts."""
    link: Callable[[], str]
    """The section's name in the navigation."""
    blocks: Callable[[Digest, Extras], Sequence[Block]]
    """Reports leave the section out if it has no blocks."""
    absence: Callable[[Extras], str]
    """The sentence that replaces a section without blocks, under "Not in this report"; empty for none."""
    on_second_page: bool = False
    """Whether the PDF shows it on its second page; otherwise in the appendix."""
    is_first: bool = False
    """Whether it follows the answer directly."""


@dataclass(frozen=True, slots=True)
class FilledSection:
    """A section of one report."""

    section: Section
    blocks: Sequence[Block]

    @property
    def folded(self) -> list[FoldedTable]:
        return [each for each in self.blocks if isinstance(each, FoldedTable)]

    @property
    def unfolded(self) -> list[str | Table | Figure]:
        return [each for each in self.blocks if not isinstance(each, FoldedTable | FoldedFigure | FoldedText)]
