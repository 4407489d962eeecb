"""Checks what several generators do not support."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.errors import Problem
from pgdyno.plan.document import Document

KEY, RENTED = "generators", "generator"


def check_generators(document: Document) -> Iterator[Problem]:
    """Yields problems of a plan with several generators."""
    if document.data.get(KEY) and document.data.get(RENTED) not in (None, "here"):
        message, hint = (
            "rented generators cannot be combined with others",
            f'set generator = "here", or leave {KEY} out',
        )
        yield document.problem((KEY,), f"are not possible: {message}", hint)
