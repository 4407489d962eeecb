"""Checks that a plan measures what it promises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pgdyno.errors import Problem
from pgdyno.plan.plan_document import Document, KeyPath
from pgdyno.plan.targets import OwnTarget, TargetSpec
from pgdyno.plan.workload_schema import Workload
from pgdyno.records.promise import OF_FOLLOWERS, parse_promise


def check_promises(
    path: KeyPath,
    promises: Sequence[str],
    workload: Workload | None,
    targets: Mapping[str, TargetSpec],
    document: Document,
    *,
    has_rate: bool,
) -> Iterator[Problem]:
    """Yield problems of `promises`, which the plan has at `path`; `has_rate`: some of their load is an open loop."""
    search = document.data.get("search")
    seeks_capacity = isinstance(search, Mapping) and search.get("find") == "capacity"
    for place, text in enumerate(promises):
        at: KeyPath = (*path, place) if isinstance(document.at(path), list) else path
        figure = parse_promise(text).figure
        if search is not None and not (seeks_capacity and figure in OF_FOLLOWERS):
            hint = "remove it; search.latency is the promise of a search for a capacity, a cheapest target or settings"
            yield document.problem(at, "cannot be combined with a search, which also tries points that break it", hint)
        elif figure in OF_FOLLOWERS:
            yield from _of_followers(at, text, figure, targets, document)
        elif workload is not None and workload.runs_once:
            message = f"{text!r} is on a stream of transactions, and this workload runs each query once"
            yield document.problem(at, message, "remove it")
        elif figure == "rate" and not has_rate:
            hint = 'set sweep.rate, or promise a throughput: "tps >= 500"'
            yield document.problem(at, f"{text!r} needs a rate, and the load is a closed loop", hint)


def _of_followers(
    at: KeyPath, text: str, figure: str, targets: Mapping[str, TargetSpec], document: Document
) -> Iterator[Problem]:
    key, example = ("replicas", "{ count = 1 }") if figure == "lag" else ("archive", '{ rate = "5MB" }')
    for name, target in targets.items():
        follows = isinstance(target, OwnTarget) and (target.follower_count if figure == "lag" else target.archive)
        if not follows:
            hint = f"write {key} = {example} in [target.{name}], of a server that pgdyno starts"
            yield document.problem(at, f"{text!r} is not measured: target {name} has no {key}", hint)
