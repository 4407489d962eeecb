"""Fits a plan into a time, memory and disk, and reports what it gave up.

It first lowers the largest number of a range of repeats, then shortens trials, then reduces repeats (to no fewer than
an answer needs: six pairs of arms, or three trials of one arm), then points of the sweep, and the dataset last, unless
that does not fit on the machine at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pgdyno.errors import UsageError
from pgdyno.messages import Message
from pgdyno.plan.checks.question import FEWEST_TRIALS, compares_arms
from pgdyno.plan.checks.trial_conditions import is_one_expression
from pgdyno.plan.model import Plan
from pgdyno.plan.scenario.steps import StepSpec
from pgdyno.plan.sweeps.spec import GROUPS, PointSpec, Sweep
from pgdyno.plan.time_budget.budget_reductions import fit_settings, fit_wal, thin
from pgdyno.plan.time_budget.time_and_disk import (
    LOAD_S_A_SCALE,
    around_s,
    dataset_bytes,
    estimated_s,
    loading_s,
    servers,
    standbys,
    trial_count,
    trials_s,
)
from pgdyno.plan.workload import trial_s
from pgdyno.records import Point
from pgdyno.records.base import FEWEST_PAIRS
from pgdyno.units import duration_words, format_duration, format_size

SHORTEST_TRIAL_S = 5.0
LEAST_SHARE = 0.01
"""Of steps that end after a number of transactions."""
LOADING_SHARE = 0.25
"""The share of the time that loading may take before the dataset is reduced."""
DISK_SHARE = 0.7
"""The share of free disk for data; WAL and results need the rest."""
STARTING_S = 5.0
"""For the checks before the first trial."""
ENDING_S = 5.0
"""For the stop of the servers and the report."""


@dataclass(frozen=True, slots=True)
class Room:
    """The available time, memory and disk."""

    seconds: float
    memory_bytes: int
    disk_bytes: int
    """Free bytes where data directories are."""
    load_s_a_scale: float = LOAD_S_A_SCALE
    """The seconds to load a unit of pgbench's scale."""
    used_s: float = 0.0
    """The seconds that have passed. The next run does not need them: what was downloaded is kept."""
    reserved_s: float = 0.0
    """The seconds for the checks before the first trial and for the report."""

    @property
    def left_s(self) -> float:
        """The seconds for servers, loads and trials."""
        return self.seconds - self.used_s - self.reserved_s


@dataclass(frozen=True, slots=True)
class Budget:
    """The time that the whole run may take, with all that it prepares."""

    asked: Plan
    """The plan before anything was reduced."""
    room: Room

    @property
    def seconds(self) -> float:
        return self.room.seconds

    def fit(self, used_s: float = 0.0) -> Fitted:
        """Reduces the plan until it fits into what is left after `used_s`. Raises UsageError."""
        return fit(self.asked, replace(self.room, used_s=used_s, reserved_s=STARTING_S + ENDING_S))


@dataclass(frozen=True, slots=True)
class Fitted:
    """A plan that fits into its budget."""

    plan: Plan
    gave_up: list[Message]
    """Each reduction of the original plan; empty if it fitted unchanged."""


def fit(plan: Plan, room: Room) -> Fitted:
    """Reduces `plan` until it fits into `room`. Raises UsageError if no plan fits."""
    said: list[Message] = []
    smaller, changed = fit_settings(plan, room.memory_bytes)
    said += changed
    smaller, changed = fit_wal(smaller, room.disk_bytes)
    said += changed
    largest = _largest_scale(smaller, room)
    for most in _scale_limits(largest):
        at_scale = _with_scales(smaller, most)
        loading = loading_s(at_scale, at_scale.points(), room.load_s_a_scale)
        if loading > LOADING_SHARE * room.left_s and most > 1:
            continue
        fitted = _fit_time(at_scale, room)
        if fitted is not None:
            return Fitted(fitted, [*said, *_differences(smaller, fitted), *_about_search(fitted)])
    used = f", because {duration_words(room.used_s)} of it passed before" if room.used_s >= 1 else ""
    raise UsageError(
        f"a budget of {duration_words(room.seconds)} is too small for {plan.name}{used}",
        hint=_what_would_do(plan, room.reserved_s + _least_s(_with_scales(smaller, 1), room)),
    )


