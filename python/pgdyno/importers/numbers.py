"""Numbers as documents print them."""

from __future__ import annotations

import re

NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_WHOLE = re.compile(rf"({NUMBER})")


def number(text: str) -> float:
    """`text` as a number; thousands may be separated by commas. Raises ValueError."""
    if _WHOLE.fullmatch(text.strip()) is None:
        raise ValueError(f"{text!r} is no number")
    return float(text.replace(",", ""))


def whole(text: str) -> int:
    """`text` as a whole number. Raises ValueError."""
    value = number(text)
    if value != int(value):
        raise ValueError(f"{text!r} is no whole number")
    return int(value)
