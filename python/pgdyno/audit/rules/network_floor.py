"""The least latency of targets that are compared: what the network between load and server costs."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, Said, Severity
from pgdyno.audit.subject import Sample, Subject

RATIO, LEAST_MS = 1.5, 0.5
"""Smaller differences come from processors and luck."""
FAR_RATIO, FAR_MS = 2.0, 1.0


def _check(subject: Subject) -> Iterator[Said]:
    floors: dict[str, Sample] = {}
    for target, samples in subject.by_target.items():
        known = [sample for sample in samples if "latency_min_ms" in sample.figures]
        if known:
            floors[target] = min(known, key=_least_ms)
    if not floors:
        raise MissingError("no least latency is told")
    if len(floors) < 2:
        return
    low, high = min(floors.values(), key=_least_ms), max(floors.values(), key=_least_ms)
    ratio, apart_ms = _least_ms(high) / max(_least_ms(low), 1e-6), _least_ms(high) - _least_ms(low)
    if ratio <= RATIO or apart_ms <= LEAST_MS:
        return
    far = ratio > FAR_RATIO and apart_ms > FAR_MS
    round_trips = _round_trips(low)
    each = f", {apart_ms / round_trips:.2f} ms for each of {round_trips:.0f} statements" if round_trips else ""
    near = [target for target, sample in floors.items() if _least_ms(sample) < (_least_ms(low) + apart_ms / 2)]
    yield Said(
        Severity.INVALID if far else Severity.CAUTION,
        f"least latency is {_least_ms(low):.3g} ms at {low.target} and {_least_ms(high):.3g} ms at {high.target}"
        f"{each}: load and server are not equally far from each other; near: {', '.join(near)}; "
        f"far: {', '.join(target for target in floors if target not in near)}",
        [sample.number for samples in subject.by_target.values() for sample in samples],
        [
            Evidence(at=sample.at("latency_min_ms"), figures={"target": target, **sample.some("latency_min_ms")})
            for target, sample in floors.items()
        ],
        "compare only targets of the same floor, or measure again with the load at the same distance",
    )


def _least_ms(sample: Sample) -> float:
    return sample.figures["latency_min_ms"]


def _round_trips(sample: Sample) -> float | None:
    """Statements of a transaction, where both rates are told."""
    if sample.figures.get("tps") and "qps" in sample.figures:
        return round(sample.figures["qps"] / sample.figures["tps"])
    return None


RULE = Rule(
    "network-floor",
    "least latency of each target: caution from 1.5 times and 0.5 ms apart, invalid from 2 times and 1 ms; "
    "a transaction of n statements waits for n round trips",
    Severity.INVALID,
    "docs/design/method.md, Gates",
    _check,
)
