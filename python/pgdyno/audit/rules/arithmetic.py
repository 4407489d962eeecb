"""Figures against their own inputs: rates from counts, sums of statements, orders of latencies, equations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from pgdyno.audit.finding import Evidence, Rule, Said, Severity
from pgdyno.audit.subject import Sample, Subject

RATE_TOLERANCE = 0.005
"""The length of a trial is printed rounded, or as asked for: pgbench ends a little after -T."""
SUM_TOLERANCE = 0.05
ORDER_TOLERANCE = 0.02
"""Percentiles are bounds of histogram buckets, so that one of few transactions may stand above the largest latency:
sysbench's buckets are 1.8 % wide."""
_RISING = ("latency_min_ms", "latency_p50_ms", "latency_p95_ms", "latency_p99_ms", "latency_max_ms")


def _check(subject: Subject) -> Iterator[Said]:
    yield from _rates(subject)
    yield from _sums(subject)
    yield from _orders(subject)
    yield from _claims(subject)


def _rates(subject: Subject) -> Iterator[Said]:
    off: dict[int, Evidence] = {}
    for sample in subject.samples:
        for name, printed, computed in _computed_rates(sample):
            if abs(printed / computed - 1) > RATE_TOLERANCE:
                figures: dict[str, float | str] = {name: printed, f"{name}_from_counts": round(computed, 3)}
                off[sample.number] = Evidence(at=sample.at(name), figures=figures)
    if off:
        yield Said(
            Severity.CAUTION,
            f"rates of {len(off)} trials are not their counts over their seconds",
            list(off),
            list(off.values()),
            "ask which of count, length and rate is wrong",
        )


def _computed_rates(sample: Sample) -> Iterator[tuple[str, float, float]]:
    figures = sample.figures
    duration_s = figures.get("duration_s", 0.0)
    if duration_s <= 0:
        return
    if figures.get("transactions") and "tps" in figures:
        yield "tps", figures["tps"], figures["transactions"] / duration_s
    if "qps" in figures and all(name in figures for name in ("reads", "writes", "others")):
        yield "qps", figures["qps"], sum(figures[name] for name in ("reads", "writes", "others")) / duration_s


def _sums(subject: Subject) -> Iterator[Said]:
    for sample in subject.samples:
        mean_ms = sample.figures.get("latency_mean_ms")
        means = [row.latency_mean_ns for row in subject.statements(sample.number)]
        if not subject.imported or not means or mean_ms is None or sample.is_open:
            continue
        sum_ms = sum(mean for mean in means if mean is not None) / 1e6
        if abs(sum_ms / mean_ms - 1) > SUM_TOLERANCE:
            yield Said(
                Severity.CAUTION,
                f"statements take {sum_ms:.3f} ms together, and transactions {mean_ms:.3f} ms",
                [sample.number],
                [Evidence(at=sample.at(), figures={"sum_ms": round(sum_ms, 3), "latency_mean_ms": mean_ms})],
                "look for statements that are missing, or for another trial's table",
            )


def _orders(subject: Subject) -> Iterator[Said]:
    wrong = []
    for sample in subject.samples:
        known = [sample.figures[name] for name in _RISING if name in sample.figures]
        mean, least = sample.figures.get("latency_mean_ms"), sample.figures.get("latency_min_ms")
        most = sample.figures.get("latency_max_ms")
        pairs = [*pairwise(known), (least, mean), (mean, most)]
        if any(_falls(low, high) for low, high in pairs):
            wrong.append(sample)
    if wrong:
        yield Said(
            Severity.INVALID,
            f"latencies of {len(wrong)} trials are not in order: least, median, percentiles, largest",
            [sample.number for sample in wrong],
            [
                Evidence(at=sample.at("latency_mean_ms"), figures=sample.some("latency_mean_ms", *_RISING))
                for sample in wrong
            ],
            "the columns are mixed up, or the figures are of several trials",
        )


def _falls(low: float | None, high: float | None) -> bool:
    return low is not None and high is not None and high < low * (1 - ORDER_TOLERANCE)


def _claims(subject: Subject) -> Iterator[Said]:
    for claim in subject.manifest.imported.claims if subject.manifest.imported is not None else ():
        if abs(claim.printed - claim.computed) > 0.5 * 10.0**-claim.decimals + 1e-9:
            exact = f"{claim.computed:.{claim.decimals + 2}f}"
            yield Said(
                Severity.CAUTION,
                f"an equation is printed as {claim.printed:.{claim.decimals}f}, and its own inputs give {exact}",
                (),
                [Evidence(at=f"{claim.file}:{claim.line}", figures={"printed": claim.printed, "text": claim.text})],
                "use what the inputs give",
            )


RULE = Rule(
    "arithmetic",
    "rates = counts / seconds within 0.5 %; statements of a transaction sum up to it within 5 %; "
    "least ≤ median ≤ percentiles ≤ largest, within a histogram bucket (2 %); "
    "printed equations against their own inputs, to the last printed digit",
    Severity.INVALID,
    "docs/design/method.md, Gates",
    _check,
)
