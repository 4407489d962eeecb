"""The white space and the comments before the words of a statement, as a regular expression."""

from __future__ import annotations

_COMMENT = r"/\*(?:[^*/]++|\*(?!/)|/(?!\*))*+\*/"
for _ in range(2):
    # comments nest in PostgreSQL: three levels are more than anybody writes
    _COMMENT = rf"/\*(?:[^*/]++|\*(?!/)|/(?!\*)|{_COMMENT})*+\*/"
# each alternative is atomic and begins with other characters: a text that does not match costs one pass, and not one
# for each of the exponentially many ways to split it
BLANKS = rf"(?>\s+|--[^\n]*+(?:\n|\Z)|{_COMMENT})*+"
"""Matches all white space and comments at the beginning of a text; understood by Python alone."""
