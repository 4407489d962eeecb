"""Metric families as OpenMetrics text, and latencies as a cumulative histogram."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray
from prometheus_client import Metric
from prometheus_client.openmetrics.exposition import generate_latest

from pgdyno.analyse.histogram import LatencyHistogram, merge

END = b"# EOF\n"
Labels = Mapping[str, str]
Sample = tuple[str, Labels, float, float | None]
"""Suffix of the family's name, labels, value, and its time in seconds since 1970; None: now."""


def text_of(families: Iterable[Metric]) -> Iterator[bytes]:
    """Yield the text of `families` in pieces; those without samples are left out."""
    for family in families:
        if family.samples:
            alone = SimpleNamespace(collect=partial(iter, [family]))
            text: bytes = generate_latest(alone)  # type: ignore[no-untyped-call]
            yield text.removesuffix(END)
    yield END


def with_samples(name: str, kind: str, help_text: str, samples: Iterable[Sample], unit: str = "") -> Metric:
    metric = Metric(name, help_text, kind, unit)
    for suffix, labels, value, at_s in samples:
        metric.add_sample(f"{name}{suffix}", dict(labels), value, timestamp=at_s)
    return metric


_OF_LOADS = {
    "pgdyno_trials": ("counter", "Completed trials.", ""),
    "pgdyno_trial": ("info", "A trial.", ""),
    "pgdyno_phase": ("stateset", "State of the load.", ""),
    "pgdyno_tps": ("gauge", "Transactions per second, in the last second.", ""),
    "pgdyno_transactions": ("counter", "Transactions since the start of the trial.", ""),
    "pgdyno_clients": ("gauge", "Connected clients.", ""),
    "pgdyno_in_flight": ("gauge", "Clients inside a transaction.", ""),
    "pgdyno_latency_seconds": (
        "histogram", "Latency from the intended start; succeeded transactions since the start of the trial.", "seconds",
    ),
    "pgdyno_second_latency_seconds": ("gauge", "Quantiles of the latency within one second.", "seconds"),
    "pgdyno_generator_cpu_seconds": ("counter", "CPU time of the generator's workers.", "seconds"),
    "pgdyno_active_sessions": ("gauge", "Average active sessions.", ""),
}  # fmt: skip
"""Kind, help and unit of each family that does not come from the probe's catalogue."""


def family_of(name: str, samples: Iterable[Sample]) -> Metric:
    """Return a family that the probe's catalogue does not have."""
    kind, help_text, unit = _OF_LOADS[name]
    return with_samples(name, kind, help_text, samples, unit)


BOUNDS_S = tuple(step * 10.0**power for power in range(-5, 2) for step in (1, 2, 5))
"""Bounds of buckets: from 10 µs to 50 s, three per decade."""
_BOUNDS_NS = np.array([round(bound * 1e9) for bound in BOUNDS_S], dtype=np.int64)


@dataclass(slots=True)
class Buckets:
    """Cumulative counts up to each bound, since the trial's start."""

    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(BOUNDS_S), dtype=np.int64))
    count: int = 0
    sum_s: float = 0.0

    def add(self, blob: bytes | str, sum_ns: float) -> None:
        """Add a second. Raises HistogramError."""
        of_second = merge([blob])
        if of_second is not None:
            self.counts += _up_to_bounds(of_second)
            self.count += of_second.count
            self.sum_s += sum_ns / 1e9

    def samples(self, labels: Labels, at_s: float | None) -> Iterator[Sample]:
        for bound, count in zip(BOUNDS_S, self.counts, strict=True):
            yield "_bucket", {**labels, "le": f"{bound:.12g}"}, float(count), at_s
        yield "_bucket", {**labels, "le": "+Inf"}, float(self.count), at_s
        yield "_count", dict(labels), float(self.count), at_s
        yield "_sum", dict(labels), self.sum_s, at_s


def _up_to_bounds(histogram: LatencyHistogram) -> NDArray[np.int64]:
    """Return how many are at most each bound, with the accuracy of an HDR bucket (0.1 %)."""
    reached = np.concatenate([[0], np.cumsum(histogram.counts)])
    # a bucket that contains a bound counts where its highest latency is
    return np.asarray(reached[np.searchsorted(histogram.highest_ns, _BOUNDS_NS, side="right")], dtype=np.int64)
