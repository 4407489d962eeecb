"""The forms that parameters of a sweep may be written in, as one.

`"settings.work_mem" = …`, `settings.work_mem = …` and `[sweep.settings]` mean the same; behind this, only
the last one is seen, in what the plan holds and in the places of its lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgdyno.plan.lines import Path
from pgdyno.plan.sweep import moved, spread


def one_form(data: Mapping[str, Any]) -> tuple[dict[str, Any], list[Path]]:
    """`data`, a plan as it was read, in one form; and the places that are given twice, in two of the forms."""
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
    """Where `one_form` puts what stands at `path` of a plan."""
    if path[:2] == ("sweep", "points"):
        return (*path[:3], *moved(path[3:]))
    return ("sweep", *moved(path[1:])) if path[:1] == ("sweep",) else path
