"""Normalizes the forms of a sweep's parameters.

`"settings.work_mem" = …`, `settings.work_mem = …` and `[sweep.settings]` are equivalent; later code sees only the last
form, in the content and in the paths of lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgdyno.plan.lines import Path
from pgdyno.plan.sweep import moved, spread


def one_form(data: Mapping[str, Any]) -> tuple[dict[str, Any], list[Path]]:
    """Returns the parsed plan `data` in one form, and paths that occur in two forms."""
    plan = dict(data)
    if not isinstance(plan.get("sweep"), dict):
        return plan, []
    sweep, places = spread(plan["sweep"])
    twice: list[Path] = [("sweep", *place) for place in places]
    if isinstance(sweep.get("points"), list):
        points = []
        for number, point in enumerate(sweep["points"]):
            flat, places = spread(point) if isinstance(point, dict) else (point, [])
            points.append(flat)
            twice += [("sweep", "points", number, *place) for place in places]
        sweep["points"] = points
    plan["sweep"] = sweep
    return plan, twice


def moved_in_plan(path: Path) -> Path:
    """Returns the path after `one_form` of what was at `path` of a plan."""
    if path[:2] == ("sweep", "points"):
        return (*path[:3], *moved(path[3:]))
    return ("sweep", *moved(path[1:])) if path[:1] == ("sweep",) else path
