"""Describes the search of a plan in words."""

from __future__ import annotations

from pgdyno.plan.model import Plan


def search_lines(plan: Plan) -> list[str]:
    """Returns the goal, the range and the trials per step; empty without a search."""
    search = plan.search
    if search is None:
        return []
    points = plan.points()
    values = [value for point in points if (value := getattr(point, search.axis)) is not None]
    rest = {point.model_copy(update={search.axis: None}).model_dump_json() for point in points}
    searches = len(rest) * len(plan.target)
    unit = "clients" if search.axis == "clients" else "transactions per second"
    span = f"from {min(values):g} to {max(values):g} {unit}"
    what = "the peak of throughput" if search.find == "peak" else f"the capacity at {_target(search.latency)}"
    times = f", {searches} searches" if searches > 1 else ""
    repeats = plan.trial.repeats
    step = f"{repeats} trials" if repeats > 1 else "one trial"
    return [f"searches for {what} {span}{times}; {step} per step; the number of steps depends on the results"]


def _target(latency: str | dict[str, str] | None) -> str:
    return ", ".join(f"{name} {each}" for name, each in latency.items()) if isinstance(latency, dict) else latency or ""
