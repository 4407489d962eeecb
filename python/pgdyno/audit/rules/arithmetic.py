"""Checks figures against their own inputs: rates, sums of statements, the order of latencies, equations."""

from collections.abc import Iterator
from itertools import pairwise

from pgdyno.audit.finding import Evidence, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message

RATE_TOLERANCE = 0.005
"""In addition to rounding, the time to connect and the last transaction; see `_allowed_rates`."""
SUM_TOLERANCE = 0.05
INTERVAL_TOLERANCE = 0.001
ORDER_TOLERANCE = 0.02
"""Percentiles are bounds of buckets (of sysbench, 1.8 % wide), and may exceed the largest latency."""
_RISING = ("latency_min_ms", "latency_p50_ms", "latency_p95_ms", "latency_p99_ms", "latency_max_ms")


def _check(subject: Subject) -> Iterator[RuleFinding]:
    yield from _rates(subject)
    yield from _sums(subject)
    yield from _orders(subject)
    yield from _claims(subject)
    yield from _intervals(subject)


def _rates(subject: Subject) -> Iterator[RuleFinding]:
    off: dict[int, Evidence] = {}
    for sample in subject.samples:
        for name, count in _counts(sample):
            printed, (low, high) = sample.figures[name], _allowed_rates(sample, count)
            margin = RATE_TOLERANCE * printed + sample.rounding_error(name)
            if not low - margin <= printed <= high + margin:
                computed = count / sample.figures["duration_s"]
                figures: dict[str, float | str] = {name: printed, f"{name}_from_counts": round(computed, 3)}
                off[sample.number] = Evidence(at=sample.figure_location(name), figures=figures)
    if off:
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "arithmetic-rates",
                "the rates of {trials} trial are not its counts divided by its seconds",
                "the rates of {trials} trials are not their counts divided by their seconds",
                trials=len(off),
            ),
            list(off),
            list(off.values()),
            "find out which of count, length and rate is wrong",
        )


def _intervals(subject: Subject) -> Iterator[RuleFinding]:
    off = {}
    for sample in subject.samples if not subject.imported else ():
        seconds = subject.seconds(sample.number)
        counted, told = int(seconds.succeeded[seconds.is_measured].sum()), sample.summary.succeeded or 0
        # the last transaction of each client may belong to no interval
        if seconds.is_measured.any() and abs(counted - told) > sample.clients + INTERVAL_TOLERANCE * told:
            off[sample] = {"transactions": told, "transactions_of_intervals": counted}
    if off:
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "arithmetic-intervals",
                "the summary of {trials} trial has another number of transactions than its intervals",
                "the summaries of {trials} trials have other numbers of transactions than their intervals",
                trials=len(off),
            ),
            *evidence_of(off, "transactions"),
            "find out who changed the files of the run; measure again",
        )


def _counts(sample: Sample) -> Iterator[tuple[str, float]]:
    figures = sample.figures
    if figures.get("duration_s", 0.0) <= 0:
        return
    # the length contains connecting
    rate = next((name for name in ("tps_including_connections", "tps") if name in figures), None)
    if figures.get("transactions") and rate is not None:
        yield rate, figures["transactions"]
    if "qps" in figures and all(name in figures for name in ("reads", "writes", "others")):
        yield "qps", sum(figures[name] for name in ("reads", "writes", "others"))


def _allowed_rates(sample: Sample, count: float) -> tuple[float, float]:
    """Return the lowest and highest rate that `count` and the trial's length allow.

    pgbench prints the length that was requested (-T). Since version 14, it connects within that time and computes the
    rate without it. The rate covers the time to the end of the last transaction, which begins before the length has
    passed and takes up to the largest latency, or, if that is not printed, about ten times the mean.
    """
    figures = sample.figures
    length_s = figures["duration_s"]
    half_s = sample.rounding_error("duration_s") if sample.tool != "pgbench" else 0.0
    connecting_s = figures.get("connect_ms", 0.0) / 1e3
    drain_s = figures.get("latency_max_ms", 10 * figures.get("latency_mean_ms", 0.0)) / 1e3
    shortest_s = max(length_s - half_s - connecting_s, 0.1 * length_s)
    return count / (length_s + half_s + drain_s), count / shortest_s


