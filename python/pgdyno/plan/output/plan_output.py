"""Formats a plan and its problems for 80 columns."""

import textwrap
from collections.abc import Sequence

from pgdyno.errors import PlanError, Problem
from pgdyno.plan.loaded_plan import LoadedPlan
from pgdyno.plan.model import EventSpec, Plan, Reset, SearchSpec
from pgdyno.plan.optional_sections import latency_words
from pgdyno.plan.scenario.groups import GroupSpec
from pgdyno.plan.sweeps.order import by_chance
from pgdyno.plan.targets import NO_CHECKSUMS, OwnTarget, RentedTarget
from pgdyno.plan.time_budget.time_and_disk import around_s, trials_s
from pgdyno.plan.trials import PlannedTrial, planned_trials, time_needed_s
from pgdyno.plan.workload_schema import DataKey, Workload
from pgdyno.units import duration_words, format_duration, quantity


def in_each_trial(plan: Plan) -> list[str]:
    """Yield `in each trial: kill at 30s`, whether clients reconnect, whether there is a ledger; seldom anything."""
    lines = []
    if plan.event:
        lines.append(f"in each trial: {', '.join(_event(event) for event in plan.event)}")
    patience = plan.reconnect()
    if patience == "always":
        lines.append("clients that lose their connection reconnect")
    elif isinstance(patience, float):
        lines.append(f"clients that lose their connection reconnect, or give up after {duration_words(patience)}")
    lines += [_group(group) for group in plan.group]
    if plan.step:
        lines.append(f"steps: {', '.join(step.name for step in plan.step)}")
    if plan.trial.promise:
        lines.append(f"promises at every point: {', '.join(plan.trial.promise)}")
    if plan.trial.ledger:
        lines.append(
            "every transaction that writes inserts a row into pgdyno_ledger, which pgdyno checks after the trial"
        )
    return lines


def _group(group: GroupSpec) -> str:
    if group.idle is not None:
        return f"group {group.name}: {quantity(group.idle, 'idle client')}"
    loads = group.scripts or [f"{key} {value}" for key, value in (group.workload or {}).items()]
    parts = [", ".join(loads), quantity(group.clients, "client")]
    parts += [f"{group.rate:,.10g} transactions a second"] if group.rate is not None else []
    parts += [f"on the {group.on}"] if group.on not in (None, "primary") else []
    parts += ["in the background"] if group.background else []
    parts += [f"from {format_duration(group.begin)}"] if group.begin else []
    parts += [f"up to {format_duration(group.end)}"] if group.end is not None else []
    parts += [f"promise {', '.join(group.promise)}"] if group.promise else []
    return f"group {group.name}: {'; '.join(filter(None, parts))}"


def _event(event: EventSpec) -> str:
    what = f"the command {event.command}" if event.command is not None else event.sql or event.name
    lasts = f" for {format_duration(event.lasts)}" if event.lasts is not None else ""
    return f"{what} at {format_duration(event.at)}{lasts}"


def search_lines(plan: Plan) -> list[str]:
    """Return the goal, the range and the trials per step; empty without a search."""
    search = plan.search
    if search is None:
        return []
    points = plan.points()
    if search.find == "settings":
        return [_over_settings(plan, search)]
    if search.kind.axis is None:
        return [_over_targets(plan, search)]
    values = [value for point in points if (value := getattr(point, search.axis)) is not None]
    rest = {point.model_copy(update={search.axis: None}).model_dump_json() for point in points}
    searches = len(rest) * len(plan.target)
    unit = "clients" if search.axis == "clients" else "transactions per second"
    span = f"from {min(values):g} to {max(values):g} {unit}"
    what = f"{search.kind.goal} at {latency_words(search.latency)}" if search.latency else search.kind.goal
    times = f", {searches} searches" if searches > 1 else ""
    repeats = plan.trial.most_repeats
    step = f"{repeats} trials" if repeats > 1 else "one trial"
    return [f"searches for {what} {span}{times}; {step} per step; the number of steps depends on the results"]


def _over_settings(plan: Plan, search: SearchSpec) -> str:
    over = ", ".join(
        f"{name} {each if isinstance(each, str) else ' | '.join(each)}"
        f"{f' when {search.when[name]}' if name in search.when else ''}"
        for name, each in search.over.items()
    )
    promise = f" that keep {latency_words(search.latency)}" if search.latency else ""
    within = f" within {search.budget}" if search.budget else ""
    pairs = quantity(plan.trial.most_repeats, "pair")
    return f"searches for {search.kind.goal}{promise}{within}: {over}; {pairs} per comparison that confirms them"


