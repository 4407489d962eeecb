"""A table of text, and what a terminal or Markdown leaves out of it without room."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from pgdyno.report.translation import gettext

if TYPE_CHECKING:
    from markupsafe import Markup

UNSEEN = "words unseen"
"""The look of a heading that only screen readers need."""


class Cell(str):
    """The text of a cell that stands out."""

    __slots__ = ("look",)
    look: str
    """CSS classes, of which terminals know some as styles."""

    def __new__(cls, text: str, look: str) -> Self:
        made = super().__new__(cls, text)
        made.look = look
        return made


def look_of(cell: str) -> str:
    return cell.look if isinstance(cell, Cell) else ""


class Picture(Cell):
    """A cell without text, which is drawn."""

    __slots__ = ("columns", "svg", "typed")
    svg: Callable[[], Markup]
    typed: Callable[[int], str]
    """The drawing in so many columns of a terminal."""
    columns: tuple[int, int]
    """The fewest and most of them."""

    def __new__(
        cls, svg: Callable[[], Markup], typed: Callable[[int], str], columns: tuple[int, int], look: str = "words"
    ) -> Self:
        made = super().__new__(cls, "", look)
        made.svg, made.typed, made.columns = svg, typed, columns
        return made


@dataclass(frozen=True, slots=True)
class Table:
    """Text in rows; the heading of a column has the unit."""

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: int = 1
    """The first columns, which name the row; the rest are figures."""
    ranks: tuple[int, ...] = ()
    """A terminal or Markdown without room leaves out the columns of the highest rank first, and none of rank 0. A table
    without ranks becomes sentences there.
    """

    def without(self, columns: Collection[int]) -> Table:
        kept = [at for at in range(len(self.headings)) if at not in columns]
        headings, *rows = (tuple(row[at] for at in kept) for row in (self.headings, *self.rows))
        ranks = tuple(self.ranks[at] for at in kept) if self.ranks else ()
        return Table(self.caption, headings, tuple(rows), sum(at < self.text_columns for at in kept), ranks)

    def visible_columns(self, *, pictures: bool) -> Table:
        """Return the table without its empty columns; without `pictures`, also those that are drawn."""

        def is_shown(at: int) -> bool:
            return any(row[at] or (pictures and isinstance(row[at], Picture)) for row in self.rows)

        return self.without({at for at in range(len(self.headings)) if self.rows and not is_shown(at)})

    def fit_columns(self, does_fit: Callable[[Table], bool]) -> Table:
        """Return the table without the columns of the highest ranks that do not fit; those of one rank go together."""
        table = self
        while any(table.ranks) and not does_fit(table):
            table = table.without({at for at, rank in enumerate(table.ranks) if rank == max(table.ranks)})
        return table

    def sentences(self) -> list[str]:
        """Return a line for each row, with the headings in it."""
        pairs = [zip(self.headings, row, strict=True) for row in self.rows]
        return [", ".join(f"{heading} {cell}" for heading, cell in row if cell) for row in pairs]


MOST_ROWS = 24


def first_rows(table: Table, most: int = MOST_ROWS) -> list[Table | str]:
    """Return the first rows of a table for a terminal or Markdown, and how many more the page has."""
    more = len(table.rows) - most
    shown = replace(table, rows=table.rows[:most])
    return [shown, gettext("and {count} more in the HTML report", count=more)] if more > 0 else [table]
