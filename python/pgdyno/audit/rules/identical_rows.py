"""The same figures under two names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from pgdyno.audit.finding import Evidence, Rule, Said, Severity
from pgdyno.audit.subject import Sample, Subject

MEASURED = (
    "tps", "tps_excluding_connections", "tpm", "nopm", "qps", "reads", "writes", "transactions", "latency_mean_ms",
    "latency_stddev_ms", "latency_min_ms", "latency_max_ms", "latency_p95_ms", "latency_p99_ms",
)  # fmt: skip
"""What a trial measures; what it was told to do is left out."""
CERTAIN = 4
"""So many figures are not alike by chance."""
SEVERAL = 2
"""Rows of fewer figures that two targets must share."""


def _check(subject: Subject) -> Iterator[Said]:
    if not subject.imported:
        # a program wrote them down, and nobody copied
        return
    alike: dict[tuple[str, str], list[tuple[Sample, Sample]]] = {}
    by_figures: dict[tuple[float, ...], list[Sample]] = {}
    for sample in subject.samples:
        by_figures.setdefault((sample.clients, *_measured(sample).values()), []).append(sample)
    for group in by_figures.values():
        for a, b in combinations(group, 2):
            if list(_measured(a)) == list(_measured(b)) and _is_other(a, b):
                alike.setdefault((a.target, b.target), []).append((a, b))
    for (first, second), pairs in alike.items():
        certain = len(_measured(pairs[0][0])) >= CERTAIN
        if certain or len(pairs) >= SEVERAL:
            yield _said(first, second, pairs, certain=certain)


def _measured(sample: Sample) -> Mapping[str, float]:
    return {name: sample.figures[name] for name in MEASURED if name in sample.figures}


def _is_other(a: Sample, b: Sample) -> bool:
    """Another place and another name: one line that two readers took is no copy."""
    return a.at() != b.at() and (a.target != b.target or a.trial.point != b.trial.point)


def _said(first: str, second: str, pairs: list[tuple[Sample, Sample]], *, certain: bool) -> Said:
    clients = ", ".join(str(a.clients) for a, _ in pairs)
    return Said(
        Severity.INVALID if certain else Severity.CAUTION,
        f"{first} and {second} have the same figures at {clients} clients",
        [sample.number for pair in pairs for sample in pair],
        [
            Evidence(at=sample.at(), figures={"target": sample.target, **_measured(sample)})
            for pair in pairs
            for sample in pair
        ],
        "one of them was not measured: leave it out, or ask for the figures themselves",
    )


RULE = Rule(
    "identical-rows",
    "all measured figures of two imported trials at other targets or points are equal: invalid with four figures or "
    "more, caution with fewer in at least two rows",
    Severity.INVALID,
    "docs/design/method.md, Gates",
    _check,
)
