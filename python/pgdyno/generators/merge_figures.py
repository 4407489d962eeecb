"""Figures of several generators as those of one: counts are added, histograms merged, percentiles recomputed."""

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


def sum_parts(parts: Iterable[Event], names: Iterable[str]) -> Event:
    """Return the sum of each of `names` over `parts`; missing values are 0."""
    each = list(parts)
    return {name: sum(part.get(name) or 0 for part in each) for name in names}


def scripts_of_interval(parts: Sequence[Event]) -> list[Event]:
    return [_script(number, same, INTERVAL_PERCENTILES) for number, same in _group_by(parts, "script")]


def scripts_of_end(parts: Sequence[Event]) -> list[Event]:
    """Merge the `scripts` of several generators' `end` events or phases."""
    scripts = []
    for number, same in _group_by(parts, "script"):
        script = _script(number, same, PERCENTILES)
        for pause in ("keying_time", "think_time"):
            if pause in same[0]:
                script[pause] = _pauses([each[pause] for each in same if each.get(pause)])
        if any("statements" in each for each in same):
            script["statements"] = _added_statements([each.get("statements") or () for each in same])
        scripts.append(script)
    return scripts


def latencies(parts: Sequence[Event], percentiles: dict[str, float]) -> Event:
    """Merge `latency_ns` and `histogram` over the `parts` that have them; without any, the latency is None."""
    measured = [part for part in parts if part.get("latency_ns") and part.get("histogram")]
    if not measured:
        return {"latency_ns": None}
    if len(measured) == 1:
        return {name: measured[0][name] for name in ("latency_ns", "histogram")}
    blobs = [part["histogram"] for part in measured]
    merged = merge(blobs)
    assert merged is not None
    each = [part["latency_ns"] for part in measured]
    figures: Event = sum_parts(each, ("sum", "sum_of_squares"))
    figures |= {"min": min(one["min"] for one in each), "max": max(one["max"] for one in each)}
    within = merged.with_bounds(figures["min"], figures["max"])
    figures |= dict(zip(percentiles, within.percentiles_ns(percentiles.values()), strict=True))
    if percentiles is PERCENTILES:
        mean = figures["sum"] / merged.count
        figures |= {"mean": mean, "stddev": sqrt(max(0.0, figures["sum_of_squares"] / merged.count - mean * mean))}
    return {"latency_ns": figures, "histogram": one_histogram(blobs)}


def connects(parts: Sequence[Event]) -> Event | None:
    """Merge the `connect` of several generators' `end` events."""
    if not parts:
        return None
    merged = {
        name: latencies([part[name] for part in parts if part[name]], PERCENTILES)
        for name in parts[0]
        if name != "count"
    }
    return {
        **sum_parts(parts, ("count",)),
        **{name: each if each["latency_ns"] is not None else None for name, each in merged.items()},
    }


def one_histogram(blobs: Sequence[str]) -> str:
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
    """Merge `lag_ns` over `parts`, weighted by succeeded transactions; None in a closed loop."""
    open_ = [part for part in parts if part.get("lag_ns")]
    if not open_:
        return None
    weights = [max(1, part.get("succeeded") or 0) for part in open_]
    mean = sum(part["lag_ns"]["mean"] * weight for part, weight in zip(open_, weights, strict=True)) / sum(weights)
    return {"mean": mean, "max": max(part["lag_ns"]["max"] for part in open_)}


def _group_by(parts: Iterable[Event], key: str) -> list[tuple[int, list[Event]]]:
    found: dict[int, list[Event]] = {}
    for part in parts:
        found.setdefault(part[key], []).append(part)
    return sorted(found.items())


def _script(number: int, same: Sequence[Event], percentiles: dict[str, float]) -> Event:
    script = {"script": number, **sum_parts(same, COUNTS), "lag_ns": lag(same)}
    measured = latencies(same, percentiles)
    if percentiles is INTERVAL_PERCENTILES and measured["latency_ns"] is None:
        # as in the engine's events: absent if none succeeded
        return script
    return script | measured


def _added_statements(parts: Sequence[Sequence[Event]]) -> list[Event]:
    """Return the statements that all generators have, because each engine numbers a script's own statements."""
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
    statement = {"id": id_, **sum_parts(same, ("executions", "failures", "retries"))}
    rows = [each["rows"] for each in same if each.get("rows") is not None]
    statement |= {"rows": sum(rows) if rows else None, **latencies(same, PERCENTILES)}
    return statement | {key: same[0][key] for key in ("text",) if key in same[0]}


