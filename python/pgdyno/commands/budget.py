"""`--budget`: a plan made to fit into a time and this machine."""

from __future__ import annotations

import shutil
from dataclasses import replace

from pgdyno.errors import UsageError
from pgdyno.host import describe_host
from pgdyno.plan import LoadedPlan
from pgdyno.plan.budget import Room, fit
from pgdyno.units import parse_duration_s


def within_budget(loaded: LoadedPlan, budget: str | None) -> LoadedPlan:
    """`loaded`, made smaller until it fits; as it is without a budget. Raises UsageError."""
    if budget is None:
        return loaded
    try:
        seconds = parse_duration_s(budget)
    except ValueError as error:
        raise UsageError(f"cannot use --budget {budget}: {error}") from error
    # most plans are looked at without a budget, and so without servers
    from pgdyno.targets import Home

    root = Home.locate().root
    there = next(folder for folder in (root, *root.parents) if folder.exists())
    room = Room(seconds, describe_host().memory_bytes, shutil.disk_usage(there).free)
    fitted = fit(loaded.plan, room)
    return replace(loaded, plan=fitted.plan, gave_up=tuple(fitted.gave_up))
