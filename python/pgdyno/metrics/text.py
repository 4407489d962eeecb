"""Formats metric families as OpenMetrics 1.0 text, one by one: a run may have millions of samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

__all__ = ["CONTENT_TYPE_LATEST", "END", "text_of", "with_samples"]

END = b"# EOF\n"
Labels = Mapping[str, str]
Sample = tuple[str, Labels, float, float | None]
"""Suffix of the family's name, labels, value, and its time in seconds since 1970; None: now."""


@dataclass(frozen=True, eq=False)
class _One(Collector):
    metric: Metric

    def collect(self) -> Iterable[Metric]:
        return [self.metric]


def text_of(families: Iterable[Metric]) -> Iterator[bytes]:
    """Yield the text of `families` in pieces; those without samples are left out."""
    for family in families:
        if family.samples:
            registry = CollectorRegistry(auto_describe=False)
            registry.register(_One(family))
            text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
            yield text.removesuffix(END)
    yield END


def with_samples(
    name: str,
    kind: str,
    help_text: str,
    samples: Iterable[Sample],
    unit: str = "",
) -> Metric:
    metric = Metric(name, help_text, kind, unit)
    for suffix, labels, value, at_s in samples:
        metric.add_sample(f"{name}{suffix}", dict(labels), value, timestamp=at_s)
    return metric