def _pauses(same: Sequence[Event]) -> Event | None:
    if not same:
        return None
    merged = {**same[0], **sum_parts(same, ("count",))}
    spent = [(each["count"], each["spent_ns"]) for each in same if each.get("spent_ns")]
    count = sum(number for number, _ in spent)
    if count:
        merged["spent_ns"] = {
            "mean": sum(number * each["mean"] for number, each in spent) / count,
            "min": min(each["min"] for _, each in spent),
            "max": max(each["max"] for _, each in spent),
        }
    return merged


TOGETHER_US = 1_000_000
"""Outages with less than this between them are one, as in the engine."""
MOST_OUTAGES = 1_000
REFUSED = 3
"""The exit code of a load that is not a valid result."""
DISTRICTS = 10
_DEVIATIONS = 5.0
_STATEMENTS = ("reads", "writes", "others", "queries", "ignored_errors", "reconnects")
_LOSSES = ("connections_lost", "reconnects", "failed_attempts")
_OF_OUTAGE = (*_LOSSES, "transactions_lost", "clients_never_back")


def end_of_workload(each: Sequence[Event], clients: Sequence[int], merged: Event) -> Event:
    """Merge the workload's fields of the `end` events `each`, with their `clients`; `merged` has all others."""
    fields: Event = {}
    if all(end.get("ledger") for end in each):
        fields["ledger"] = _ledger([end["ledger"] for end in each])
    if all(end.get("statements") for end in each):
        fields["statements"] = _statements([end["statements"] for end in each], clients, merged)
    if all("outages" in end for end in each):
        outages = _outages(
            [(number, outage) for number, end in enumerate(each) for outage in end["outages"]], len(each)
        )
        fields |= sum_parts(each, _LOSSES) | {"outage_count": len(outages), "outages": outages[:MOST_OUTAGES]}
    if all(end.get("tpcc") for end in each):
        fields["tpcc"] = tpcc = _tpcc([end["tpcc"] for end in each], sum(clients), merged)
        if tpcc["refused"] is not None and merged["outcome"] == "finished":
            fields |= {"outcome": "refused", "exit_code": REFUSED, "message": tpcc["refused"]}
    return fields


def _ledger(each: Sequence[Event]) -> Event:
    pages = sorted((page for ledger in each for page in ledger["clients"]), key=lambda page: page["client"])
    return {**sum_parts(each, ("acknowledged", "unknown", "refused")), "clients": pages}


def _statements(each: Sequence[Event], clients: Sequence[int], merged: Event) -> Event:
    latency = merged["latency_ns"]
    parts = [(count, part["fairness"]) for count, part in zip(clients, each, strict=True)]
    total = sum(clients)
    mean = sum(count * part["mean"] for count, part in parts) / total
    squares = sum(count * (part["stddev"] ** 2 + part["mean"] ** 2) for count, part in parts) / total
    return {
        **sum_parts(each, _STATEMENTS),
        "p95_ns": latency["p95"] if latency else 0,
        "fairness": {
            "mean": mean,
            "stddev": sqrt(max(0.0, squares - mean * mean)),
            "min": min(part["min"] for _, part in parts),
            "max": max(part["max"] for _, part in parts),
        },
    }


# ---- outages


def _outages(all_: Sequence[tuple[int, Event]], generators: int) -> list[Event]:
    """Merge stretches in which a client of any generator was disconnected; adjacent ones become one.

    Each of `all_` has the number of its generator.
    """
    groups: list[list[tuple[int, Event]]] = []
    until = 0.0
    for number, outage in sorted(all_, key=lambda each: each[1]["began_us"]):
        if not groups or outage["began_us"] > until + TOGETHER_US:
            groups.append([])
        groups[-1].append((number, outage))
        until = max(until, _ended_us(outage)) if len(groups[-1]) > 1 else _ended_us(outage)
    return [_outage(number, group, generators) for number, group in enumerate(groups, start=1)]


def _ended_us(outage: Event) -> float:
    return float("inf") if outage["length_us"] is None else outage["began_us"] + outage["length_us"]


def _outage(number: int, parts: Sequence[tuple[int, Event]], generators: int) -> Event:
    group = [outage for _, outage in parts]
    # a generator's clients may be lost in several of its outages
    most: dict[int, int] = {}
    for generator, outage in parts:
        most[generator] = max(most.get(generator, 0), outage["clients"])
    began_us = group[0]["began_us"]
    ended_us = max(map(_ended_us, group))
    successes = [each["began_us"] + each["first_success_us"] for each in group if each["first_success_us"] is not None]
    away = _stretches_all_away(group, generators)
    return {
        **group[0],
        **sum_parts(group, _OF_OUTAGE),
        "number": number,
        "clients": sum(most.values()),
        "length_us": None if ended_us == float("inf") else ended_us - began_us,
        "first_success_us": min(successes) - began_us if successes else None,
        "all_away_in_us": away,
        "all_away_us": sum(to - since for since, to in away),
    }