def _sums(subject: Subject) -> Iterator[RuleFinding]:
    for sample in subject.samples:
        mean_ms = sample.figures.get("latency_mean_ms")
        rows = subject.statements(sample.number)
        means = [row.latency_mean_ns for row in rows]
        if not subject.imported or not means or mean_ms is None or sample.is_open:
            continue
        # a transaction runs one of several scripts, and executes statements again when it is retried
        if len({row.script for row in rows}) > 1 or sample.summary.retries:
            continue
        sum_ms = sum(mean for mean in means if mean is not None) / 1e6
        rounding_ms = 0.0005 * len(means) + sample.rounding_error("latency_mean_ms")
        if abs(sum_ms - mean_ms) > SUM_TOLERANCE * mean_ms + rounding_ms:
            yield RuleFinding(
                Severity.CAUTION,
                Message(
                    "arithmetic-sum",
                    "statements take {sum_ms:.3f} ms together, and transactions {mean_ms:.3f} ms",
                    sum_ms=sum_ms,
                    mean_ms=mean_ms,
                ),
                [sample.number],
                [
                    Evidence(
                        at=sample.figure_location(), figures={"sum_ms": round(sum_ms, 3), "latency_mean_ms": mean_ms}
                    )
                ],
                "look for missing statements, or for a table of another trial",
            )


def _orders(subject: Subject) -> Iterator[RuleFinding]:
    wrong = []
    for sample in subject.samples:
        known = [name for name in _RISING if name in sample.figures]
        ends = (("latency_min_ms", "latency_mean_ms"), ("latency_mean_ms", "latency_max_ms"))
        if any(_falls(sample, low, high) for low, high in (*pairwise(known), *ends)):
            wrong.append(sample)
    if wrong:
        yield RuleFinding(
            Severity.INVALID,
            Message(
                "arithmetic-order",
                "latencies of {trials} trial are not in order: minimum, median, percentiles, maximum",
                "latencies of {trials} trials are not in order: minimum, median, percentiles, maximum",
                trials=len(wrong),
            ),
            *evidence_of({sample: sample.some("latency_mean_ms", *_RISING) for sample in wrong}, "latency_mean_ms"),
            "the columns are mixed up, or the figures are from several trials",
        )


def _falls(sample: Sample, low: str, high: str) -> bool:
    if low not in sample.figures or high not in sample.figures:
        return False
    rounding = sample.rounding_error(low) + sample.rounding_error(high)
    return sample.figures[high] < sample.figures[low] * (1 - ORDER_TOLERANCE) - rounding


def _claims(subject: Subject) -> Iterator[RuleFinding]:
    for claim in subject.manifest.imported.claims if subject.manifest.imported is not None else ():
        if abs(claim.printed - claim.computed) > 0.5 * 10.0**-claim.decimals + 1e-9:
            exact = f"{claim.computed:.{claim.decimals + 2}f}"
            yield RuleFinding(
                Severity.CAUTION,
                Message(
                    "arithmetic-equation",
                    "an equation is printed as {printed}, but its own inputs give {exact}",
                    printed=f"{claim.printed:.{claim.decimals}f}",
                    exact=exact,
                ),
                (),
                [Evidence(at=f"{claim.file}:{claim.line}", figures={"printed": claim.printed, "text": claim.text})],
                "use the result that the inputs give",
            )


RULE = Rule(
    "arithmetic",
    "rates = counts / seconds, within 0.5 % and an allowance for rounding, pgbench's connection time and the last "
    "transaction; the statements of a transaction add up to it, within 5 %; minimum ≤ median ≤ percentiles ≤ "
    "maximum, within a histogram bucket (2 %); printed equations against their own inputs, to the last printed digit",
    Severity.INVALID,
    "docs/design/method.md, Gates",
    _check,
    place=20,
)
