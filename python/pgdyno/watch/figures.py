"""Figures of some seconds together: rates, shares and averages of what the probe said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from pgdyno.watch.bucket import Bucket, Row, Wait


def rate(rows: Sequence[Row], metric: str) -> float | None:
    """An amount a second; None when nothing of the kind was sampled over a span."""
    spans = [row for row in rows if row.span_s]
    length = sum(row.span_s or 0.0 for row in spans)
    # zeros may be left out of a row, so that a row without the figure says 0
    return sum(row.values.get(metric, 0.0) for row in spans) / length if length else None


def average(rows: Sequence[Row], metric: str) -> float | None:
    """A share or number that holds for a span, averaged over time."""
    spans = [row for row in rows if row.span_s]
    length = sum(row.span_s or 0.0 for row in spans)
    return sum(row.values.get(metric, 0.0) * (row.span_s or 0.0) for row in spans) / length if length else None


def mean(rows: Sequence[Row], metric: str, of: str) -> float | None:
    """A mean of what happened, weighted by how often it did (`of`)."""
    told = [row for row in rows if metric in row.values and row.values.get(of)]
    number = sum(row.values[of] for row in told)
    return sum(row.values[metric] * row.values[of] for row in told) / number if number else None


def last(rows: Sequence[Row], metric: str) -> float | None:
    """A gauge as it was the last time."""
    return next((row.values[metric] for row in reversed(rows) if metric in row.values), None)


def by_label(rows: Sequence[Row], label: str) -> dict[str, list[Row]]:
    """Rows by the value of one of their labels, in order of appearance."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.labels.get(label, ""), []).append(row)
    return groups


def rows_of(buckets: Sequence[Bucket], source: str) -> list[Row]:
    """Rows of a source in all of `buckets`."""
    return [row for bucket in buckets for row in bucket.rows(source)]


def active(
    buckets: Sequence[Bucket], key: Callable[[Wait], str | None] = lambda wait: wait.kind
) -> Mapping[str, float] | None:
    """Average active sessions by `key`, those with the most first; a key of None is left out.

    None when nobody looked.
    """
    looks = sum(bucket.looks for bucket in buckets)
    if not looks:
        return None
    sums: Counter[str] = Counter()
    for bucket in buckets:
        for wait, sessions in bucket.waits.items():
            name = key(wait)
            if name is not None:
                sums[name] += sessions
    return {name: sessions / looks for name, sessions in sums.most_common()}
