"""Columns that an UPDATE writes unchanged, as those of an application that saves whole rows."""

import re

from pgdyno.capture.parser import BLANKS
from pgdyno.synthesise.constants import PLACE
from pgdyno.synthesise.values_and_pauses import Site

LEAST_UNCHANGED = 10
"""The fewest repeated updates of rows that show that they keep a value; one is enough if each row has its own."""
MOST_CHANGED = 0.005
"""The part of the repeated updates that may change the value."""

_UPDATE = re.compile(rf"{BLANKS}update\b", re.IGNORECASE)
_ASSIGNS = re.compile(r"(?:,|\bset\b)\s*(\"[^\"]+\"|\w+)\s*=\s*\Z", re.IGNORECASE)
_ASSIGNED = re.compile(r"(?:::[\w\". ]+)?\s*(?:,|\bwhere\b)", re.IGNORECASE)
_TO_WHERE = re.compile(r"(.*?)\bwhere\b", re.IGNORECASE | re.DOTALL)
_FROM = re.compile(r"\bfrom\b", re.IGNORECASE)


def unchanged_column(site: Site, index: int) -> str | None:
    """Return the column in which a constant is stored if rows keep its value; None if they do not.

    A row is known by the constants of WHERE: their next statement stores what the one before it stored.
    """
    pieces = site.template.pieces
    assigns = _ASSIGNS.search(pieces[index])
    if _UPDATE.match(pieces[0]) is None or assigns is None or _ASSIGNED.match(pieces[index + 1]) is None:
        return None
    to_where = _TO_WHERE.match("$1".join(pieces[index + 1 :]))
    # a name within a function or a join may be another column
    before = "".join(pieces[: index + 1])
    if to_where is None or _FROM.search(to_where[1]) is not None or before.count("(") != before.count(")"):
        return None
    row_constants = site.columns[index + 1 + len(PLACE.findall(to_where[0])) :]
    if not row_constants:
        return None
    stored: dict[tuple[str | None, ...], str | None] = {}
    repeats = changes = 0
    for row, value in zip(zip(*row_constants, strict=True), site.columns[index], strict=True):
        if row in stored:
            repeats += 1
            changes += stored[row] != value
        stored[row] = value
    least = 1 if len(set(stored.values())) == len(stored) else LEAST_UNCHANGED
    return assigns[1] if repeats >= least and changes <= MOST_CHANGED * repeats else None
