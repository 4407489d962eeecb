"""Reports arms whose hit rates in shared buffers differ."""

import statistics
from collections import defaultdict
from collections.abc import Iterator

from pgdyno.audit.arms import compared_arms
from pgdyno.audit.finding import MissingError, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message

APART = 0.02
"""Share of the requested pages. A select-only transaction requests four: two points are 0.08 pages more, which at 0.1
ms per page from a fast device is 8 µs, a fifth of a transaction of 40 µs. Trials of two equal servers differed by at
most 0.1 points.
"""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if subject.imported:
        raise MissingError(Message("no-buffer-hits", "the source does not report hits in shared buffers"))
    arms = compared_arms(subject)
    by_data: dict[object, dict[str, dict[Sample, float]]] = defaultdict(lambda: defaultdict(dict))
    for name, samples in arms.items():
        for sample in samples:
            share = _hit_share(subject, sample)
            if share is not None:
                by_data[subject.data_of(sample)][name][sample] = share
    if arms and not any(len(of_data) > 1 for of_data in by_data.values()):
        raise MissingError(Message("few-buffer-hits", "no probe counted hits in shared buffers in two arms"))
    if _buffers_compared(subject):
        return
    for of_data in by_data.values():
        medians = {name: statistics.median(shares.values()) for name, shares in of_data.items()}
        low, high = min(medians, key=lambda name: medians[name]), max(medians, key=lambda name: medians[name])
        if medians[high] - medians[low] > APART:
            yield RuleFinding(
                Severity.CAUTION,
                Message(
                    "cache-differs",
                    "the hit rate of shared buffers was {most:.1%} at {most_at}, and {least:.1%} at {least_at}, "
                    "although shared_buffers is the same",
                    most=medians[high],
                    most_at=high,
                    least=medians[low],
                    least_at=low,
                ),
                *evidence_of(
                    {
                        sample: {"arm": name, "hit_share": round(share, 4)}
                        for name in (low, high)
                        for sample, share in of_data[name].items()
                    }
                ),
                "bring both to the same state before each trial ([reset] prewarm = true), and set a longer warm-up",
            )


def _hit_share(subject: Subject, sample: Sample) -> float | None:
    amounts = subject.amounts.get(sample.number, {})
    hit, read = amounts.get(("database", "blocks_hit")), amounts.get(("database", "blocks_read"))
    return hit / (hit + read) if hit is not None and read is not None and hit + read > 0 else None


def _buffers_compared(subject: Subject) -> bool:
    sizes = {
        target.facts.settings_changed.get("shared_buffers", "default")
        for target in subject.manifest.targets
        if target.facts is not None
    }
    return len(sizes) > 1 or any("shared_buffers" in sample.trial.point.settings for sample in subject.samples)


RULE = Rule(
    "cache-differs",
    "the hit rate of shared buffers in the measured part, by arm at the same scale: medians over 2 points apart "
    "although shared_buffers is the same (two equal servers: 0.1)",
    Severity.CAUTION,
    "https://www.postgresql.org/docs/current/monitoring-stats.html, pg_stat_database",
    _check,
    place=190,
    topic="cache contents",
)
