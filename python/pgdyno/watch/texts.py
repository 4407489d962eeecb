"""The displayable part of a statement: its kind, or its text without the content of literals."""

from __future__ import annotations

import re

_COMMENTS = re.compile(r"(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z))*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]+")
_WORDS = re.compile(r"[A-Za-z_]+(?:\s+[A-Za-z_]+)?")
_OF_TWO = {"ALTER", "CREATE", "DROP", "REFRESH", "START"}
_TOKEN = re.compile(
    r"""
    (?P<comment>--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z))
    |(?P<name>"(?:[^"]|"")*(?:"|\Z))
    |(?P<escaped>\b[eE]'(?:[^'\\]|\\.|'')*(?:'|\Z))
    |(?P<plain>(?:\b[bBnNxXuU]&?)?'(?:[^']|'')*(?:'|\Z))
    |(?P<dollar>(?<![\w$])\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?(?:\$(?P=tag)\$|\Z))
    |(?P<parameter>\$\d+)
    |(?P<number>(?<![\w$])\d[\w.]*)
    |(?P<word>\w+)
    """,
    re.VERBOSE | re.DOTALL,
)
HIDDEN = "?"


def kind_of(query: str) -> str:
    """Return the command that a statement begins with, such as `SELECT` or `ALTER TABLE`; possibly empty."""
    begin = _COMMENTS.match(query)
    rest = query[begin.end() if begin else 0 :]
    first = _WORD.match(rest)
    if first is None:
        return ""
    command = first[0].upper()
    two = _WORDS.match(rest)
    return " ".join(two[0].upper().split()) if command in _OF_TWO and two else command


def without_literals(query: str) -> str:
    """Return `query` on one line, with strings and numbers hidden, without comments.

    If a backslash makes the end of a string ambiguous, everything after it is hidden, too: rather too much than a
    password.
    """
    parts: list[str] = []
    at = 0
    for token in _TOKEN.finditer(query):
        parts.append(query[at : token.start()])
        at = token.end()
        text = token[0]
        if token["plain"] is not None and "\\" in text:
            parts.append(HIDDEN)
            at = len(query)
            break
        if token["comment"] is not None:
            parts.append(" ")
        elif any(token[name] is not None for name in ("escaped", "plain", "dollar", "number")):
            parts.append(HIDDEN)
        else:
            parts.append(text)
    parts.append(query[at:])
    return " ".join("".join(parts).split())


def shown_query(query: str, *, whole: bool) -> str:
    """Return the displayed text of `query`: its kind, or its text without literals."""
    return without_literals(query) if whole else kind_of(query)