def _what_would_do(plan: Plan, least_s: float) -> str:
    few = _fewest_repeats(plan)
    where = "all steps" if plan.search is not None else "one point of each arm"
    trials = f"{few} trials at {where} need" if few > 1 else f"1 trial at {where} needs"
    if not _compares(plan):
        return f"{trials} about {format_duration(least_s)}: give a longer --budget"
    why = ", and a verdict needs that many" if few == FEWEST_PAIRS else ""
    return f"{trials} about {format_duration(least_s)}{why}: give a longer --budget, or remove arms"


# ---- the size of the dataset ----


def scales_of(plan: Plan) -> set[int]:
    return {point.scale or plan.workload.size for point in plan.points()}


def _largest_scale(plan: Plan, room: Room) -> int:
    wanted = max(scales_of(plan))
    in_memory = sum(spec.instance_count for name, spec in plan.target.items() if _in_memory(plan, name))
    on_disk = servers(plan) - in_memory + standbys(plan)
    limits = [wanted]
    a_scale = dataset_bytes(plan, 1)
    if a_scale and on_disk:
        limits.append(int(DISK_SHARE * room.disk_bytes / (a_scale * on_disk)))
    if a_scale and in_memory:
        # shared buffers and all processes need memory, too
        limits.append(int(0.3 * room.memory_bytes / (a_scale * in_memory)))
    return max(1, min(limits))


def _in_memory(plan: Plan, target: str) -> bool:
    environment = getattr(plan.target[target], "environment", None)
    return environment is not None and environment.data == "tmpfs"


def _scale_limits(largest: int) -> Iterator[int]:
    most = largest
    while most > 1:
        yield most
        most //= 2
    yield 1


