"""Parses printed numbers: thousands and decimals by commas, dots or spaces."""

from __future__ import annotations

import re

LONGEST_NUMBER = 40
"""Characters; a longer one is not a figure of a benchmark."""
NUMBER = r"\d{1,3}(?:,\d{3}){1,8}(?:\.\d{1,20})?|\d{1,20}(?:\.\d{1,20})?"
_ENGLISH = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?", re.ASCII)
_COMMA = re.compile(r"\d{1,3}(?:\.\d{3})+,\d+|0,\d+|\d+,(?:\d{1,2}|\d{4,})", re.ASCII)
"""Numbers in which only a decimal comma makes sense: `379,6`, `1.234,5`, `0,123`; `1,234` has thousands."""


def number(text: str) -> float:
    """Parse `1,234.5` and, if a comma can only be the decimal sign, `379,6`. Raises ValueError."""
    text = text.strip()
    if len(text) <= LONGEST_NUMBER:
        if _ENGLISH.fullmatch(text):
            return float(text.replace(",", ""))
        if _COMMA.fullmatch(text):
            return float(text.replace(".", "").replace(",", "."))
    shown = text if len(text) <= LONGEST_NUMBER else f"{text[:LONGEST_NUMBER]}…"
    raise ValueError(f"{shown!r} is no number")


def whole(text: str) -> int:
    """Parse an integer. Raises ValueError."""
    value = number(text)
    if value != int(value):
        raise ValueError(f"{text!r} is no whole number")
    return int(value)
