"""Clients against throughput times latency."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, Said, Severity
from pgdyno.audit.subject import Sample, Subject

TOLERANCE = 0.02
FAR = 0.10
"""Further off than this, and one of the three figures is not what it is called."""


def _check(subject: Subject) -> Iterator[Said]:
    ratios = [(sample, ratio) for sample in subject.samples if (ratio := _ratio(sample)) is not None]
    if not ratios:
        raise MissingError("clients, throughput and mean latency are not all told")
    for severity in (Severity.INVALID, Severity.CAUTION):
        off = [(sample, ratio) for sample, ratio in ratios if _severity(sample, ratio) is severity]
        if not off:
            continue
        low, high = min(ratio for _, ratio in off), max(ratio for _, ratio in off)
        spread = f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"
        yield Said(
            severity,
            f"throughput x mean latency is {spread} times the clients in {len(off)} of {len(ratios)} trials: "
            "clients, throughput and latency are not of the same load",
            [sample.number for sample, _ in off],
            [_evidence(sample, ratio) for sample, ratio in off],
            "find out which figure is another trial's, or what clients wait for outside of a transaction",
        )


def _ratio(sample: Sample) -> float | None:
    mean_ms = sample.figures.get("latency_mean_ms")
    if not sample.clients or sample.is_open or mean_ms is None or sample.summary.tps <= 0:
        return None
    return sample.summary.tps * mean_ms / 1000 / sample.clients


def _severity(sample: Sample, ratio: float) -> Severity | None:
    off = abs(ratio - 1)
    # a mean of three printed decimals, and transactions that the ends of the trial cut
    rounding = 0.0005 / sample.figures["latency_mean_ms"] if sample.trial.imported is not None else 0.0
    cut = sample.figures["latency_mean_ms"] / 1000 / sample.length_s if sample.length_s else 0.0
    if off <= TOLERANCE + rounding + cut:
        return None
    return Severity.INVALID if off > FAR else Severity.CAUTION


def _evidence(sample: Sample, ratio: float) -> Evidence:
    figures = sample.some("tps", "latency_mean_ms") | {"clients": sample.clients}
    return Evidence(at=sample.at("tps"), figures=figures | {"busy_clients": round(ratio * sample.clients, 2)})


RULE = Rule(
    "littles-law",
    "closed loop: throughput x mean latency = clients, within 2 % and what printing and a trial's ends round off; "
    "invalid from 10 %",
    Severity.INVALID,
    "J. D. C. Little, A Proof for the Queuing Formula L = λW, Operations Research 9 (1961); docs/design/method.md",
    _check,
)
