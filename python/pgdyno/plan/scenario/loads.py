"""The loads of a trial: of each group in each step, with the plan of each."""

from pgdyno.plan.model import Plan
from pgdyno.plan.scenario.groups import GroupSpec, group_workload, groups_at
from pgdyno.plan.scenario.steps import StepSpec
from pgdyno.records import Point


def loads_of(plan: Plan, point: Point) -> list[Point]:
    """Return a point for the load of each group in each step of a trial at `point`, which is itself that of a plan
    whose groups are no trials.
    """
    if not plan.has_group_trials:
        return [point]
    steps = [step for step in plan.step if step.groups] if plan.step else [None]
    return [
        point_of_group(point.model_copy(update={"step": None if step is None else step.name}), group)
        for step in steps
        for group in groups_at(plan.group, point, step)
        if group.clients and group.has_trial
    ]


def point_of_group(point: Point, group: GroupSpec) -> Point:
    """Return `point` with what the load of `group` has in place of its values."""
    return point.model_copy(
        update={
            "group": group.name,
            "clients": group.connections,
            "rate": group.rate,
            "protocol": group.protocol or point.protocol,
            "variables": group.variables | point.variables,
        }
    )


def all_loads(plan: Plan) -> list[Point]:
    """Return a point for each load at each point of the sweep."""
    return [load for point in plan.points() for load in loads_of(plan, point)]


CLOSED_TPS = 200.0
"""An assumed rate of a client in closed loop that commits to a local disk."""


def steps_s(plan: Plan, point: Point) -> float:
    """Return the seconds of the loads in the steps of a trial at `point`; those of a number of transactions are
    estimated.
    """
    return sum(_step_s(plan, point, step) for step in plan.step if step.groups)


def _step_s(plan: Plan, point: Point, step: StepSpec) -> float:
    if step.until is None:
        return step.duration or 0.0
    seconds = [0.0]
    for group in (each for each in groups_at(plan.group, point, step) if each.has_trial):
        variables = plan.workload.known_variables | group.variables | point.variables
        each = step.until.each_client(group.connections, variables)
        seconds.append(each / CLOSED_TPS if group.rate is None else each * group.connections / group.rate)
    return max(seconds)


def background_groups(plan: Plan, load: Point) -> list[GroupSpec]:
    """Return the groups in the background of `load`, one of a trial."""
    groups = groups_at(plan.group, load, step_of(plan, load))
    return [group for group in groups if not group.has_trial and group.connections]


def step_of(plan: Plan, load: Point) -> StepSpec | None:
    """Return the step whose load this is; None for a trial without steps."""
    return next((each for each in plan.step if each.name == load.step), None)


def group_of(plan: Plan, load: Point) -> GroupSpec | None:
    """Return the group whose load this is, with the values at its point; None for a load of one group."""
    return next((each for each in groups_at(plan.group, load, step_of(plan, load)) if each.name == load.group), None)


def plan_of_load(plan: Plan, load: Point) -> Plan:
    """Return the plan of one load of a trial: `plan` with its workload and length; `plan` itself without groups."""
    step, group = step_of(plan, load), group_of(plan, load)
    if group is None:
        return plan
    warmup, duration, transactions = plan.trial.warmup, plan.trial.duration, plan.trial.transactions
    if step is not None:
        warmup, duration, transactions = 0.0, step.duration, None
        if step.until is not None:
            variables = plan.workload.known_variables | load.variables
            transactions = step.until.each_client(group.connections, variables)
    if duration is not None and (group.begin or group.end is not None):
        duration = min(group.end or duration, duration) - group.begin
        # it would measure the others' warm-up as its own
        warmup = 0.0 if group.begin else warmup
    trial = plan.trial.model_copy(update={"warmup": warmup, "duration": duration, "transactions": transactions})
    return plan.model_copy(update={"workload": group_workload(plan.workload, group), "trial": trial})


def begin_s(plan: Plan, load: Point) -> float:
    """Return when `load` begins, from the start of measuring; 0 for one that also runs in the warm-up."""
    group = group_of(plan, load)
    return 0.0 if group is None else group.begin


def delay_s(plan: Plan, load: Point) -> float:
    """Return how long after the start of the trial's engines that of `load` begins."""
    begin = begin_s(plan, load)
    return begin + plan.trial.warmup if begin and load.step is None else begin
