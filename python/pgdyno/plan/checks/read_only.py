"""Whether a script stays within read-only transactions, as far as its text shows that.

default_transaction_read_only is only a default, which a transaction may lift, and some commands write in spite of it
(PostgreSQL's utility.c lists them). The text of functions that a script calls is on the server: pgdyno does not see it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pgdyno.plan.sql_comments import BLANKS

READ_ONLY = "default_transaction_read_only"
LIFTING = (READ_ONLY, "transaction_read_only")
"""Settings that decide whether transactions may write."""

_GAP = rf"(?=\s|/\*|--){BLANKS}"
_WRITING = (
    "vacuum",
    "analy[sz]e",
    "reindex",
    "cluster",
    "checkpoint",
    "copy",
    rf"alter{_GAP}system",
    rf"prepare{_GAP}transaction",
    rf"(?:commit|rollback){_GAP}prepared",
)
"""Commands that a read-only transaction allows although they write: to tables' storage, to files or to other
transactions.
"""
_COMMAND = re.compile(rf"(?:\A|;){BLANKS}(?P<words>{'|'.join(_WRITING)})\b", re.IGNORECASE)
_SETTING = re.compile(rf"\b(?P<words>{'|'.join(LIFTING)})\b", re.IGNORECASE)
_READ_WRITE = re.compile(rf"\b(?P<words>read{_GAP}write)\b", re.IGNORECASE)
_TRANSACTION = re.compile(r"\b(?:begin|transaction)\b", re.IGNORECASE)
_META = re.compile(r"\\[A-Za-z](?:[^\n]*\\\r?\n)*[^\n]*")
"""A backslash command, with its continued lines: a statement may begin after it."""
_IN_LINE = re.compile(r"[^\n]")


def first_write(text: str) -> tuple[int, str] | None:
    """Returns the line and the words of what is not read-only in the script `text`; None without any.

    It reads text only: some words count in a comment or a string, too.
    """
    after_meta = _META.sub(lambda match: ";" + _IN_LINE.sub(" ", match[0][1:]), text)
    found = [*_read_write(text), *_SETTING.finditer(text), *_COMMAND.finditer(text), *_COMMAND.finditer(after_meta)]
    if not found:
        return None
    first = min(found, key=lambda match: match.start("words"))
    return text.count("\n", 0, first.start("words")) + 1, " ".join(first["words"].split())


def _read_write(text: str) -> Iterator[re.Match[str]]:
    """Yields READ WRITE after the first words that begin or change a transaction.

    Where that statement ends is not asked: a semicolon may be in a comment.
    """
    opened = _TRANSACTION.search(text)
    if opened is not None:
        yield from _READ_WRITE.finditer(text, opened.end())
