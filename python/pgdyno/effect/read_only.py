"""What of a script a read-only transaction would let through although it writes.

default_transaction_read_only is only a default, which a transaction may lift, and some commands write in spite of it
(PostgreSQL's utility.c lists them). All other writes need no check: the server refuses them, and it alone knows which
tables are temporary and what functions do.
"""

import re

from pgdyno.effect.sql_tokens import Token, statements

READ_ONLY = "default_transaction_read_only"
LIFTING = (READ_ONLY, "transaction_read_only")
"""Settings that decide whether transactions may write."""

_WRITING = (
    ("vacuum",),
    ("analyze",),
    ("analyse",),
    ("reindex",),
    ("cluster",),
    ("checkpoint",),
    ("copy",),
    ("notify",),
    ("alter", "system"),
    ("prepare", "transaction"),
    ("commit", "prepared"),
    ("rollback", "prepared"),
)
"""Commands that a read-only transaction allows although they write: to storage, files, or other sessions."""
_IN_STRING = re.compile(rf"\b(?:{'|'.join(LIFTING)}|read\s+write)\b", re.IGNORECASE)
"""As set_config, DO and EXECUTE may contain them."""


def first_escape(text: str) -> tuple[int, str] | None:
    """Return the line and the words of what a read-only transaction would let through; None without any."""
    for statement in statements(text):
        found = _escape(text, statement)
        if found is not None:
            start, end = found
            return text.count("\n", 0, start) + 1, " ".join(text[start:end].split())
    return None


def _escape(text: str, statement: list[Token]) -> tuple[int, int] | None:
    words = tuple(each.text for each in statement)
    for each in _WRITING:
        if words[: len(each)] == each:
            return statement[0].start, statement[len(each) - 1].end
    changes_transaction = words[:1] in (("begin",), ("start",), ("set",))
    for at, token in enumerate(statement):
        if changes_transaction and words[at : at + 2] == ("read", "write"):
            return token.start, statement[at + 1].end
        if token.kind in ("string", "meta") and (match := _IN_STRING.search(text, token.start, token.end)):
            return match.span()
        if token.kind in ("word", "name") and token.text.strip('"').lower() in LIFTING:
            return token.start, token.end
    return None
