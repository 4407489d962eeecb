"""`--budget`: fits a plan into a time and into this machine."""

from __future__ import annotations

import shutil
from dataclasses import replace

from pgdyno.errors import UsageError
from pgdyno.host import describe_host
from pgdyno.plan import LoadedPlan
from pgdyno.plan.budget import Room, fit
from pgdyno.units import parse_duration_s


def within_budget(loaded: LoadedPlan, budget: str | None) -> LoadedPlan:
    """Returns `loaded`, reduced until it fits; unchanged without a budget. Raises UsageError."""
    if budget is None:
        return loaded
    try:
        seconds = parse_duration_s(budget)
    except ValueError as error:
        raise UsageError(f"cannot use --budget {budget}: {error}") from error
    # imported here: without a budget, `plan check` needs no code of servers
    from pgdyno.targets import Home

    root = Home.locate().root
    there = next(folder for folder in (root, *root.parents) if folder.exists())
    room = Room(seconds, describe_host().memory_bytes, shutil.disk_usage(there).free)
    fitted = fit(loaded.plan, room)
    return replace(loaded, plan=fitted.plan, gave_up=tuple(fitted.gave_up))