def _over_targets(plan: Plan, search: SearchSpec) -> str:
    rate, repeats = plan.points()[0].rate or 0.0, plan.trial.most_repeats
    return (
        f"searches {quantity(len(plan.target), 'target')} for {search.kind.goal} that keeps {rate:,.10g} transactions "
        f"per second at {latency_words(search.latency or '')}; {quantity(repeats, 'trial')} per target; the number of "
        "targets that are measured depends on the results"
    )


def changed_defaults(plan: Plan) -> list[str]:
    """Return a line about servers whose clusters differ from what their own initdb makes by default."""
    older = [
        name
        for name, spec in plan.target.items()
        if isinstance(spec, OwnTarget)
        and spec.major is not None
        and spec.major < 18
        and NO_CHECKSUMS not in spec.initdb
    ]
    if not older:
        return []
    names = " and ".join(older)
    line = f"{names}: with data checksums, which initdb sets by default only from 18 on"
    return [f'{line}; to measure its default there: initdb = ["{NO_CHECKSUMS}"]']


_METHODS = {
    "none": "the dataset stays as the previous trial left it",
    "vacuum": "vacuum tellers and branches, empty the history",
    "snapshot": "restore the cluster from a stopped copy",
    "reload": "reload the dataset",
}
_CACHES = {"files": "drop the page cache of the cluster's files", "machine": "drop the machine's page cache"}
_PREWARMS = {"pg_prewarm": "prewarm with pg_prewarm", "read": "prewarm by reading every table"}


def before_each_trial(plan: Plan) -> str:
    """Return `before each trial: vacuum tellers and branches, empty the history; checkpoint`."""
    reset = plan.reset
    return "before each trial: " + ("; ".join([*_data(plan), *_steps(reset)]) or "nothing")


def _data(plan: Plan) -> list[str]:
    if plan.workload.dataset == "none":
        return []
    restored = [name for name, each in plan.target.items() if isinstance(each, RentedTarget) and each.takes_snapshot]
    method = _method(plan.reset, plan.workload)
    if not restored:
        return [method]
    others = [] if len(restored) == len(plan.target) else [f"for other targets, {method}"]
    return [f"restore {' and '.join(restored)} from a snapshot of the loaded server", *others]


def around_each_trial(plan: Plan) -> str:
    """Describe the steps before and after a load."""
    checked = plan.workload.dataset != "none" and plan.reset.consistency != "none"
    return "the steps before each trial" + (" and the checks after it" if checked else "")


def _method(reset: Reset, workload: Workload) -> str:
    if reset.method == "vacuum" and (workload.dataset == "sbtest" or workload.own_data is not None):
        return "vacuum every table"
    if reset.method != "template":
        return _METHODS[reset.method] + (f" ({reset.snapshot})" if reset.snapshot else "")
    how = ", ".join(each for each in (reset.strategy, reset.file_copy_method) if each is not None)
    return "copy the template database" + (f" ({how})" if how else "")


def _steps(reset: Reset) -> list[str]:
    steps = ["checkpoint"] if reset.checkpoint else []
    if reset.restart:
        steps.append("restart the server")
    steps += [_CACHES[reset.drop_cache]] if reset.drop_cache != "none" else []
    steps += [_PREWARMS[reset.prewarm]] if reset.prewarm != "none" else []
    if reset.analyze:
        steps.append("analyze")
    if reset.statistics:
        steps.append("reset statistics")
    return steps


WIDTH = 80


def problem_lines(error: PlanError, width: int = WIDTH) -> list[str]:
    """Format every problem of `error` in at most `width` columns: location, field, message; the hint indented."""
    return check_text(error.problems, error.source, width).splitlines()


def warning_lines(loaded: LoadedPlan, width: int = WIDTH) -> list[str]:
    """Format warnings as problems are, each after `warning: `."""
    warnings = loaded.warnings
    return check_text(warnings, loaded.source, width, "warning: ").splitlines() if warnings else []


