"""What of a statement may be shown: its command, or its text without literals."""

from itertools import islice, takewhile

from pgdyno.effect.sql_tokens import tokens

_WITH_OBJECT = ("ALTER", "CREATE", "DROP", "REFRESH", "START")
"""Commands whose next word belongs to them."""


def shown_query(query: str, *, whole: bool) -> str:
    """Return the displayed text of `query`: its kind, or its text without literals."""
    return without_literals(query) if whole else kind_of(query)


def kind_of(query: str) -> str:
    """Return the command that a statement begins with, such as `SELECT` or `ALTER TABLE`; possibly empty."""
    words = [each.text.upper() for each in islice(takewhile(lambda each: each.kind == "word", tokens(query)), 2)]
    return " ".join(words[: 1 + (words[:1] < words and words[0] in _WITH_OBJECT)])


def without_literals(query: str) -> str:
    """Return `query` on one line, with strings and numbers hidden, without comments."""
    shown, at, before = "", 0, ""
    for token in tokens(query):
        shown += " " if token.start > at else ""
        text, at = query[token.start : token.end], token.end
        is_number = text[0].isdigit() and before != "$"
        shown += "?" if token.kind in ("string", "meta") or is_number else text
        before = text
        # whether a backslash ends a string depends on a setting: what follows may be a password
        if token.kind == "string" and "\\" in text and text[0] not in "eE$":
            break
    return " ".join(shown.split())
