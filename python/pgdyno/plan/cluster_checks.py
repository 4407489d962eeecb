"""What of a plan does not go with several generators."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.errors import Problem
from pgdyno.plan.document import Document

KEY, RENTED = "generators", "generator"


def check_generators(document: Document) -> Iterator[Problem]:
    """What is wrong with a plan that names generators; nothing of one that does not."""
    if document.data.get(KEY) and document.data.get(RENTED) not in (None, "here"):
        message, hint = "rented generators stand alone", f'set generator = "here", or leave {KEY} out'
        yield document.problem((KEY,), f"are not possible here: {message}", hint)
