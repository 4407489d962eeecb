"""A statement in few characters, which still tell it from others."""

import re

_SELECT = re.compile(r"select (?:distinct )?", re.IGNORECASE)
_FROM = re.compile(r" from ", re.IGNORECASE)
SHORTEST_LIST = 20
"""A shorter list of columns stays."""
_LOOKED_AT = 10_000
"""Characters of a statement: some have megabytes."""


def short_statement(text: str, most: int) -> str:
    """Returns `text` in one line of at most `most` characters.

    The list of a long SELECT goes first: object-relational mappers name every column, so without that all statements
    on a table would look the same.
    """
    line = " ".join(text[:_LOOKED_AT].split())
    if len(line) > most:
        line = _without_list(line)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _without_list(line: str) -> str:
    begin = _SELECT.match(line)
    if begin is None:
        return line
    for found in _FROM.finditer(line, begin.end()):
        listed = line[begin.end() : found.start()]
        # a FROM within parentheses belongs to a subquery or a function
        if listed.count("(") == listed.count(")"):
            return f"{line[: begin.end()]}…{line[found.start() :]}" if len(listed) > SHORTEST_LIST else line
    return line
