"""Fewer points, and less memory, that still show what the whole plan would."""

import math
import re
from collections.abc import Hashable, Sequence
from operator import contains
from typing import TypeVar

from pgdyno.messages import Message
from pgdyno.plan.model import Plan
from pgdyno.plan.time_budget.time_and_disk import servers, standbys
from pgdyno.records import Point
from pgdyno.units import BYTES, setting_size

FEWEST_CLIENTS = 4
"""The client counts that a curve keeps, if it has that many."""

Level = Hashable
Curve = tuple[Level, ...]
"""A level of each axis (scale, rate, settings and so on). Points within a curve differ in their number of clients."""
T = TypeVar("T")


def thin(points: Sequence[Point], count: int, fewest_clients: int = FEWEST_CLIENTS) -> list[Point]:
    """Select `count` of `points` at most, in their order.

    Every curve keeps its ends and points evenly between them on a logarithmic axis. If fewer than `fewest_clients`
    would remain per curve, levels of the axis with the most levels are removed first, so that the axes stay crossed.
    """
    curves: dict[Curve, list[Point]] = {}
    for point, key in zip(points, _curves(points), strict=True):
        curves.setdefault(key, []).append(point)
    least = min(fewest_clients, max(len(curve) for curve in curves.values()))
    kept_curves = _cross_curves(list(curves), max(1, count // least))
    each, more = divmod(count, len(kept_curves))
    kept: list[Point] = []
    for place, key in enumerate(kept_curves):
        kept += _clients(curves[key], each + (1 if place < more else 0))
    chosen = {id(point) for point in kept}
    return [point for point in points if id(point) in chosen]


def _curves(points: Sequence[Point]) -> list[Curve]:
    names = sorted({name for point in points for name in (*point.settings, *point.variables, *point.groups)})

    def rest(point: Point) -> Curve:
        named = [(point.groups | point.variables | point.settings).get(name) for name in names]
        return (point.scale, point.protocol, point.rate, *named)

    def share(point: Point) -> float:
        return round(point.workers / point.planned_clients, 2) if point.workers else 0.0

    # one client has one worker in any proportion
    shares = {rest(point): share(point) for point in points if point.planned_clients > 1}
    return [(*rest(point), shares.get(rest(point), 0.0) if point.clients == 1 else share(point)) for point in points]


def _cross_curves(curves: list[Curve], most: int) -> list[Curve]:
    levels = _levels(curves)
    counts = [len(each) for each in levels]
    if math.prod(counts) == len(curves):
        # levels that are chosen once, from all of them, are evenly spaced
        while math.prod(counts) > most:
            counts[counts.index(max(counts))] -= 1
        chosen = [set(_pick_evenly(each, count)) for each, count in zip(levels, counts, strict=True)]
        return [curve for curve in curves if all(map(contains, chosen, curve))]
    while len(curves) > most:
        levels = _levels(curves)
        axis = max(range(len(levels)), key=lambda place: len(levels[place]))
        if len(levels[axis]) == 1:
            # explicit points: no two differ in only one axis
            return _pick_evenly(curves, most)
        keep = set(_pick_evenly(levels[axis], len(levels[axis]) - 1))
        curves = [curve for curve in curves if curve[axis] in keep]
    return curves


def _levels(curves: Sequence[Curve]) -> list[list[Level]]:
    return [list(dict.fromkeys(curve[axis] for curve in curves)) for axis in range(len(curves[0]))]


def _pick_evenly(items: list[T], count: int) -> list[T]:
    if count >= len(items):
        return items
    if count == 1:
        return items[-1:]
    return [items[round(place * (len(items) - 1) / (count - 1))] for place in range(count)]


def _clients(curve: list[Point], count: int) -> list[Point]:
    """Select `count` points of a curve with evenly spaced clients on a logarithmic axis, including both ends.

    A single one is in the middle of that axis: the fewest clients leave a server idle, and the most overload it.
    """
    if count >= len(curve):
        return curve
    by_clients = sorted(curve, key=lambda point: point.planned_clients)
    low, high = by_clients[0].planned_clients, by_clients[-1].planned_clients
    if low == high:
        return by_clients[len(by_clients) - count :]
    left = list(by_clients)
    chosen = []
    for place in range(count):
        wanted = low * (high / low) ** (place / (count - 1) if count > 1 else 0.5)
        nearest = min(left, key=lambda point: abs(point.planned_clients - wanted))
        left.remove(nearest)
        chosen.append(nearest)
    return chosen


_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(B|kB|MB|GB|TB)?\s*")
_BLOCK = 8192

SHARES = {
    "shared_buffers": (0.40, 0.25),
    "effective_cache_size": (1.00, 0.75),
    "maintenance_work_mem": (0.25, 0.05),
    "work_mem": (0.05, 0.01),
}
"""By setting: the largest share of a server's memory, and the share that replaces a larger one."""

_PLAIN_UNIT = {
    "shared_buffers": _BLOCK,
    "effective_cache_size": _BLOCK,
    "maintenance_work_mem": 1024,
    "work_mem": 1024,
    "max_wal_size": 1024**2,
    "min_wal_size": 1024**2,
}
"""The unit of a number without one (pg_settings.unit)."""

WAL_SHARE = 0.15
"""The share of free disk for the WAL of all servers."""
LEAST_WAL_MB = 64
"""A few segments."""


def setting_bytes(name: str, value: str) -> int | None:
    """Return the bytes of `value` of the memory setting `name`, or None if it is not a size."""
    found = _SIZE.fullmatch(value)
    if found is None:
        return None
    return int(float(found[1]) * (BYTES[found[2]] if found[2] else _PLAIN_UNIT[name]))


def fit_settings(plan: Plan, memory_bytes: int) -> tuple[Plan, list[Message]]:
    """Return `plan` with settings that fit into `memory_bytes` for all targets, and the changes."""
    # standbys inherit the settings of their primary
    part = memory_bytes / (servers(plan) + standbys(plan))
    targets = {}
    said: dict[Message, None] = {}
    for name, spec in plan.target.items():
        settings = dict(getattr(spec, "settings", {}))
        for setting, (most, becomes) in SHARES.items():
            asked = setting_bytes(setting, settings[setting]) if setting in settings else None
            if asked is not None and asked > most * part:
                settings[setting] = f"{int(becomes * part) // 1024**2}MB"
                said[_reduction_words(setting, settings[setting], asked)] = None
        changes: dict[str, object] = {"settings": settings} if settings else {}
        environment = getattr(spec, "environment", None)
        if environment is not None and environment.data == "tmpfs":
            changes["environment"] = environment.model_copy(update={"tmpfs_size": None})
        targets[name] = spec.model_copy(update=changes)
    return plan.model_copy(update={"target": targets}), list(said)


def _reduction_words(setting: str, now: str, asked_bytes: int) -> Message:
    was = setting_size(asked_bytes)
    return Message("setting-reduced", "{setting} is {now} instead of {was}", setting=setting, now=now, was=was)


def fit_wal(plan: Plan, disk_bytes: int) -> tuple[Plan, list[Message]]:
    """Return `plan` with WAL between checkpoints that fits on the disk, and the changes."""
    most = int(WAL_SHARE * disk_bytes) // (servers(plan) + standbys(plan)) // 1024**2
    targets = {}
    said: dict[Message, None] = {}
    for name, spec in plan.target.items():
        settings = dict(getattr(spec, "settings", {}))
        for setting, becomes in (("max_wal_size", most), ("min_wal_size", most // 4)):
            asked = setting_bytes(setting, settings[setting]) if setting in settings else None
            if asked is not None and asked > most * 1024**2:
                settings[setting] = f"{max(becomes, LEAST_WAL_MB)}MB"
                said[_reduction_words(setting, settings[setting], asked)] = None
        targets[name] = spec.model_copy(update={"settings": settings} if settings else {})
    return plan.model_copy(update={"target": targets}), list(said)
