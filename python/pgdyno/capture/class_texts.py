"""How many texts of classes a capture keeps: as many as fit into a capture.json that every command reads."""

from __future__ import annotations

import json
from collections.abc import Iterable

from pgdyno.records.capture import OTHER_STATEMENTS, StatementClass

MOST_BYTES = 24 << 20
"""Of all classes in capture.json, of which commands read 32 MiB."""
_OTHER_BYTES = 400
"""The most that the numbers of a class and the names of its fields take."""


class ClassTexts:
    """The space that the texts of classes have left."""

    def __init__(self) -> None:
        self._free_bytes = MOST_BYTES

    def take(self, text: str) -> bool:
        """Reserves the space of a class with this text; returns False if it does not fit any more."""
        size = len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")) + _OTHER_BYTES
        fits = size <= self._free_bytes
        self._free_bytes -= size if fits else 0
        return fits


def fitting(classes: Iterable[StatementClass]) -> tuple[list[StatementClass], int]:
    """Returns the classes that fit, the first ones first, and a last one of all others with its number of statements.

    `classes` have rows and times; without others, there is no such class, and the number is 0.
    """
    texts = ClassTexts()
    found: list[StatementClass] = []
    others: list[StatementClass] = []
    for each in classes:
        (found if texts.take(each.text) else others).append(each)
    calls = sum(each.calls for each in others)
    if others:
        rows, total_us = sum(each.rows or 0 for each in others), sum(each.total_us or 0.0 for each in others)
        found.append(StatementClass(text=OTHER_STATEMENTS, calls=calls, rows=rows, total_us=total_us))
    return found, calls
