"""`--budget`: a plan, reduced until it fits."""

import shutil
from dataclasses import replace

from pgdyno.errors import UsageError
from pgdyno.mounts import exists
from pgdyno.plan import LoadedPlan
from pgdyno.plan.values import positive_duration
from pgdyno.units import duration_words, format_duration, parse_duration_s


def within_budget(loaded: LoadedPlan, budget: str | None) -> LoadedPlan:
    """Return `loaded`, reduced until it fits; unchanged without a budget. Raises UsageError."""
    search = loaded.plan.search
    if search is not None and search.find == "settings":
        return _settings_search_within(budget or search.budget, loaded)
    if budget is None:
        return loaded
    seconds = _budget_s(budget)
    # imported here: without a budget, `plan check` needs no code of servers
    from pgdyno.doctor.memory import usable_bytes
    from pgdyno.plan.time_budget.budget import Budget, Room
    from pgdyno.plan.time_budget.time_and_disk import load_rate
    from pgdyno.targets import Home

    root = Home.locate().root
    there = next(folder for folder in (root, *root.parents) if exists(folder))
    kinds = {spec.kind for spec in loaded.plan.target.values()}
    rate = load_rate(root, kinds, loaded.plan.workload.dataset_name)
    room = Room(seconds, usable_bytes(), shutil.disk_usage(there).free, rate)
    whole = Budget(loaded.plan, room)
    fitted = whole.fit()
    return replace(loaded, plan=fitted.plan, gave_up=tuple(fitted.gave_up), budget=whole)


def _budget_s(budget: str) -> float:
    try:
        return parse_duration_s(positive_duration(budget))
    except ValueError as error:
        raise UsageError(f"cannot use --budget {budget}: {error}") from error


def _settings_search_within(budget: str | None, loaded: LoadedPlan) -> LoadedPlan:
    """Return `loaded` with `budget`: the search decides by the time that its trials have taken, also when resumed."""
    from pgdyno.plan.time_budget.time_and_disk import least_settings_search_s

    if budget is None:
        return loaded
    plan, seconds = loaded.plan, _budget_s(budget)
    least_s = least_settings_search_s(plan)
    if least_s is not None and least_s > seconds:
        raise UsageError(
            f"a budget of {duration_words(seconds)} is too small for {plan.name}: two proposals and the confirmation "
            f"of the better one in {plan.trial.most_repeats} pairs need about {format_duration(least_s)}",
            hint="give a longer --budget, a shorter trial.duration, or fewer trial.repeats",
        )
    assert plan.search is not None
    update = {"search": plan.search.model_copy(update={"budget": budget})}
    return replace(loaded, plan=plan.model_copy(update=update))
