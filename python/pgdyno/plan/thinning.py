"""Fewer points of a sweep that still show what all of them would: both ends of every axis."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

from pgdyno.records import Point

FEWEST_CLIENTS = 4
"""Client counts that a curve keeps, if it has so many."""

Level = Hashable
Curve = tuple[Level, ...]
"""A level of each axis: scale, rate, settings and so on. What differs within it is the number of clients."""
T = TypeVar("T")


def thin(points: Sequence[Point], count: int, fewest_clients: int = FEWEST_CLIENTS) -> list[Point]:
    """`count` of `points` at most, in their order.

    Every curve keeps its ends and what lies evenly between them on a logarithmic axis. When there would be
    fewer than `fewest_clients` on each, levels of the axis with the most levels go first, so that the axes
    stay crossed: what is kept of one is measured at all that is kept of the others.
    """
    curves: dict[Curve, list[Point]] = {}
    for point, key in zip(points, _curves(points), strict=True):
        curves.setdefault(key, []).append(point)
    least = min(fewest_clients, max(len(curve) for curve in curves.values()))
    kept_curves = _crossed(list(curves), max(1, count // least))
    each, more = divmod(count, len(kept_curves))
    kept: list[Point] = []
    for place, key in enumerate(kept_curves):
        kept += _clients(curves[key], each + (1 if place < more else 0))
    return [point for point in points if point in kept]


def _curves(points: Sequence[Point]) -> list[Curve]:
    """The curve that each of `points` is on; workers in proportion to the clients are an axis as well."""
    names = sorted({name for point in points for name in (*point.settings, *point.variables)})

    def rest(point: Point) -> Curve:
        named = [point.settings.get(name, point.variables.get(name)) for name in names]
        return (point.scale, point.protocol, point.rate, *named)

    def share(point: Point) -> float:
        return round(point.workers / point.clients, 2) if point.workers else 0.0

    # one client has one worker whatever the proportion
    shares = {rest(point): share(point) for point in points if point.clients > 1}
    return [(*rest(point), shares.get(rest(point), 0.0) if point.clients == 1 else share(point)) for point in points]


def _crossed(curves: list[Curve], most: int) -> list[Curve]:
    """At most `most` of `curves`: levels are left out of the axis that has the most of them, again and again."""
    while len(curves) > most:
        levels = [list(dict.fromkeys(curve[axis] for curve in curves)) for axis in range(len(curves[0]))]
        axis = max(range(len(levels)), key=lambda place: len(levels[place]))
        if len(levels[axis]) == 1:
            # points that were written out: no two differ in one axis alone
            return _evenly(curves, most)
        keep = _evenly(levels[axis], len(levels[axis]) - 1)
        curves = [curve for curve in curves if curve[axis] in keep]
    return curves


def _evenly(items: list[T], count: int) -> list[T]:
    """`count` of `items`, the last one and, from two on, the first one among them."""
    if count >= len(items):
        return items
    if count == 1:
        return items[-1:]
    return [items[round(place * (len(items) - 1) / (count - 1))] for place in range(count)]


def _clients(curve: list[Point], count: int) -> list[Point]:
    """`count` points of a curve whose clients lie as evenly as they can on a logarithmic axis, both ends kept."""
    if count >= len(curve):
        return curve
    by_clients = sorted(curve, key=lambda point: point.clients)
    low, high = by_clients[0].clients, by_clients[-1].clients
    if count <= 1 or low == high:
        return by_clients[len(by_clients) - count :]
    left = list(by_clients)
    chosen = []
    for place in range(count):
        wanted = low * (high / low) ** (place / (count - 1))
        nearest = min(left, key=lambda point: abs(point.clients - wanted))
        left.remove(nearest)
        chosen.append(nearest)
    return chosen
