"""Detects warm-up runs by their length: a first, short run of the same command."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from pgdyno.importers.found import Output

SHORT = 0.25
"""A first run is a warm-up if its length is at most this share of the length of all that follow."""


def mark_short_first(outputs: Sequence[Output]) -> None:
    """Mark the first of outputs that no text separates, if it alone is short and all others have equal lengths."""
    for _, group in groupby(outputs, key=_alike):
        run = list(group)
        lengths = [output.duration_s or output.transactions_per_client or 0.0 for output in run]
        if len(run) < 2 or run[0].tool != "pgbench" or len(set(lengths[1:])) != 1:
            continue
        if 0 < lengths[0] <= SHORT * lengths[1]:
            run[0].warmup = run[0].warmup or f"the first, and {lengths[0] / lengths[1]:.0%} as long as the next"


def _alike(output: Output) -> tuple[object, ...]:
    return (
        output.tool, output.place, output.section, output.workload, output.scale, output.clients, output.workers,
        output.protocol, output.rate, output.server, output.options, tuple(sorted(output.variables.items())),
    )  # fmt: skip
