"""Reports caches whose content differed when trials began, or that were still filling during the measurement."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from pgdyno.analyse.over_time.probe_series import Span
from pgdyno.analyse.over_time.timeline import Timeline
from pgdyno.audit.finding import MissingError, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.rules.generator_on_server import HERE
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message
from pgdyno.store.probe_tables import Metric

PAGE_BYTES = 8192
APART = 0.1
"""Shares of the dataset in a cache that differ by more are different states."""
READ_MS = 0.1
"""Assumed time to read a page from a fast device."""
LEAST_TIME = 0.05
"""Share of the mean latency: reads that take less do not change the figures."""
FALLS_TO = 0.5
"""If the last fifth of a trial reads at most this share of what the first fifth read, a cache was filling."""
SHORTEST_S = 10.0


def _check(subject: Subject) -> Iterator[RuleFinding]:
    shares = {sample: share for sample in subject.samples if (share := _share(sample)) is not None}
    reads = _reads(subject)
    if not shares and not reads:
        raise MissingError(
            Message(
                "no-cache-contents",
                "neither the content of the caches at the start of trials nor the reads during them are known: [reset] "
                "with prewarm records the one, a probe the other",
            )
        )
    by_data: dict[tuple[int | None, tuple[str | None, ...]], dict[Sample, float]] = defaultdict(dict)
    for sample, share in shares.items():
        by_data[subject.data_of(sample)][sample] = share
    for alike in by_data.values():
        low, high = min(alike.values()), max(alike.values())
        if high - low > APART:
            yield RuleFinding(
                Severity.CAUTION,
                Message(
                    "cache-cold-start",
                    "trials began with {low:.0%} to {high:.0%} of the dataset in memory",
                    low=low,
                    high=high,
                ),
                *evidence_of({sample: {"cached_share": round(share, 3)} for sample, share in alike.items()}),
                "to start every trial in the same state, set [reset] prewarm = true, or drop_cache = true",
            )
    filling = [(sample, found) for sample, found in reads if _fills(*found, sample.figures.get("latency_mean_ms"))]
    if filling:
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "cache-cold-filling",
                "caches were still filling in {trials} of {all} trials: a transaction read up to {pages:.2g} pages "
                "from a device at first, and at most half as many at the end",
                trials=len(filling),
                all=len(reads),
                pages=max(first for _, (first, _) in filling),
            ),
            *evidence_of(
                {
                    sample: {"pages_first": round(first, 3), "pages_last": round(last, 3)}
                    for sample, (first, last) in filling
                }
            ),
            "set a longer warm-up, or [reset] prewarm = true",
        )


def _share(sample: Sample) -> float | None:
    prepare = sample.trial.prepare
    shares = (prepare.shared_buffers_share, prepare.page_cache_share) if prepare is not None else ()
    return max((share for share in shares if share is not None), default=None)


def _fills(first: float, last: float, latency_ms: float | None) -> bool:
    return first * READ_MS >= LEAST_TIME * (latency_ms or 0.0) and first > 0 and last <= FALLS_TO * first


MISSED: Metric = ("database", "blocks_read")
READ: Metric = ("paging", "read")


def _reads(subject: Subject) -> list[tuple[Sample, tuple[float, float]]]:
    kinds = {target.name: target.kind for target in subject.manifest.targets}
    reads = []
    for sample in subject.samples:
        timeline = subject.timelines[sample.number]
        spans = _fifths(timeline) if (sample.trial.probe is not None and sample.trial.probe.server) else []
        amounts = subject.amounts_of_fifths(sample.number) if spans else None
        if amounts is not None:
            here = kinds.get(sample.target) in HERE
            first, last = (_pages(each, timeline, span, here=here) for each, span in zip(amounts, spans, strict=True))
            if first is not None and last is not None:
                reads.append((sample, (first, last)))
    return reads


def _fifths(timeline: Timeline) -> list[Span]:
    measured = timeline.measured_part
    if not len(measured) or measured.to_s[-1] - measured.from_s[0] < SHORTEST_S:
        return []
    begin, end = float(measured.from_s[0]), float(measured.to_s[-1])
    fifth = (end - begin) / 5
    return [(begin, begin + fifth), (end - fifth, end)]


def _pages(amounts: Mapping[Metric, float], timeline: Timeline, span: Span, *, here: bool) -> float | None:
    missed, read = amounts.get(MISSED), amounts.get(READ) if here else None
    begin, end = span
    inside = np.minimum(timeline.to_s, end) - np.maximum(timeline.from_s, begin)
    done = float(timeline.tps @ np.maximum(inside, 0.0))
    if missed is None or not done:
        return None
    return min([missed, *([read / PAGE_BYTES] if read is not None else [])]) / done


RULE = Rule(
    "cache-cold",
    "shares of the dataset in memory when trials of one scale began, which should be within 10 points; pages that a "
    "transaction read from a device, which should not halve from the first fifth of a trial to the last if they "
    "take 5 % of its latency (at 0.1 ms per page)",
    Severity.CAUTION,
    "docs/design/method.md, Order; Gates",
    _check,
    place=180,
)