def _stretches_all_away(group: Sequence[Event], generators: int) -> list[list[int]]:
    # at the same time, the end of a stretch comes before the begin of another
    edges = sorted(edge for each in group for since, to in each["all_away_in_us"] for edge in ((since, 1), (to, -1)))
    stretches: list[list[int]] = []
    away, since = 0, 0
    for at, change in edges:
        if away + change == generators:
            since = at
        elif away == generators and at > since:
            stretches.append([since, at])
        away += change
    return stretches


# ---- TPC-C


def _tpcc(each: Sequence[Event], clients: int, merged: Event) -> Event:
    types = [list(same) for same in zip(*(part["types"] for part in each), strict=True)]
    total = sum(one["count"] for same in types for one in same)
    scripts = {script["script"]: script for script in merged["scripts"]}
    mix = [_share(same, total, clients) for same in zip(*(part["mix"] for part in each), strict=True)]
    orders = sum_parts([part["new_orders"] for part in each], ("committed", "rolled_back"))
    minutes = merged["measured_s"] / 60
    is_one = all(part["mix_is_one"] for part in each) and total > 0
    return {
        **each[0],
        "nopm": orders["committed"] / minutes if minutes > 0 else 0.0,
        "tpm": total / minutes if minutes > 0 else 0.0,
        "server": _part_with_orders([part["server"] for part in each]),
        "new_orders": orders,
        "types": [_type(same, total, scripts) for same in types],
        "mix": mix,
        "refused": _refusal(mix) if is_one else None,
        "deferred": _merge_deferred([part["deferred"] for part in each]) if each[0]["deferred"] else None,
    }


def _part_with_orders(each: Sequence[Event]) -> Event:
    counted = [one for one in each if "new_orders" in one]
    return max(counted, key=lambda one: (one["new_orders"], one["seconds"]), default=each[0])


def _type(same: Sequence[Event], total: int, scripts: dict[int, Event]) -> Event:
    count = sum(one["count"] for one in same)
    own = [scripts[script] for script in same[0]["scripts"] if script in scripts]
    histograms = [script.get("histogram") for script in own]
    p90_ns = _p90_ns(histograms, [script["latency_ns"] for script in own if script.get("latency_ns")])
    return {**same[0], "count": count, "percent": 100 * count / max(total, 1), "p90_ns": p90_ns}


def _p90_ns(histograms: Sequence[str | None], latencies: Sequence[Event] = ()) -> int | None:
    merged = merge([each for each in histograms if each])
    if merged is None or merged.count == 0:
        return None
    least = min((each["min"] for each in latencies), default=None)
    most = max((each["max"] for each in latencies), default=None)
    return merged.with_bounds(least, most).percentile_ns(90)


def _share(same: Sequence[Event], total: int, clients: int) -> Event:
    count, asked = sum(one["count"] for one in same), same[0]["asked_percent"] / 100
    share = count / max(total, 1)
    allowed = _DEVIATIONS * sqrt(asked * (1 - asked) / max(total, 1)) + clients / max(total, 1)
    chance = [100 * min(max(each, 0.0), 1.0) for each in (asked - allowed, asked + allowed)]
    percent = 100 * share
    found = {"count": count, "percent": percent, "chance_percent": chance}
    return {**same[0], **found, "as_asked": chance[0] <= percent <= chance[1]}


def _refusal(mix: Sequence[Event]) -> str | None:
    wrong = [
        f"{one['name']} {one['percent']:.2f} % of all, asked {one['asked_percent']:.2f} % (chance explains "
        f"{one['chance_percent'][0]:.2f} to {one['chance_percent'][1]:.2f} %)"
        for one in mix
        if not one["as_asked"]
    ]
    return f"the mix is not the one asked for: {'; '.join(wrong)}" if wrong else None


def _merge_deferred(each: Sequence[Event]) -> dict[str, Any]:
    sums = sum_parts(each, ("sessions", "done", "failed", "left", "skipped_districts"))
    skipped = 100 * sums["skipped_districts"] / max(sums["done"] * DISTRICTS, 1)
    own = {"p90_ns": _p90_ns([part["histogram"] for part in each]), "skipped_percent": skipped, "histogram": None}
    return {**each[0], **sums, **own}
