"""Reads SQL in pgbench's language as words: without comments, and with strings as single tokens."""

import re
from collections.abc import Iterator
from typing import NamedTuple

# every alternative that repeats is atomic, and what is never closed extends to the end: one pass reads any text
_TOKEN = re.compile(
    r"""
    (?P<blank> \s++ | --[^\n]*+ )
    | (?P<comment> /\* )
    | (?P<string> [eE]'(?:[^'\\]++|\\.|'')*+(?:'|\\?\Z) | (?:[uU]&|[bBxXnN])?'(?:[^']++|'')*+(?:'|\Z)
        | \$(?P<tag>(?:[^\W\d]\w*+)?)\$.*?(?:\$(?P=tag)\$|\Z) )
    | (?P<name> (?:[uU]&)?"(?:[^"]++|"")*+(?:"|\Z) )
    | (?P<end> \\?; )
    | (?P<meta> \\[A-Za-z](?:[^\n]*\\\r?\n)*+[^\n]*+ )
    | (?P<variable> (?<!:):\w++ )
    | (?P<word> [^\W\d][\w$]*+ )
    | (?P<mark> \d[\w.]*+ | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_END = re.compile(r"/\*|\*/")


class Token(NamedTuple):
    """A part of a statement, or a backslash command."""

    kind: str
    """`word`, `name` (in quotes), `string`, `variable`, `meta`, `mark`, or `end`, a semicolon."""
    text: str
    """Words are in lower case."""
    start: int
    end: int


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of `text`; offsets are characters."""
    at = 0
    while match := _TOKEN.match(text, at):
        at, kind = match.end(), match.lastgroup or ""
        if kind == "comment":
            at = _end_of_comment(text, at)
        elif kind != "blank":
            yield Token(kind, match[0].lower() if kind == "word" else match[0], match.start(), at)


def _end_of_comment(text: str, at: int) -> int:
    depth = 1
    while depth and (match := _COMMENT_END.search(text, at)):
        depth += 1 if match[0] == "/*" else -1
        at = match.end()
    return at if depth == 0 else len(text)


def statements(text: str) -> Iterator[list[Token]]:
    """Yield the tokens of each statement without its semicolon; a backslash command is a list of its own."""
    statement: list[Token] = []
    for token in tokens(text):
        if token.kind not in ("end", "meta"):
            statement.append(token)
            continue
        yield statement
        statement = []
        if token.kind == "meta":
            yield [token]
    yield statement
