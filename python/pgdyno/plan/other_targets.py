"""`--on NAME`: replaces the plan's targets, for example rented ones by a small server on this machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pgdyno.errors import UsageError
from pgdyno.plan.document import Document
from pgdyno.plan.lines import Path

ON, TARGET = "on", "target"
ANYWHERE: dict[str, dict[str, Any]] = {
    "dsn": {"server": {"kind": "dsn", "dsn": ""}},
    "embedded": {"here": {"kind": "embedded", "version": "18"}},
}
"""The defaults of every plan: a server at libpq's variables, and an embedded server of the newest version."""


def on_others(document: Document, name: str | None) -> Document:
    """Replaces the targets of `document` by those under `on.NAME`, if a name is given. Raises UsageError."""
    if name is None:
        return document
    named = document.data.get(ON)
    others = ANYWHERE | named if isinstance(named, dict) else ANYWHERE
    if name not in others:
        hint = f"available: {', '.join(sorted(others))}; to add others: a table [on.{name}.TARGET] in the plan"
        raise UsageError(f"the plan has no targets for --on {name}", hint=hint)
    data = {key: value for key, value in document.data.items() if key not in (ON, "price", "generator")}
    lines = {_moved(path, name): line for path, line in document.lines.items() if path[:1] != (TARGET,)}
    sources = {_moved(path, name): source for path, source in document.sources.items() if path[:1] != (TARGET,)}
    return replace(document, data=data | {TARGET: others[name]}, lines=lines, sources=sources)


def _moved(path: Path, name: str) -> Path:
    return (TARGET, *path[2:]) if path[:2] == (ON, name) else path
