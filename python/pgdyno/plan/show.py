"""A plan and its problems as text, for 80 columns."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pgdyno.errors import PlanError, Problem
from pgdyno.plan.load import LoadedPlan
from pgdyno.plan.model import Plan, TargetSpec
from pgdyno.plan.phases import phases_s
from pgdyno.plan.reset_words import before_each_trial, not_known
from pgdyno.plan.target_words import describe_target
from pgdyno.plan.trials import PlannedTrial, planned_trials, time_needed_s
from pgdyno.units import format_duration

WIDTH = 80


def problem_lines(error: PlanError, width: int = WIDTH) -> list[str]:
    """Every problem of `error` on lines of at most `width` columns: place, field, message; the hint indented."""
    return check_text(error.problems, error.source, width).splitlines()


def check_text(problems: Sequence[Problem], source: str, width: int = WIDTH) -> str:
    """`problems` as `quick.toml:12: target.pg18.version: is missing`, each with its hint on lines of its own.

    Without problems, one line that says so.
    """
    if not problems:
        return f"{source}: no problems"
    lines: list[str] = []
    for problem in problems:
        file = problem.source or source
        place = file if problem.line is None else f"{file}:{problem.line}"
        where = f"{place}: {problem.path}: " if problem.path else f"{place}: "
        message, *picture = problem.message.splitlines()
        lines += _wrapped(where + message, width, indent="    ", first="")
        # lines of a script with a caret under them: their columns mean something
        lines += [f"    {line}" for line in picture]
        if problem.hint:
            lines += _wrapped(problem.hint, width, indent="    ", first="    ")
    return "\n".join(lines)


def _wrapped(text: str, width: int, *, indent: str, first: str) -> list[str]:
    # a path or a value is never torn: it may be copied
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def show_lines(loaded: LoadedPlan) -> Group:
    """The trials of a plan in order, and the time that they need."""
    plan = loaded.plan
    trials = planned_trials(plan)
    parts: list[Text | Table | Padding] = [Text(plan.name, style="bold")]
    if plan.description:
        parts.append(Text(plan.description))
    for name, target in plan.target.items():
        parts.append(Text(f"target {name}: {_target(target)}"))
    parts += [
        Text(_workload(plan)),
        Text(before_each_trial(plan)),
        Padding(_table(plan, trials), (1, 0)),
        Text(_total(plan, len(trials))),
        *(Text(f"for the budget: {line}") for line in loaded.gave_up),
    ]
    return Group(*parts)


def show_json(loaded: LoadedPlan) -> str:
    """The same for programs: the plan with every default filled in, its trials, their length in seconds."""
    plan = loaded.plan
    trials = [
        {
            "number": trial.number,
            "slug": trial.slug,
            "target": trial.target,
            "repeat": trial.repeat,
            "block": trial.block,
            **trial.point.model_dump(mode="json"),
        }
        for trial in planned_trials(plan)
    ]
    whole = {
        "source": loaded.source,
        "plan": plan.as_resolved(),
        "measuring_s": time_needed_s(plan),
        "gave_up": loaded.gave_up,
        "trials": trials,
    }
    return json.dumps(whole, indent=2, ensure_ascii=False)


def _target(target: TargetSpec) -> str:
    changed = len(target.settings)
    what = describe_target(target)
    return what + (f", {changed} setting{'s' if changed > 1 else ''} changed" if changed else "")


def _workload(plan: Plan) -> str:
    dataset = "no dataset" if plan.workload.dataset == "none" else f"{plan.workload.dataset}'s tables"
    return f"workload: {', '.join(plan.workload.scripts)} on {dataset}"


def _table(plan: Plan, trials: Sequence[PlannedTrial]) -> Table:
    columns = ["clients"] + [name for name in ("workers", "protocol", "scale") if _has(trials, name)]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("trial", justify="right")
    table.add_column("target", overflow="fold")
    for name in columns:
        table.add_column(name, justify="left" if name == "protocol" else "right")
    table.add_column("repeat", justify="right")
    table.add_column("length", justify="right")
    for trial in trials:
        values = [str(getattr(trial.point, name)) for name in columns]
        table.add_row(str(trial.number), trial.target, *values, str(trial.repeat), _length(plan))
    return table


def _has(trials: Sequence[PlannedTrial], parameter: str) -> bool:
    return any(getattr(trial.point, parameter) is not None for trial in trials)


def _length(plan: Plan) -> str:
    trial = plan.trial
    together_s = phases_s(plan)
    if together_s is not None:
        count = len(plan.phase)
        return f"{format_duration(together_s)} in {count} phase{'s' if count > 1 else ''}"
    if trial.duration is None:
        return f"{trial.transactions:,} tx/client"
    warmup = f"{format_duration(trial.warmup)} + " if trial.warmup else ""
    return warmup + format_duration(trial.duration)


def _total(plan: Plan, count: int) -> str:
    trials = f"{count} trial{'s' if count != 1 else ''}"
    needed_s = time_needed_s(plan)
    if needed_s is None:
        return f"{trials}; each ends after {plan.trial.transactions:,} transactions a client, however long that takes"
    loads = len(plan.target) * len({trial.point.scale for trial in planned_trials(plan)})
    loading = "" if plan.workload.dataset == "none" else f" and loading ({loads} dataset{'s' if loads > 1 else ''})"
    total = f"{trials}, {format_duration(needed_s)} of measuring, plus starting servers{loading}"
    return f"{total}\n{not_known(plan)}"
