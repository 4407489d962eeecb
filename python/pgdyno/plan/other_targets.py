"""`--on NAME`: other targets in place of the plan's, such as a small server of this machine for rented ones."""

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
"""What every plan has where it does not say otherwise: a server where libpq's variables lead, and the newest one."""


def on_others(document: Document, name: str | None) -> Document:
    """`document` with the targets that it has under `on.NAME`; as it is without a name. Raises UsageError."""
    if name is None:
        return document
    named = document.data.get(ON)
    others = ANYWHERE | named if isinstance(named, dict) else ANYWHERE
    if name not in others:
        hint = f"there is {', '.join(sorted(others))}; a table [on.{name}.TARGET] in the plan makes another"
        raise UsageError(f"the plan has no targets on {name}", hint=hint)
    data = {key: value for key, value in document.data.items() if key not in (ON, "price", "generator")}
    lines = {_moved(path, name): line for path, line in document.lines.items() if path[:1] != (TARGET,)}
    sources = {_moved(path, name): source for path, source in document.sources.items() if path[:1] != (TARGET,)}
    return replace(document, data=data | {TARGET: others[name]}, lines=lines, sources=sources)


def _moved(path: Path, name: str) -> Path:
    return (TARGET, *path[2:]) if path[:2] == (ON, name) else path
