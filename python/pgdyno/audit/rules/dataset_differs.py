"""Reports datasets whose sizes differ at the same scale."""

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping

from pgdyno.audit.arms import compared_arms
from pgdyno.audit.finding import MissingError, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message
from pgdyno.units import format_size

APART = 1.05
"""The same load always yields the same pages (pgbench's tables were equal to the byte in 12 trials of two servers). A
dataset that is a twentieth larger is bloated, was loaded differently, or has other indexes; a smaller share of it fits
into the caches.
"""
_EVER_US = 10**12
"""The probe reads sizes when it begins, before the load and its warm-up, and then every 10 s."""
_AGAIN_US = 11_000_000
_SIZES = (("relations", "size"), ("relations", "indexes"))


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if subject.imported:
        raise MissingError(Message("no-dataset-size", "the source does not report the size of the dataset"))
    sizes = _sizes(subject)
    by_data: dict[tuple[int | None, object], dict[str, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    arms = compared_arms(subject)
    for name, samples in arms.items():
        for sample in samples:
            if sample.number in sizes:
                by_data[subject.data_of(sample)][name].append(sample)
    if arms and not any(len(of_data) > 1 for of_data in by_data.values()):
        raise MissingError(Message("few-dataset-sizes", "the size of the dataset is unknown in two arms"))
    for (scale, _), of_data in by_data.items():
        medians = {name: statistics.median(sizes[each.number] for each in of) for name, of in of_data.items()}
        low, high = min(medians, key=lambda name: medians[name]), max(medians, key=lambda name: medians[name])
        if medians[high] > APART * medians[low]:
            least, most = (format_size(round(medians[name])) for name in (low, high))
            yield RuleFinding(
                Severity.CAUTION,
                Message(
                    "dataset-differs",
                    "at scale {scale}, the dataset has {least} at {least_at} and {most} at {most_at}"
                    if scale
                    else "the dataset has {least} at {least_at} and {most} at {most_at}",
                    scale=scale or 0,
                    least=least,
                    least_at=low,
                    most=most,
                    most_at=high,
                ),
                *evidence_of(
                    {
                        sample: {"arm": name, "dataset_bytes": sizes[sample.number]}
                        for name in (low, high)
                        for sample in of_data[name]
                    }
                ),
                'load both in the same way, and restore the data before each trial: reset.method = "template"',
            )


def _sizes(subject: Subject) -> Mapping[int, float]:
    """Return bytes by trial: as read before the trial, otherwise as the probe first read the tables' sizes."""
    asked = {
        sample.number: float(sample.trial.prepare.dataset_bytes)
        for sample in subject.samples
        if sample.trial.prepare is not None and sample.trial.prepare.dataset_bytes is not None
    }
    missing = {number: spans for number, spans in subject.measured.items() if number not in asked}
    stretches = {number: [(-_EVER_US, begin + _AGAIN_US)] for number, [(begin, _)] in missing.items()}
    seen: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for row in subject.run.series_within(stretches, _SIZES):
        seen[row.trial][row.t_us] += row.value
    return {number: size for number, looks in seen.items() if (size := looks[min(looks)])} | asked


RULE = Rule(
    "dataset-differs",
    "the size of the dataset before each trial, by arm at the same scale: medians over 5 % apart",
    Severity.CAUTION,
    "docs/design/method.md, Order",
    _check,
    place=200,
    topic="dataset size",
)
