"""Keys that a plan cannot have together with another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdyno.errors import Problem
from pgdyno.plan.reading.plan_document import Document, KeyPath

Excluded = tuple[KeyPath, str, str]
"""A key, why the plan cannot have it, and what to do."""


def check_excluded(excluded: Sequence[Excluded], with_what: str, document: Document) -> Iterator[Problem]:
    """Yields the keys of `document` that cannot be combined with `with_what`.

    Values that change nothing, such as `warmup = "0s"`, pass.
    """
    for path, why, hint in excluded:
        value = document.at(path)
        if value is None or value is False or value in ([], {}) or (path[-1] == "warmup" and value in ("0s", "0ms")):
            continue
        if path == ("generator",) and value == "here":
            continue
        yield document.problem(path, f"cannot be combined with {with_what}: {why}", hint)
