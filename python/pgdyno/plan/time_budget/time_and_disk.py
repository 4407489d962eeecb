"""Estimates the seconds and bytes that a plan takes, from the rate of the last load on this machine.

The default rates are those of a small machine (two cores, a local disk). A factor of two is precise enough, because a
budget leaves a reserve.
"""

import json
import math
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from pgdyno.plan.kinds import WORKLOAD_KINDS
from pgdyno.plan.model import Plan, SearchSpec
from pgdyno.plan.optional_sections import share_of
from pgdyno.plan.scenario.loads import loads_of, steps_s
from pgdyno.plan.sweeps.order import controlled_blocks
from pgdyno.plan.workload import trial_s
from pgdyno.records import Point
from pgdyno.registry import WORKLOADS

FILE = "load-rates.json"
SHORTEST_S = 3.0
"""Of a shorter load, most may be the time to connect and to create tables."""
HIGHEST = 1000.0
"""A higher rate, 100 rows per second, can only be from a damaged file."""


def load_rate(home: Path, kinds: Iterable[str], dataset: str) -> float:
    """Return the seconds to load a unit of pgbench's scale into the slowest of `kinds` of targets.

    They are those of the last load of such a `dataset`, or usual ones.
    """
    rates = _read(home)
    return max((rates.get(_key(kind, dataset), LOAD_S_A_SCALE) for kind in kinds), default=LOAD_S_A_SCALE)


def keep_load_rate(home: Path, kind: str, dataset: str, scale: float, seconds: float) -> None:
    """Store that a load of `dataset` into a target of `kind` took `seconds`, if that was long enough.

    `scale` is its size in units of pgbench's scale. If the file cannot be written, plans use the rate before.
    """
    if seconds < SHORTEST_S or scale <= 0:
        return
    rates = _read(home) | {_key(kind, dataset): round(seconds / scale, 6)}
    new = home / f".{FILE}.{os.getpid()}"
    with suppress(OSError):
        new.write_text(json.dumps(rates, indent=2), encoding="utf-8")
        new.replace(home / FILE)


def _key(kind: str, dataset: str) -> str:
    return f"{dataset} into {kind}"


