"""Checks that a plan measures what it promises."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdyno.errors import Problem
from pgdyno.plan.plan_document import Document, KeyPath
from pgdyno.plan.workload_schema import Workload
from pgdyno.records.promise import parse_promise


def check_promises(
    path: KeyPath, promises: Sequence[str], workload: Workload | None, document: Document, *, has_rate: bool
) -> Iterator[Problem]:
    """Yield problems of `promises`, which the plan has at `path`; `has_rate`: some of their load is an open loop."""
    if promises and document.data.get("search") is not None:
        hint = "remove it; search.latency is the promise of a search for a capacity, a cheapest target or settings"
        yield document.problem(path, "cannot be combined with a search, which also tries points that break it", hint)
        return
    for place, text in enumerate(promises):
        at: KeyPath = (*path, place) if isinstance(document.at(path), list) else path
        if workload is not None and workload.runs_once:
            message = f"{text!r} is on a stream of transactions, and this workload runs each query once"
            yield document.problem(at, message, "remove it")
        elif parse_promise(text).figure == "rate" and not has_rate:
            hint = 'set sweep.rate, or promise a throughput: "tps >= 500"'
            yield document.problem(at, f"{text!r} needs a rate, and the load is a closed loop", hint)
