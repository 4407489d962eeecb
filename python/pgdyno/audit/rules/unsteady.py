"""Throughput that swings within a trial, so that its mean depends on where it was cut."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, Said, Severity
from pgdyno.audit.subject import Sample, Subject

WINDOW_S = 10.0
"""Swings are looked at in windows of at least this; shorter ones are noise."""
FEWEST = 3
LOW_SHARE = 0.75
"""A window under this share of the best one is a swing."""


def _check(subject: Subject) -> Iterator[Said]:
    ranges = [(sample, found) for sample in subject.samples if (found := _range(subject, sample)) is not None]
    if not ranges:
        raise MissingError(f"no trial tells its course over {FEWEST} windows of {WINDOW_S:.0f} s or more")
    swinging = [(sample, found) for sample, found in ranges if found[0] < LOW_SHARE * found[1]]
    if swinging:
        share = min(low / high for _, (low, high) in swinging)
        yield Said(
            Severity.CAUTION,
            f"throughput of {len(swinging)} of {len(ranges)} trials swings: the slowest {WINDOW_S:.0f} s have down to "
            f"{share:.0%} of the fastest, so the mean depends on the trial's length",
            [sample.number for sample, _ in swinging],
            [
                Evidence(at=sample.at(), figures={"slowest_tps": round(low, 1), "fastest_tps": round(high, 1)})
                for sample, (low, high) in swinging
            ],
            "measure several of the cycles, of the same length at all targets, and compare only those",
        )


def _range(subject: Subject, sample: Sample) -> tuple[float, float] | None:
    """Slowest and fastest window."""
    rates, succeeded, length_us = [], 0, 0
    by_second: dict[int, list[int]] = {}
    for row in subject.intervals(sample.number):
        if row.phase == "measure":
            counts = by_second.setdefault(row.second, [0, row.to_us - row.from_us])
            counts[0] += row.succeeded
    for count, took_us in by_second.values():
        succeeded, length_us = succeeded + count, length_us + took_us
        if length_us >= (WINDOW_S - 0.5) * 1e6:
            rates.append(succeeded / (length_us / 1e6))
            succeeded, length_us = 0, 0
    known = [rate for rate in rates if math.isfinite(rate)]
    return (min(known), max(known)) if len(known) >= FEWEST else None


RULE = Rule(
    "unsteady",
    "windows of 10 s of a trial's course: the slowest under 75 % of the fastest",
    Severity.CAUTION,
    "docs/design/method.md, Warm-up and steady state",
    _check,
)
