"""Formats the trials of a plan as a table for 80 columns."""

from collections.abc import Sequence

from rich.table import Table

from pgdyno.plan.model import Plan
from pgdyno.plan.scenario.loads import plan_of_load
from pgdyno.plan.trials import PlannedTrial, varying_parameters
from pgdyno.plan.workload import phases_s
from pgdyno.units import format_duration, quantity

WIDTH = 80
GAP = 2
_OF_A_TRIAL = ("step", "group", "clients", "workers", "protocol", "scale", "rate")


def trial_table(plan: Plan, trials: Sequence[PlannedTrial]) -> Table:
    """Format one row per trial; settings and variables that vary have one column each, or one together if space is
    short.
    """
    points = [trial.point for trial in trials]
    lengths = {trial.number: trial_length(plan_of_load(plan, trial.point)) for trial in trials}
    of_a_trial = [name for name in _OF_A_TRIAL if name not in plan.workload.hidden_parameters]
    names = [name for name in of_a_trial if any(point.parameter(name) is not None for point in points)]
    if plan.has_group_trials:
        # what all groups have in common leaves no room for what they differ in
        names = [name for name in names if name in ("clients", *varying_parameters(points))]
    # a group has the same variables in all trials
    of_groups = {f"variables.{name}" for group in plan.group for name in group.variables}
    further = [name for name in varying_parameters(points) if name not in of_a_trial and name not in of_groups]
    first = ["trial"] if plan.has_group_trials and len(plan.target) == 1 else ["trial", "target"]
    rows = [[*_row(trial, first, [*names, *further]), lengths[trial.number]] for trial in trials]
    headings = [*first, *names, *map(_short_name, further), "repeat", "length"]
    width = sum(max(map(len, column)) + GAP for column in zip(headings, *rows, strict=True))
    if width > WIDTH and further:
        headings = [*first, *names, "repeat", "length", "settings and variables"]
        rows = [[*_row(trial, first, names), lengths[trial.number], _assignments(trial, further)] for trial in trials]
    table = Table(box=None, padding=(0, GAP, 0, 0), header_style="dim")
    for heading in headings:
        left = heading in ("target", "step", "group", "protocol", "settings and variables", *map(_short_name, further))
        # the name of a folder or setting may be wider than any terminal
        table.add_column(heading, justify="left" if left else "right", overflow="fold", no_wrap=not left)
    for row in rows:
        table.add_row(*row)
    return table


def same_for_all(trials: Sequence[PlannedTrial]) -> str:
    """Return settings and variables of the sweep that do not vary: `work_mem 8MB, rows 100`."""
    points = [trial.point for trial in trials]
    names = dict.fromkeys(name for point in points for name in point.parameters() if "." in name)
    return _assignments(trials[0], [name for name in names if name not in varying_parameters(points)])


def _row(trial: PlannedTrial, first: Sequence[str], names: Sequence[str]) -> list[str]:
    values = [
        "closed" if name == "rate" and trial.point.rate is None else _value(trial.point.parameter(name))
        for name in names
    ]
    return [
        *[str(trial.number), trial.target][: len(first)],
        *values,
        f"{trial.repeat}{' control' if trial.control else ''}",
    ]


def _assignments(trial: PlannedTrial, names: Sequence[str]) -> str:
    return ", ".join(f"{_short_name(name)} {_value(trial.point.parameter(name))}" for name in names)


def _short_name(name: str) -> str:
    return name.partition(".")[2] or name


def _value(value: float | str | None) -> str:
    if value is None:
        return "default"
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def trial_length(plan: Plan) -> str:
    """Return `2s + 10s`, warm-up and measuring, or another end of a trial."""
    trial = plan.trial
    together_s = phases_s(plan)
    if together_s is not None:
        count = len(plan.phase)
        return f"{format_duration(together_s)} in {quantity(count, 'phase')}"
    if trial.duration is None:
        end = plan.workload.own_end
        return f"{trial.transactions:,} tx/client" if end is None else end[0]
    warmup = f"{format_duration(trial.warmup)} + " if trial.warmup else ""
    return warmup + format_duration(trial.duration)