def check_text(problems: Sequence[Problem], source: str, width: int = WIDTH, kind: str = "") -> str:
    """Format `problems` as `quick.toml:12: target.pg18.version: is missing`, each with its hint on separate lines.

    Without problems, one line says so. `kind` precedes each.
    """
    if not problems:
        return f"{source}: no problems"
    lines: list[str] = []
    for problem in problems:
        file = problem.source or source
        place = file if problem.line is None else f"{file}:{problem.line}"
        where = f"{kind}{place}: {problem.path}: " if problem.path else f"{kind}{place}: "
        message, *picture = problem.message.splitlines()
        lines += _wrap_text(where + message, width, indent="    ", first="")
        # lines of a script with a caret below: their columns matter
        lines += [f"    {line}" for line in picture]
        if problem.hint:
            lines += _wrap_text(problem.hint, width, indent="    ", first="    ")
    return "\n".join(lines)


def _wrap_text(text: str, width: int, *, indent: str, first: str) -> list[str]:
    # paths and values stay on one line, so that they can be copied
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def total(plan: Plan) -> str:
    """Format the number, duration and order of trials, and the overhead, as far as it is known."""
    if plan.search is not None:
        return "\n".join(search_lines(plan))
    trials = planned_trials(plan)
    many = quantity(len(trials), "trial")
    if plan.trial.stops_when_decided:
        many = f"at most {many}"
    needed_s = time_needed_s(plan)
    if needed_s is None:
        each = f"{quantity(plan.trial.transactions or 0, 'transaction')} per client, without a time limit"
        if plan.workload.own_end is not None:
            each = plan.workload.own_end[1]
        if plan.workload.runs_once:
            many += f", about {duration_words(trials_s(plan, plan.points()))} of queries"
        lines = [f"{many}; each ends after {each}"]
        if plan.step:
            about = duration_words(round(trials_s(plan, plan.points())))
            lines = [f"{many} in {quantity(len(plan.step), 'step')}, about {about}; some have no time limit"]
    else:
        lines = [f"{many}, {duration_words(needed_s)} of measurement{_on_top(plan, trials)}"]
    if len(trials) > 1:
        lines.append(_order(plan, trials))
    if plan.trial.stops_when_decided:
        fewest, most = plan.trial.fewest_repeats, plan.trial.most_repeats
        lines.append(f"each point stops when it is decided, after {fewest} to {most} repeats")
    around = duration_words(around_s(plan, plan.points()))
    lines.append(f"plus about {around} for {around_each_trial(plan)}")
    return "\n".join(lines)


def _on_top(plan: Plan, trials: Sequence[PlannedTrial]) -> str:
    """Return `, plus starting servers and loading (1 dataset)`; empty if nothing is to be done."""
    loads, restarts = 0, 0
    data: dict[str, DataKey] = {}
    settings: dict[str, dict[str, str]] = {}
    for trial in trials:
        point = trial.point
        if plan.workload.dataset != "none" and data.get(trial.server) != plan.workload.data_at(point):
            loads += 1
            data[trial.server] = plan.workload.data_at(point)
        asked = plan.server_settings(trial.target, point)
        if settings.get(trial.server, dict(plan.target[trial.target].settings)) != asked:
            restarts += 1
        settings[trial.server] = asked
    # servers of other kinds exist already
    are_started = any(isinstance(each, OwnTarget | RentedTarget) for each in plan.target.values())
    parts = ["starting servers"] if are_started else []
    if loads:
        parts.append(f"loading ({quantity(loads, 'dataset')})")
    if restarts:
        parts.append(f"changing settings ({quantity(restarts, 'time')})")
    first = [", ".join(parts[:-1])] if len(parts) > 1 else []
    return f", plus {' and '.join([*first, parts[-1]])}" if parts else ""


_ORDERS = {
    "as-listed": "as listed: all points once, then all again",
    "interleaved": "interleaved: each repeat of a point under every target and setting, in a drawn order",
    "randomised": "randomised: each point under every target and setting, shuffled",
    "duet": "duet: both targets at the same time, each on half of the processors",
}


def _order(plan: Plan, trials: Sequence[PlannedTrial]) -> str:
    order = plan.order()
    blocks = trials[-1].block
    open_ = plan.trial.seed is None and by_chance(order, list(plan.target), plan.points())
    drawn = "; each run draws its own order; this is the order of seed 0" if open_ else ""
    in_blocks = f"; {quantity(blocks, 'block')}" if order != "as-listed" else ""
    return f"order {_ORDERS[order]}{in_blocks}{drawn}"


def excluded_lines(plan: Plan) -> list[str]:
    """Format the number of points that each condition excludes: a condition that excludes none may be a mistake."""
    return [
        f'excluded by "{condition}": {quantity(count, "point") if count else "nothing"}'
        for condition, count in zip(plan.sweep.exclude, plan.space().excluded, strict=True)
    ]
