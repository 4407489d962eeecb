"""What workloads add to an `end`, of several generators: TPC-C, Lua scripts, ledgers, clients that came back."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

from pgdyno.analyse.histogram import merge
from pgdyno.cluster.figures import Event, added

TOGETHER_US = 1_000_000
"""Outages with less than this between them are one, as in the engine."""
MOST_OUTAGES = 1_000
REFUSED = 3
"""Exit code of a load that is no result."""
DISTRICTS = 10
_DEVIATIONS = 5.0
_STATEMENTS = ("reads", "writes", "others", "queries", "ignored_errors", "reconnects")
_LOSSES = ("connections_lost", "reconnects", "failed_attempts")
_OF_OUTAGE = (*_LOSSES, "transactions_lost", "clients_never_back", "clients")


def end_of_workload(each: Sequence[Event], clients: Sequence[int], merged: Event) -> Event:
    """Fields of the `end` of all, by those of `each`, which had so many clients; `merged` is what else it has."""
    fields: Event = {}
    if all(end.get("ledger") for end in each):
        fields["ledger"] = _ledger([end["ledger"] for end in each])
    if all(end.get("statements") for end in each):
        fields["statements"] = _statements([end["statements"] for end in each], clients, merged)
    if all("outages" in end for end in each):
        outages = _outages([outage for end in each for outage in end["outages"]], len(each))
        fields |= added(each, _LOSSES) | {"outage_count": len(outages), "outages": outages[:MOST_OUTAGES]}
    if all(end.get("tpcc") for end in each):
        fields["tpcc"] = tpcc = _tpcc([end["tpcc"] for end in each], sum(clients), merged)
        if tpcc["refused"] is not None and merged["outcome"] == "finished":
            fields |= {"outcome": "refused", "exit_code": REFUSED, "message": tpcc["refused"]}
    return fields


def _ledger(each: Sequence[Event]) -> Event:
    pages = sorted((page for ledger in each for page in ledger["clients"]), key=lambda page: page["client"])
    return {**added(each, ("acknowledged", "unknown", "refused")), "clients": pages}


def _statements(each: Sequence[Event], clients: Sequence[int], merged: Event) -> Event:
    latency = merged["latency_ns"]
    parts = [(count, part["fairness"]) for count, part in zip(clients, each, strict=True)]
    total = sum(clients)
    mean = sum(count * part["mean"] for count, part in parts) / total
    squares = sum(count * (part["stddev"] ** 2 + part["mean"] ** 2) for count, part in parts) / total
    return {
        **added(each, _STATEMENTS),
        "p95_ns": latency["p95"] if latency else 0,
        "fairness": {
            "mean": mean,
            "stddev": sqrt(max(0.0, squares - mean * mean)),
            "min": min(part["min"] for _, part in parts),
            "max": max(part["max"] for _, part in parts),
        },
    }


# ---- outages


def _outages(all_: Sequence[Event], generators: int) -> list[Event]:
    """Stretches in which a client of any generator was away: those that touch are one."""
    groups: list[list[Event]] = []
    until = 0.0
    for outage in sorted(all_, key=lambda outage: outage["began_us"]):
        if not groups or outage["began_us"] > until + TOGETHER_US:
            groups.append([])
        groups[-1].append(outage)
        until = max(until, _ended_us(outage)) if len(groups[-1]) > 1 else _ended_us(outage)
    return [_outage(number, group, generators) for number, group in enumerate(groups, start=1)]


def _ended_us(outage: Event) -> float:
    return float("inf") if outage["length_us"] is None else outage["began_us"] + outage["length_us"]


def _outage(number: int, group: Sequence[Event], generators: int) -> Event:
    began_us = group[0]["began_us"]
    ended_us = max(map(_ended_us, group))
    successes = [each["began_us"] + each["first_success_us"] for each in group if each["first_success_us"] is not None]
    away = _all_away(group, generators)
    return {
        **group[0],
        **added(group, _OF_OUTAGE),
        "number": number,
        "length_us": None if ended_us == float("inf") else ended_us - began_us,
        "first_success_us": min(successes) - began_us if successes else None,
        "all_away_in_us": away,
        "all_away_us": sum(to - since for since, to in away),
    }


def _all_away(group: Sequence[Event], generators: int) -> list[list[int]]:
    """When the clients of all generators were away."""
    # the end of a stretch comes before the begin of another
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
    """As in pgdrive's tpcc/result.rs."""
    types = [list(same) for same in zip(*(part["types"] for part in each), strict=True)]
    total = sum(one["count"] for same in types for one in same)
    scripts = {script["script"]: script for script in merged["scripts"]}
    mix = [_share(same, total, clients) for same in zip(*(part["mix"] for part in each), strict=True)]
    orders = added([part["new_orders"] for part in each], ("committed", "rolled_back"))
    minutes = merged["measured_s"] / 60
    is_one = all(part["mix_is_one"] for part in each) and total > 0
    return {
        **each[0],
        "nopm": orders["committed"] / minutes if minutes > 0 else 0.0,
        "tpm": total / minutes if minutes > 0 else 0.0,
        "server": _counted([part["server"] for part in each]),
        "new_orders": orders,
        "types": [_type(same, total, scripts) for same in types],
        "mix": mix,
        "refused": _refusal(mix) if is_one else None,
        "deferred": _deferred([part["deferred"] for part in each]) if each[0]["deferred"] else None,
    }


def _counted(each: Sequence[Event]) -> Event:
    """By the server itself: who asked it has counted all generators' orders, up to the end of its own part."""
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
    return merged.within(least, most).percentile_ns(90)


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
        f"{one['name']} {one['percent']:.2f} % of all, asked {one['asked_percent']:.2f} % "
        f"(chance explains {one['chance_percent'][0]:.2f} to {one['chance_percent'][1]:.2f} %)"
        for one in mix
        if not one["as_asked"]
    ]
    return f"the mix is not the one asked for: {'; '.join(wrong)}" if wrong else None


def _deferred(each: Sequence[Event]) -> dict[str, Any]:
    sums = added(each, ("sessions", "done", "failed", "left", "skipped_districts"))
    skipped = 100 * sums["skipped_districts"] / max(sums["done"] * DISTRICTS, 1)
    own = {"p90_ns": _p90_ns([part["histogram"] for part in each]), "skipped_percent": skipped, "histogram": None}
    return {**each[0], **sums, **own}