def _with_scales(plan: Plan, most: int) -> Plan:
    wanted = max(scales_of(plan))
    if wanted <= most:
        return plan

    def shrunk(scale: int) -> int:
        return max(1, scale * most // wanted)

    sweep = plan.sweep
    if sweep.scale is not None:
        items = list(dict.fromkeys(shrunk(item) if isinstance(item, int) else item for item in sweep.scale))
        sweep = sweep.model_copy(update={"scale": items})
    if sweep.points:
        specs = [
            spec.model_copy(update={"scale": shrunk(spec.scale)}) if isinstance(spec.scale, int) else spec
            for spec in sweep.points
        ]
        sweep = sweep.model_copy(update={"points": specs})
    workload = plan.workload.resize(shrunk(plan.workload.size))
    smaller = plan.model_copy(update={"sweep": sweep, "workload": workload})
    planned = [point.model_copy(update={"scale": shrunk(point.scale or plan.workload.size)}) for point in plan.points()]
    space = smaller.space()
    if space.problems or (plan.sweep.exclude and any(point not in planned for point in space.points)):
        # conditions and expressions are meant for the scales that the plan names
        distinct = {point.model_dump_json(): point for point in planned}
        return _with_points(plan.model_copy(update={"workload": workload}), list(distinct.values()))
    return smaller


# ---- time ----


def _compares(plan: Plan) -> bool:
    return plan.search is None and compares_arms(plan, plan.points())


def _fewest_repeats(plan: Plan) -> int:
    return min(plan.trial.most_repeats, FEWEST_PAIRS if _compares(plan) else FEWEST_TRIALS)


def _fit_time(plan: Plan, room: Room) -> Plan | None:
    """Shortens trials and removes repeats and points until `plan` fits into the time; None if it cannot."""
    points = plan.points()
    as_it_is = estimated_s(plan, points, room.load_s_a_scale)
    if as_it_is is not None and as_it_is <= room.left_s:
        return plan
    few = _fewest_repeats(plan)
    if plan.trial.stops_when_decided:
        # the largest number determines what each look costs, so it is lowered before the run, and first
        plan = _with_fewer_repeats(plan, points, room)
        if plan.trial.stops_when_decided:
            return plan
    for repeats in range(plan.trial.most_repeats, few - 1, -1):
        fitted = _with_duration(plan, points, repeats, room)
        if fitted is not None:
            return fitted
    if plan.search is not None:
        # the points of a search are only the ends of its range
        return None
    # the time grows with the number of points, so bisection finds the most that fit
    found: Plan | None = None
    low, high = 1, len(points) - 1
    while low <= high:
        count = (low + high) // 2
        kept = thin_points(plan, count)
        fitted = _with_duration(plan, kept, few, room)
        if fitted is None:
            high = count - 1
        else:
            found, low = _with_points(fitted, kept), count + 1
    # a single arm would answer another question
    return None if found is not None and _compares(plan) and not _compares(found) else found


def _with_fewer_repeats(plan: Plan, points: Sequence[Point], room: Room) -> Plan:
    """Lowers the largest number of repeats until `plan` fits into the time, at the least to the smallest: a number."""
    fewest, most = plan.trial.fewest_repeats, plan.trial.most_repeats
    for repeats in range(most, fewest, -1):
        fitted = _with_repeats(plan, f"{fewest}..{repeats}")
        needed = estimated_s(fitted, points, room.load_s_a_scale)
        if needed is not None and needed <= room.left_s:
            return fitted
    return _with_repeats(plan, fewest)


def _with_repeats(plan: Plan, repeats: int | str) -> Plan:
    margin = plan.trial.margin if isinstance(repeats, str) else None
    return plan.model_copy(update={"trial": plan.trial.model_copy(update={"repeats": repeats, "margin": margin})})


def _with_duration(plan: Plan, points: Sequence[Point], repeats: int, room: Room) -> Plan | None:
    """Give `plan` at `points` the longest trials that fit; None if they would be too short."""
    trial = plan.trial.model_copy(update={"repeats": repeats})
    asked = plan.model_copy(update={"trial": trial})
    for_trials_s = room.left_s - around_s(asked, points, room.load_s_a_scale)
    if plan.step:
        return _with_shorter_steps(asked, points, for_trials_s)
    if _is_whole(plan):
        return asked if for_trials_s >= trials_s(asked, points) else None
    each_s = for_trials_s / trial_count(asked, points) * plan.at_once
    if each_s < min(SHORTEST_TRIAL_S, trial_s(plan) or SHORTEST_TRIAL_S):
        return None
    # a fifth of a short trial is warm-up
    warmup_s = min(trial.warmup, round(each_s / 5, 1))
    measured_s = each_s - warmup_s
    if trial.duration is not None:
        measured_s = min(trial.duration, measured_s)
    changes = {"duration": _round_seconds(measured_s), "transactions": None, "warmup": warmup_s}
    return plan.model_copy(update={"trial": trial.model_copy(update=changes)})


def _with_shorter_steps(plan: Plan, points: Sequence[Point], for_trials_s: float) -> Plan | None:
    """Reduce durations and transactions of all steps by one factor; None if one would be too short."""
    share = min(1.0, int(1000 * for_trials_s / trials_s(plan, points)) / 1000)
    if share < _least_share(plan):
        return None
    return plan if share == 1.0 else plan.model_copy(update={"step": [_shorten(step, share) for step in plan.step]})


def _least_share(plan: Plan) -> float:
    durations = [step.duration for step in plan.step if step.duration is not None]
    return max((min(1.0, SHORTEST_TRIAL_S / each) for each in durations), default=LEAST_SHARE)


def _shorten(step: StepSpec, share: float) -> StepSpec:
    duration = None if step.duration is None else _round_seconds(share * step.duration)
    until = None if step.until is None else step.until.shorten(share)
    return step.model_copy(update={"duration": duration, "until": until})


def _is_whole(plan: Plan) -> bool:
    return bool(plan.phase or plan.event) or plan.workload.runs_once


def _round_seconds(seconds: float) -> float:
    return float(int(seconds)) if seconds >= 1 else round(seconds, 2)


def _with_points(plan: Plan, points: Sequence[Point]) -> Plan:
    per_session = plan.sweep.session_names
    specs = [
        PointSpec(
            clients=None if plan.has_group_trials else point.clients,
            workers=point.workers,
            protocol=point.protocol,  # type: ignore[arg-type]  # a record keeps it as text
            scale=point.scale,
            rate=point.rate,
            settings={name: value for name, value in point.settings.items() if name not in per_session},
            session_settings={name: value for name, value in point.settings.items() if name in per_session},
            variables=point.variables,
            group=point.groups,
        )
        for point in points
    ]
    return plan.model_copy(update={"sweep": Sweep(points=specs).model_copy(update=_computed_items(plan.sweep))})


def _computed_items(sweep: Sweep) -> dict[str, object]:
    lists = {name: getattr(sweep, name) for name in ("workers", "scale", "rate")}
    kept: dict[str, object] = {name: items for name, items in lists.items() if is_one_expression(items)}
    for group in GROUPS:
        kept[group] = {name: items for name, items in getattr(sweep, group).items() if is_one_expression(items)}
    return kept


def _least_s(plan: Plan, room: Room) -> float:
    """Return the seconds of the fewest and shortest trials: one point per arm, or all steps of a search."""
    trial = plan.trial.model_copy(update={"repeats": _fewest_repeats(plan)})
    one = plan.model_copy(update={"trial": trial})
    points = plan.points() if plan.search is not None else _fewest_points(plan)
    load_s = trials_s(one, points) if _is_whole(plan) or plan.step else 0.0
    if plan.step:
        load_s *= _least_share(plan)
    shortest_s = trial_count(one, points) * SHORTEST_TRIAL_S / plan.at_once
    return around_s(one, points, room.load_s_a_scale) + (load_s or shortest_s)


def _fewest_points(plan: Plan) -> list[Point]:
    if not _compares(plan):
        return thin_points(plan, 1)
    points = plan.points()
    counts = range(1, len(points) + 1)
    return next((kept for count in counts if compares_arms(plan, kept := thin_points(plan, count))), points)


def thin_points(plan: Plan, count: int) -> list[Point]:
    """Select at most `count` points of `plan`; prefers arms to client counts where the default would leave one arm."""
    points = plan.points()
    kept = thin(points, count)
    return kept if compares_arms(plan, kept) or not _compares(plan) else thin(points, count, fewest_clients=1)


# ---- what it came to ----


def _about_search(plan: Plan) -> list[Message]:
    if plan.search is None:
        return []
    return [
        Message(
            "search-estimated",
            "the search is estimated at {count} trial at most; it may take longer, depending on the results",
            "the search is estimated at {count} trials at most; it may take longer, depending on the results",
            count=trial_count(plan, plan.points()),
        )
    ]


def _differences(asked: Plan, got: Plan) -> Iterator[Message]:
    before, after = asked.trial, got.trial
    if asked.step != got.step:
        share = trials_s(got, got.points()[:1]) / trials_s(asked, asked.points()[:1])
        share *= before.most_repeats / after.most_repeats
        yield Message(
            "steps-shortened", "steps have {share} % of their time and transactions", share=round(100 * share)
        )
    if after.duration != before.duration and before.duration is None and asked.workload.own_end is not None:
        yield Message(
            "replay-shortened",
            "a replay ends after {now}, even if that is before the end of the capture",
            now=duration_words(after.duration or 0.0),
        )
    elif after.duration != before.duration:
        yield Message(
            "trial-shortened",
            "a trial lasts {now} instead of {was} transactions per client"
            if before.duration is None
            else "a trial lasts {now} instead of {was}",
            now=duration_words(after.duration or 0.0),
            was=f"{before.transactions or 0:,}" if before.duration is None else duration_words(before.duration),
        )
    elif after.warmup != before.warmup:
        yield Message(
            "warm-up-shortened",
            "a warm-up lasts {now} instead of {was}",
            now=duration_words(after.warmup),
            was=duration_words(before.warmup),
        )
    if after.repeats != before.repeats:
        yield Message(
            "repeats-reduced",
            "{now} repeat instead of {was}",
            "{now} repeats instead of {was}",
            count=after.most_repeats,
            now=str(after.repeats),
            was=str(before.repeats),
        )
        if before.margin != after.margin:
            yield Message(
                "margin-dropped",
                "no margin instead of {was}, because the number of repeats is fixed",
                was=str(before.margin),
            )
    points = len(asked.points()), len(got.points())
    if points[0] != points[1]:
        yield Message(
            "points-reduced",
            "{count} point instead of {was}",
            "{count} points instead of {was}",
            count=points[1],
            was=points[0],
        )
    scales = max(scales_of(asked)), max(scales_of(got))
    if scales[0] != scales[1]:
        yield asked.workload.tell_size(scales[1], scales[0], format_size(dataset_bytes(got, scales[1])))
