"""Combines the figures of several generators: adds counts, merges histograms, never averages percentiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import sqrt
from typing import Any

from hdrh.histogram import HdrHistogram

from pgdyno.analyse.histogram import merge
from pgdyno.errors import EngineError

Event = dict[str, Any]

HIGHEST_NS, DIGITS = 3_600_000_000_000, 3
"""An hour; longer latencies enlarge the histogram."""
COUNTS = ("succeeded", "failed", "lost", "skipped", "late", "retried", "retries")
INTERVAL_PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
PERCENTILES = {"p50": 50.0, "p75": 75.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9, "p9999": 99.99}


def added(parts: Iterable[Event], names: Iterable[str]) -> Event:
    """Returns the sum of each of `names` over `parts`; missing values are 0."""
    each = list(parts)
    return {name: sum(part.get(name) or 0 for part in each) for name in names}


def scripts_of_interval(parts: Sequence[Event]) -> list[Event]:
    """Merges the `scripts` of several generators' intervals."""
    return [_script(number, same, INTERVAL_PERCENTILES) for number, same in _by(parts, "script")]


def scripts_of_end(parts: Sequence[Event]) -> list[Event]:
    """Merges the `scripts` of several generators' `end` events or phases."""
    scripts = []
    for number, same in _by(parts, "script"):
        script = _script(number, same, PERCENTILES)
        for pause in ("keying_time", "think_time"):
            if pause in same[0]:
                script[pause] = _pauses([each[pause] for each in same if each.get(pause)])
        if any("statements" in each for each in same):
            script["statements"] = _statements([each.get("statements") or () for each in same])
        scripts.append(script)
    return scripts


def latencies(parts: Sequence[Event], percentiles: dict[str, float]) -> Event:
    """Merges `latency_ns` and `histogram` over the `parts` that have them; without any, the latency is None."""
    measured = [part for part in parts if part.get("latency_ns") and part.get("histogram")]
    if not measured:
        return {"latency_ns": None}
    if len(measured) == 1:
        return {name: measured[0][name] for name in ("latency_ns", "histogram")}
    blobs = [part["histogram"] for part in measured]
    merged = merge(blobs)
    assert merged is not None
    each = [part["latency_ns"] for part in measured]
    figures: Event = added(each, ("sum", "sum_of_squares"))
    figures |= {"min": min(one["min"] for one in each), "max": max(one["max"] for one in each)}
    within = merged.within(figures["min"], figures["max"])
    figures |= dict(zip(percentiles, within.percentiles_ns(percentiles.values()), strict=True))
    if percentiles is PERCENTILES:
        mean = figures["sum"] / merged.count
        figures |= {"mean": mean, "stddev": sqrt(max(0.0, figures["sum_of_squares"] / merged.count - mean * mean))}
    return {"latency_ns": figures, "histogram": one_histogram(blobs)}


def one_histogram(blobs: Sequence[str]) -> str:
    """Merges the histograms in `blobs`."""
    decoded = [HdrHistogram.decode(blob) for blob in blobs]
    highest = max(HIGHEST_NS, *(int(each.get_max_value()) for each in decoded))
    total = HdrHistogram(1, highest, DIGITS)
    for each in decoded:
        # leaving it out would falsify the figures
        if total.add(each) is False:
            raise EngineError("cannot merge the generators' latencies: one exceeds the histogram's maximum")
    encoded: bytes = total.encode()
    return encoded.decode()


def lag(parts: Sequence[Event]) -> Event | None:
    """Merges `lag_ns` over `parts`, weighted by succeeded transactions; None in a closed loop."""
    open_ = [part for part in parts if part.get("lag_ns")]
    if not open_:
        return None
    weights = [max(1, part.get("succeeded") or 0) for part in open_]
    mean = sum(part["lag_ns"]["mean"] * weight for part, weight in zip(open_, weights, strict=True)) / sum(weights)
    return {"mean": mean, "max": max(part["lag_ns"]["max"] for part in open_)}


def _by(parts: Iterable[Event], key: str) -> list[tuple[int, list[Event]]]:
    found: dict[int, list[Event]] = {}
    for part in parts:
        found.setdefault(part[key], []).append(part)
    return sorted(found.items())


def _script(number: int, same: Sequence[Event], percentiles: dict[str, float]) -> Event:
    script = {"script": number, **added(same, COUNTS), "lag_ns": lag(same)}
    measured = latencies(same, percentiles)
    if percentiles is INTERVAL_PERCENTILES and measured["latency_ns"] is None:
        # as in the engine's events: absent if none succeeded
        return script
    return script | measured


def _statements(parts: Sequence[Sequence[Event]]) -> list[Event]:
    """Returns the statements that all generators have; engines number statements that a script creates
    independently.
    """
    found: dict[Any, list[Event]] = {}
    for part in parts:
        met: Counter[Any] = Counter()
        for statement in part:
            name = statement.get("text", statement["id"])
            found.setdefault((name, met[name]), []).append(statement)
            met[name] += 1
    ids = [same[0]["id"] for same in found.values()]
    if len(set(ids)) < len(ids):
        ids = list(range(len(ids)))
    return sorted((_statement(id_, same) for id_, same in zip(ids, found.values(), strict=True)), key=_id)


def _id(statement: Event) -> int:
    number: int = statement["id"]
    return number


def _statement(id_: int, same: Sequence[Event]) -> Event:
    statement = {"id": id_, **added(same, ("executions", "failures", "retries"))}
    statement["latency_ns"] = latencies(same, PERCENTILES)["latency_ns"]
    return statement | {key: same[0][key] for key in ("text",) if key in same[0]}


def _pauses(same: Sequence[Event]) -> Event | None:
    if not same:
        return None
    merged = {**same[0], **added(same, ("count",))}
    spent = [(each["count"], each["spent_ns"]) for each in same if each.get("spent_ns")]
    count = sum(number for number, _ in spent)
    if count:
        merged["spent_ns"] = {
            "mean": sum(number * each["mean"] for number, each in spent) / count,
            "min": min(each["min"] for _, each in spent),
            "max": max(each["max"] for _, each in spent),
        }
    return merged
