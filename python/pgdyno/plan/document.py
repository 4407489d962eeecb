"""A parsed plan file that knows the line of each problem."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pgdyno.errors import Problem
from pgdyno.plan.lines import Path, dotted, nearest


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed plan and the line of each key."""

    data: Mapping[str, Any]
    lines: Mapping[Path, int]
    overridden: frozenset[Path] = frozenset()
    """Paths set by `--set`, which have no line."""
    sources: Mapping[Path, str] = field(default_factory=dict)
    """Files of those `lines` that come from plans that this one extends."""

    def problem(self, path: Path, message: str, hint: str | None = None) -> Problem:
        """Returns a problem of the field `path` with its line, or with that of its table."""
        if self._by_override(path):
            given = "given by --set"
            return Problem(dotted(path), message, None, f"{given}; {hint}" if hint else given)
        where = nearest(self.lines, path)
        return Problem(dotted(path), message, self.lines.get(where), hint, self.sources.get(where))

    def _by_override(self, path: Path) -> bool:
        """Tells whether `--set` gave `path`, or the table that lacks it."""
        if any(path[: len(set_)] == set_ for set_ in self.overridden):
            return True
        around = next((path[:n] for n in range(len(path) - 1, 0, -1) if self.at(path[:n]) is not None), ())
        return around not in self.lines and any(set_[: len(around)] == around for set_ in self.overridden if around)

    def at(self, path: Path) -> object:
        """Returns the value at `path`, or None."""
        node: Any = self.data
        for key in path:
            try:
                node = node[key]
            except (KeyError, IndexError, TypeError):
                return None
        found: object = node
        return found


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Returns unique `problems` in file order; those without a line come last.

    Problems of extended plans follow the plan's own.
    """
    distinct = dict.fromkeys(problems)

    def place(problem: Problem) -> tuple[bool, str, bool, int, str]:
        inherited = problem.source is not None
        return inherited, problem.source or "", problem.line is None, problem.line or 0, problem.path

    return sorted(distinct, key=place)
