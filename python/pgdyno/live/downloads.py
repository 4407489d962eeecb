"""The files of a run that may be downloaded: those that belong to it and are in its folder."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from pgdyno.store.bounded import files_below
from pgdyno.store.storing import storing

MOST = 2_000
"""Largest number of files that a page lists."""


def listed(run: Path) -> tuple[list[tuple[str, int]], bool]:
    """Return paths within `run` and sizes of its files, by path; and whether there are more. Raises StoreError."""
    with storing("list", run):
        found = ((path, path.stat().st_size) for path in files_below(run))
        rows = list(islice(found, MOST + 1))
    return [(str(path.relative_to(run)), size) for path, size in rows[:MOST]], len(rows) > MOST


def file_of(run: Path, path: str) -> Path | None:
    """Return the file `path` of `run`; None for hidden files, links, and files elsewhere."""
    whole = run / path
    parts = Path(path).parts
    if not parts or any(part == ".." or part.startswith(".") for part in parts) or Path(path).is_absolute():
        return None
    try:
        inside = whole.resolve(strict=True).is_relative_to(run.resolve())
    except (OSError, ValueError):
        return None
    return whole if inside and whole.is_file() else None
