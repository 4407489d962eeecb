"""Formats what `pgdyno plan show` prints: the trials of a plan in order."""

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pgdyno.messages import messages_json
from pgdyno.plan.loaded_plan import LoadedPlan
from pgdyno.plan.model import Plan, TargetSpec
from pgdyno.plan.output.executed_code import list_executed_code
from pgdyno.plan.output.plan_output import (
    WIDTH,
    before_each_trial,
    changed_defaults,
    excluded_lines,
    in_each_trial,
    search_lines,
    total,
    warning_lines,
)
from pgdyno.plan.output.trial_table import same_for_all, trial_table
from pgdyno.plan.time_budget.time_and_disk import around_s
from pgdyno.plan.trials import planned_trials, time_needed_s
from pgdyno.records.secret_values import masked_plan
from pgdyno.safe_output import json_text
from pgdyno.units import quantity


def show_lines(loaded: LoadedPlan, width: int = WIDTH) -> Group:
    """Format the trials of a plan in order, and their total time; warnings in at most `width` columns."""
    plan = loaded.plan
    trials = planned_trials(plan)
    parts: list[Text | Table | Padding] = [Text(plan.name, style="bold")]
    if plan.description:
        parts.append(Text(plan.description))
    for name, target in plan.target.items():
        parts.append(Text(f"target {name}: {_target(target)}"))
    parts += [
        Text(f"workload: {plan.workload.describe()}"),
        *([Text(f"load from {places}")] if (places := _load_places(plan)) else []),
        Text(before_each_trial(plan)),
        *(Text(line) for line in [*in_each_trial(plan), *changed_defaults(plan)]),
        *(Text(line) for line in excluded_lines(plan)),
    ]
    if plan.search is not None:
        parts += [Text(line) for line in search_lines(plan)]
    else:
        parts += [
            *([Text(f"every trial: {same}")] if (same := same_for_all(trials)) else []),
            Padding(trial_table(plan, trials), (1, 0)),
            Text(total(plan)),
        ]
    warned = [Text(line, style="yellow") for line in warning_lines(loaded, width)]
    return Group(*parts, *(Text(f"to fit the budget: {line}") for line in loaded.gave_up), *warned)


def show_json(loaded: LoadedPlan) -> str:
    """Return the resolved plan, its trials, and their length in seconds."""
    plan = loaded.plan
    trials = [
        {
            "number": trial.number,
            "slug": trial.slug,
            "target": trial.target,
            "repeat": trial.repeat,
            "block": trial.block,
            "control": trial.control,
            **trial.point.model_dump(mode="json"),
        }
        for trial in planned_trials(plan)
    ]
    whole = {
        "source": loaded.source,
        "plan": masked_plan(plan.as_resolved()),
        "measuring_s": time_needed_s(plan),
        "around_s": around_s(plan, plan.points()),
        "order": plan.order(),
        **messages_json("gave_up", loaded.gave_up),
        "warnings": [warning._asdict() for warning in loaded.warnings],
        "executes": [each._asdict() for each in list_executed_code(loaded)],
        "trials": trials,
    }
    return json_text(whole, indent=2)


def _target(target: TargetSpec) -> str:
    changed = len(target.settings | target.session_settings)
    what = target.describe()
    return what + (f", {quantity(changed, 'setting')} changed" if changed else "")


def _load_places(plan: Plan) -> str:
    if plan.generator is not None:
        return f"{plan.generator.count} x {plan.generator.instance}, rented"
    return ", ".join(plan.generators)
