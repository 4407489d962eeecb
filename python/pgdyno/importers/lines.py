"""Strips lines of a document of what wraps them: quotes of mails, list marks, HTML, escapes; limits their length."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

LONGEST_LINE = 65_536
"""Characters; longer lines are not read, and listed as unread."""
MOST_JOINED = 30
"""Lines that backslashes may join to one command."""

_ESCAPES = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_QUOTE = re.compile(r"\s{0,8}(?:>[ \t]?){1,12}")
_TAGS = re.compile(r"</?(?:pre|code|br|p|span|div|li|b|strong|em|samp|kbd)(?:\s[^<>]{0,300})?/?>", re.IGNORECASE)
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z?\s")
"""In logs that were copied from a CI or from `docker logs -t`."""
_FENCE = re.compile(r"\s{0,12}(?:```|~~~)(?P<info>.*)")


def cleaned(text: str) -> str:
    """Return `text` as the tool printed it: it keeps the indentation, and loses what a mail, HTML or a CI added."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if ">" in text[:16] and not text.lstrip().startswith(">>>>>"):
        quote = _QUOTE.match(text)
        if quote is not None:
            text = text[quote.end() :]
    if "<" in text:
        text = _TAGS.sub("", text)
    if "&" in text:
        text = html.unescape(text).replace("\xa0", " ")
    if text[:4].isdigit():
        stamp = _STAMP.match(text)
        if stamp is not None:
            text = text[stamp.end() :]
    return text


def fence(text: str) -> str | None:
    """Return the text after the mark of a code block: empty, or the name of a language; None if `text` is no such
    mark.
    """
    match = _FENCE.match(text) if "```" in text or "~~~" in text else None
    return match["info"].strip() if match else None


def joined(lines: Sequence[str], at: int) -> tuple[str, int]:
    """Return the line at `at` joined with its continuation lines, and their number."""
    if not lines[at].rstrip().endswith("\\"):
        return lines[at], 1
    parts, count = [], 0
    for text in lines[at : at + MOST_JOINED]:
        count += 1
        stripped = text.rstrip()
        if not stripped.endswith("\\"):
            parts.append(stripped.strip())
            break
        parts.append(stripped[:-1].strip())
    return " ".join(parts), count
