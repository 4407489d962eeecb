"""`--budget`: a plan, reduced until it fits."""

from __future__ import annotations

import shutil
from dataclasses import replace

from pgdyno.errors import UsageError
from pgdyno.mounts import exists
from pgdyno.plan import LoadedPlan
from pgdyno.plan.values import lasting
from pgdyno.units import parse_duration_s


def within_budget(loaded: LoadedPlan, budget: str | None) -> LoadedPlan:
    """Returns `loaded`, reduced until it fits; unchanged without a budget. Raises UsageError."""
    if budget is None:
        return loaded
    try:
        seconds = parse_duration_s(lasting(budget))
    except ValueError as error:
        raise UsageError(f"cannot use --budget {budget}: {error}") from error
    search = loaded.plan.search
    if search is not None and search.find == "settings":
        # it decides by the time that its trials have taken, also when it is resumed
        update = {"search": search.model_copy(update={"budget": budget})}
        return replace(loaded, plan=loaded.plan.model_copy(update=update))
    # imported here: without a budget, `plan check` needs no code of servers
    from pgdyno.doctor.memory import usable_bytes
    from pgdyno.plan.time_budget.budget import Budget, Room
    from pgdyno.plan.time_budget.time_and_disk import load_rate
    from pgdyno.targets import Home

    root = Home.locate().root
    there = next(folder for folder in (root, *root.parents) if exists(folder))
    kinds = {spec.kind for spec in loaded.plan.target.values()}
    rate = load_rate(root, kinds, loaded.plan.workload.dataset)
    room = Room(seconds, usable_bytes(), shutil.disk_usage(there).free, rate)
    whole = Budget(loaded.plan, room)
    fitted = whole.fit()
    return replace(loaded, plan=fitted.plan, gave_up=tuple(fitted.gave_up), budget=whole)