def _read(home: Path) -> dict[str, float]:
    """Return the rates by dataset and kind of target; none from a damaged file."""
    try:
        found = json.loads((home / FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: rate for name, rate in found.items() if isinstance(rate, int | float) and 0 < rate < HIGHEST}


PEAK_NARROWING = 5
"""Steps on both sides of the ladder's maximum, and one more if that moves."""
MIXED_STEPS = 2
"""Rates at which trials disagree, and so decide nothing."""


def visits(plan: Plan, points: Sequence[Point]) -> Sequence[Point]:
    """Return the points of each target once per visit: for a search, all its steps."""
    search = plan.search
    if search is None or search.kind.axis is None:
        return points
    arms: dict[str, list[Point]] = {}
    for point in points:
        rest = point.model_copy(update={"clients": 0} if search.axis == "clients" else {"rate": None})
        arms.setdefault(rest.model_dump_json(), []).append(point)
    return [arm[-1] for arm in arms.values() for _ in range(_steps(search, arm))]


def _steps(search: SearchSpec, arm: Sequence[Point]) -> int:
    values = [float(value) for point in arm if (value := getattr(point, search.axis)) is not None]
    doublings = math.ceil(math.log2(max(values) / min(values))) + 1 if values else 1
    if search.axis == "clients":
        return doublings + PEAK_NARROWING
    halvings = math.ceil(math.log2(math.log(2) / math.log1p(share_of(search.precision))))
    return doublings + max(halvings, 0) + MIXED_STEPS


BYTES_A_SCALE = 15_000_000
"""Tables and indexes of pgbench per unit of scale."""
LOAD_S_A_SCALE = 0.12
"""COPY, vacuum and keys: about 850,000 rows per second. `load_rate` knows what this machine has reached."""
READ_S_A_SCALE = 0.03
COPY_S_A_SCALE = 0.05
"""For a template or a snapshot."""
START_S = 5.0
"""For initdb and the server's start."""
RESTART_S = 2.0
REPLICA_S = 3.0
"""For the start of a standby until it streams."""
BESIDE_S = 1.5
"""For loads on standbys, which connect before a trial begins and end after it."""
BETWEEN_S = 1.5
"""For a checkpoint, connecting and storing."""
CLIENT_S = 0.004
"""To connect a client, and to end its session."""


def needed_s(plan: Plan, points: Sequence[Point], load_s_a_scale: float = LOAD_S_A_SCALE) -> float | None:
    """Return the seconds of all trials of `plan` at `points`, with loading and resets; None without a limit."""
    each_s = trial_s(plan)
    if each_s is None:
        return None
    return around_s(plan, points, load_s_a_scale) + trial_count(plan, points) * each_s / plan.at_once


def estimated_s(plan: Plan, points: Sequence[Point], load_s_a_scale: float = LOAD_S_A_SCALE) -> float | None:
    """Return `needed_s`, with an estimate for trials that end with a query or a transaction."""
    if plan.workload.runs_once or plan.step:
        return around_s(plan, points, load_s_a_scale) + trials_s(plan, points)
    return needed_s(plan, points, load_s_a_scale)


def least_settings_search_s(plan: Plan) -> float | None:
    """Return the seconds of a search for settings with two proposals and one confirmation; None without a limit."""
    each_s, points = trial_s(plan), plan.points()[:1]
    if each_s is None:
        return None
    trials = 4 + 2 * plan.trial.most_repeats
    starts_s = servers(plan) * START_S + loading_s(plan, points)
    return starts_s + trials * (each_s + overhead_s(plan, points[0]) + plan.trial.pause)


def trials_s(plan: Plan, points: Sequence[Point]) -> float:
    """Return the seconds of the load in all trials of `plan` at `points`; 0 if they have no limit."""
    each_s = sum(planned_s(plan, point) for point in visits(plan, points))
    return _arms(plan, points) * plan.trial.most_repeats * each_s / plan.at_once


def planned_s(plan: Plan, point: Point) -> float:
    """Return the seconds of the load in a trial at `point`, or an estimate; 0 if it has no limit.

    Of the loads of groups and steps, each has an equal share of their common time.
    """
    if point.group is not None:
        place = point.model_copy(update={"group": None, "step": None})
        return planned_s(plan, place) / len(loads_of(plan, place))
    if plan.step:
        return steps_s(plan, point)
    estimate_s = plan.workload.estimated_s(point.planned_clients)
    return (trial_s(plan) or 0.0) if estimate_s is None else estimate_s


def trial_count(plan: Plan, points: Sequence[Point]) -> int:
    """Return the number of trials of `plan` at `points`; for a search, an upper estimate."""
    return round(_arms(plan, points) * plan.trial.most_repeats * len(visits(plan, points)))


def _arms(plan: Plan, points: Sequence[Point]) -> float:
    """Return the trials of a repeat for each of `points`, on average: one of each target, and those of the control."""
    targets = list(plan.target)
    return len(targets) + (controlled_blocks(targets, points) / len(points) if plan.trial.control and points else 0)


def servers(plan: Plan) -> int:
    """Return the number of servers without standbys: the instances of all targets."""
    return sum(spec.instance_count for spec in plan.target.values())


def standbys(plan: Plan) -> int:
    """Return the number of replicas and subscribers of all servers, each with a copy of their data."""
    return sum(getattr(spec, "follower_count", 0) * spec.instance_count for spec in plan.target.values())


def around_s(plan: Plan, points: Sequence[Point], load_s_a_scale: float = LOAD_S_A_SCALE) -> float:
    """Return the seconds outside of the load: starts, loading, and steps between trials."""
    each_s = (overhead_s(plan, point, load_s_a_scale) for point in visits(plan, points))
    between_s = plan.trial.most_repeats * sum(each_s)
    pauses_s = plan.trial.pause * max(trial_count(plan, points) - 1, 0)
    starts_s = servers(plan) * START_S + standbys(plan) * REPLICA_S
    if any(not group.has_trial for group in plan.group):
        pauses_s += trial_count(plan, points) * BESIDE_S
    return starts_s + _arms(plan, points) * between_s + loading_s(plan, points, load_s_a_scale) + pauses_s


def loading_s(plan: Plan, points: Sequence[Point], load_s_a_scale: float = LOAD_S_A_SCALE) -> float:
    """Return the seconds to load every scale once into every server, and to copy one for each standby."""
    if plan.workload.dataset == "none":
        return 0.0
    scales = [_pgbench_scale(plan, scale) for scale in {point.scale or plan.workload.size for point in points}]
    return servers(plan) * load_s_a_scale * sum(scales) + standbys(plan) * COPY_S_A_SCALE * max(scales)


def _pgbench_scale(plan: Plan, scale: int) -> float:
    return pgbench_scale(plan.workload.dataset_name, scale, plan.workload.tables)


def pgbench_scale(dataset: str, scale: int, tables: int) -> float:
    """Return pgbench's scale for tables of the size of `dataset`; 0 for one that pgdyno does not load."""
    kinds = (name for name, kind in WORKLOADS.items() if kind.dataset == dataset and name in WORKLOAD_KINDS)
    sizes = [WORKLOAD_KINDS[name].bytes_a_unit for name in kinds]
    return tables * scale * sizes[0] / BYTES_A_SCALE if sizes else 0.0


def overhead_s(plan: Plan, point: Point, load_s_a_scale: float = LOAD_S_A_SCALE) -> float:
    """Return the seconds of a trial at `point` outside of its load."""
    reset = plan.reset
    scale = _pgbench_scale(plan, point.scale or plan.workload.size)
    bring_back = {"template": COPY_S_A_SCALE, "snapshot": COPY_S_A_SCALE, "reload": load_s_a_scale}
    seconds = BETWEEN_S + CLIENT_S * point.planned_clients + bring_back.get(reset.method, 0.0) * scale
    if reset.restart or reset.method == "snapshot" or point.settings.keys() - plan.sweep.session_names:
        seconds += RESTART_S
    if reset.prewarm != "none" or reset.consistency == "full":
        seconds += READ_S_A_SCALE * scale
    return seconds


def dataset_bytes(plan: Plan, scale: int) -> int:
    """Return the bytes of one target's data at `scale`, including a copy to restore from."""
    return (2 if plan.reset.method in ("template", "snapshot") else 1) * data_bytes(plan, scale)


def data_bytes(plan: Plan, scale: int) -> int:
    """Return the bytes of one target's data at `scale`, without a copy."""
    return round(BYTES_A_SCALE * _pgbench_scale(plan, scale))
