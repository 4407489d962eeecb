"""Suggests corrections of misspelt words."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def near(word: str, known: Iterable[str]) -> str | None:
    """Returns the entry of `known` that is most similar to `word`, or None."""
    by_lower = {each.lower(): each for each in known}
    matches = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[matches[0]] if matches else None
