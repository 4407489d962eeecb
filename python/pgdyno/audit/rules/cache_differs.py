"""Arms that found unequal shares of their pages in shared buffers."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator

from pgdyno.audit.arms import compared_arms
from pgdyno.audit.finding import Evidence, MissingError, Rule, Said, Severity
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message

APART = 0.02
"""Of the pages that are asked for. A select-only transaction asks for four: two points are 0.08 pages more, and at
0.1 ms a page from a fast device 8 µs, a fifth of a transaction of 40 µs. Trials of two equal servers were
0.1 points apart at most."""


def _check(subject: Subject) -> Iterator[Said]:
    if subject.imported:
        raise MissingError("the source does not report what was found in shared buffers")
    arms = compared_arms(subject)
    by_scale: dict[int | None, dict[str, dict[Sample, float]]] = defaultdict(lambda: defaultdict(dict))
    for name, samples in arms.items():
        for sample in samples:
            share = _hit_share(subject, sample)
            if share is not None:
                by_scale[sample.trial.point.scale][name][sample] = share
    if arms and not any(len(of_scale) > 1 for of_scale in by_scale.values()):
        raise MissingError("no probe counted pages that were found in shared buffers in two arms")
    if _buffers_compared(subject):
        return
    for of_scale in by_scale.values():
        medians = {name: statistics.median(shares.values()) for name, shares in of_scale.items()}
        low, high = min(medians, key=lambda name: medians[name]), max(medians, key=lambda name: medians[name])
        if medians[high] - medians[low] > APART:
            yield Said(
                Severity.CAUTION,
                Message(
                    "cache-differs",
                    "{most:.1%} of the pages were found in shared buffers at {most_at}, and {least:.1%} at {least_at}, "
                    "although shared_buffers is the same",
                    most=medians[high],
                    most_at=high,
                    least=medians[low],
                    least_at=low,
                ),
                [sample.number for name in (low, high) for sample in of_scale[name]],
                [
                    Evidence(at=sample.at(), figures={"arm": name, "hit_share": round(share, 4)})
                    for name in (low, high)
                    for sample, share in of_scale[name].items()
                ],
                "bring both to the same state before each trial ([reset] prewarm = true), and warm up longer",
            )


def _hit_share(subject: Subject, sample: Sample) -> float | None:
    amounts = subject.amounts.get(sample.number, {})
    hit, read = amounts.get(("database", "blocks_hit")), amounts.get(("database", "blocks_read"))
    return hit / (hit + read) if hit is not None and read is not None and hit + read > 0 else None


def _buffers_compared(subject: Subject) -> bool:
    """Whether shared_buffers differs between the arms: its effect on hits is then what is compared."""
    told = {
        target.facts.settings_changed.get("shared_buffers", "default")
        for target in subject.manifest.targets
        if target.facts is not None
    }
    return len(told) > 1 or any("shared_buffers" in sample.trial.point.settings for sample in subject.samples)


RULE = Rule(
    "cache-differs",
    "the share of pages that were found in shared buffers in the measured part, by arm at the same scale: medians over "
    "2 points apart where shared_buffers is the same (two equal servers: 0.1)",
    Severity.CAUTION,
    "https://www.postgresql.org/docs/current/monitoring-stats.html, pg_stat_database",
    _check,
)
