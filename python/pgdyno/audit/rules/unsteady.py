"""Reports throughput that swings within a trial, so that its mean depends on the trial's length."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from pgdyno.audit.finding import MissingError, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message

WINDOW_S = 10.0
"""Least length of the windows in which swings are measured; shorter swings are noise."""
FEWEST = 3
LOW_SHARE = 0.75
"""A window below this share of the best one is a swing."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if (changing := subject.changing_load) is not None:
        raise MissingError(changing)
    ranges = [(sample, found) for sample in subject.samples if (found := _range(subject, sample)) is not None]
    if not ranges:
        raise MissingError(
            Message(
                "few-windows",
                "no trial has figures for {least} windows of at least {window_s:.0f} s",
                least=FEWEST,
                window_s=WINDOW_S,
            )
        )
    swinging = [(sample, found) for sample, found in ranges if found.slowest < LOW_SHARE * found.fastest]
    if swinging:
        worst = min((found for _, found in swinging), key=lambda found: found.slowest / found.fastest)
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "unsteady",
                "throughput of {trials} of {all} trials swings: in one, the slowest {window_s:.0f} s have only "
                "{share:.0%} of the throughput of the fastest, so the mean depends on the trial's length",
                trials=len(swinging),
                all=len(ranges),
                window_s=worst.window_s,
                share=worst.slowest / worst.fastest,
            ),
            *evidence_of(
                {
                    sample: {
                        "slowest_tps": round(found.slowest, 1),
                        "fastest_tps": round(found.fastest, 1),
                        "window_s": round(found.window_s, 1),
                    }
                    for sample, found in swinging
                }
            ),
            "measure several cycles, of the same length at all targets, and compare only those",
        )


@dataclass(frozen=True, slots=True)
class _Range:
    slowest: float
    fastest: float
    window_s: float
    """Length of its longest window: intervals of an import may be longer than WINDOW_S."""


def _range(subject: Subject, sample: Sample) -> _Range | None:
    rates, lengths_us, succeeded, length_us = [], [], 0.0, 0.0
    seconds = subject.seconds(sample.number)
    counts = seconds.succeeded[seconds.is_measured]
    took = (seconds.to_us - seconds.from_us)[seconds.is_measured]
    for count, took_us in zip(counts.tolist(), took.tolist(), strict=True):
        succeeded, length_us = succeeded + count, length_us + took_us
        if length_us >= (WINDOW_S - 0.5) * 1e6:
            rates.append(succeeded / (length_us / 1e6))
            lengths_us.append(length_us)
            succeeded, length_us = 0.0, 0.0
    known = [rate for rate in rates if math.isfinite(rate)]
    return _Range(min(known), max(known), max(lengths_us) / 1e6) if len(known) >= FEWEST else None


RULE = Rule(
    "unsteady",
    "windows of 10 s of a trial, or longer if an import has longer intervals: the slowest under 75 % of the fastest",
    Severity.CAUTION,
    "docs/design/method.md, Warm-up and steady state",
    _check,
    place=240,
    needs_rate=True,
)
