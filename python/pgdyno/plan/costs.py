"""What a plan takes, in seconds and bytes, as far as it can be known beforehand.

Rates are those of a small machine (two cores, a local disk); they only have to be right within a factor of
two, for a budget leaves room.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.plan.model import Plan
from pgdyno.plan.phases import trial_s
from pgdyno.plan.search_costs import visits
from pgdyno.records import Point

BYTES_A_SCALE = 15_000_000
"""Tables and indexes of pgbench, a unit of scale."""
BYTES_A_ROW_OF_SBTEST = 260
SCALES_OF_A_WAREHOUSE = 8
"""A warehouse of TPC-C, with what a trial adds to it, is as large as so many units of pgbench's scale."""
LOAD_S_A_SCALE = 0.12
"""COPY, vacuum and keys: about 850,000 rows a second."""
READ_S_A_SCALE = 0.03
COPY_S_A_SCALE = 0.05
"""A template or a snapshot."""
START_S = 5.0
"""initdb and the server's start."""
RESTART_S = 2.0
REPLICA_S = 3.0
"""A standby's start, until it streams."""
BESIDE_S = 1.5
"""Loads on standbys are connected before a trial begins, and end behind it."""
BETWEEN_S = 1.5
"""A checkpoint, connecting, storing."""


def needed_s(plan: Plan, points: Sequence[Point]) -> float | None:
    """Seconds for all trials of `plan` at `points`, loading and resets among them; None without an end."""
    each_s = trial_s(plan)
    return None if each_s is None else around_s(plan, points) + trial_count(plan, points) * each_s


def trial_count(plan: Plan, points: Sequence[Point]) -> int:
    """Trials of `plan` at `points`; of a search, about the most."""
    return len(plan.target) * plan.trial.repeats * len(visits(plan, points))


def standbys(plan: Plan) -> int:
    """Replicas of all targets together, each with a copy of its primary's data."""
    replicas = [getattr(spec, "replicas", None) for spec in plan.target.values()]
    return sum(each.count for each in replicas if each is not None)


def around_s(plan: Plan, points: Sequence[Point]) -> float:
    """Seconds of all that is not load: starting and loading every target, and what is done between trials."""
    between_s = plan.trial.repeats * sum(overhead_s(plan, point) for point in visits(plan, points))
    pauses_s = plan.trial.pause * max(trial_count(plan, points) - 1, 0)
    starts_s = len(plan.target) * START_S + standbys(plan) * REPLICA_S
    if plan.replica_load is not None:
        pauses_s += trial_count(plan, points) * BESIDE_S
    return starts_s + len(plan.target) * between_s + loading_s(plan, points) + pauses_s


def loading_s(plan: Plan, points: Sequence[Point]) -> float:
    """Seconds of loading every scale once into every target, and of copying one for each standby."""
    if plan.workload.dataset == "none":
        return 0.0
    scales = [_pgbench_scale(plan, scale) for scale in {point.scale or plan.workload.size for point in points}]
    return len(plan.target) * LOAD_S_A_SCALE * sum(scales) + standbys(plan) * COPY_S_A_SCALE * max(scales)


def _pgbench_scale(plan: Plan, scale: int) -> float:
    """The scale at which pgbench's tables are as large as the dataset at its own `scale`."""
    return pgbench_scale(plan.workload.dataset, scale, plan.workload.tables)


def pgbench_scale(dataset: str, scale: int, tables: int) -> float:
    """The scale at which pgbench's tables are as large as `dataset`; `tables` are those of sbtest."""
    match dataset:
        case "sbtest":
            return tables * scale * BYTES_A_ROW_OF_SBTEST / BYTES_A_SCALE
        case "tpcc":
            return scale * SCALES_OF_A_WAREHOUSE
        case "pgbench":
            return scale
        case _:
            return 0.0


def overhead_s(plan: Plan, point: Point) -> float:
    """Seconds of a trial at `point` outside of its load."""
    reset = plan.reset
    scale = _pgbench_scale(plan, point.scale or plan.workload.size)
    bring_back = {"template": COPY_S_A_SCALE, "snapshot": COPY_S_A_SCALE, "reload": LOAD_S_A_SCALE}
    seconds = BETWEEN_S + bring_back.get(reset.method, 0.0) * scale
    if reset.restart or reset.method == "snapshot" or point.settings:
        seconds += RESTART_S
    if reset.prewarm != "none" or reset.consistency == "full":
        seconds += READ_S_A_SCALE * scale
    return seconds


def dataset_bytes(plan: Plan, scale: int) -> int:
    """Bytes of one target's data at `scale`, a copy to go back to among them."""
    copies = 2 if plan.reset.method in ("template", "snapshot") else 1
    return round(copies * BYTES_A_SCALE * _pgbench_scale(plan, scale))
