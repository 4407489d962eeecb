"""Combines figures of several seconds: rates, shares and averages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from pgdyno.watch.bucket import Bucket, Row, Wait


def rate(rows: Sequence[Row], metric: str) -> float | None:
    """Return an amount per second; None if nothing of the kind was sampled over a span."""
    spans = [row for row in rows if row.span_s]
    length = sum(row.span_s or 0.0 for row in spans)
    # zeros may be left out of a row, so that a row without the figure means 0
    return sum(row.values.get(metric, 0.0) for row in spans) / length if length else None


def average(rows: Sequence[Row], metric: str) -> float | None:
    """Return the time-weighted average of a share or a number."""
    spans = [row for row in rows if row.span_s]
    length = sum(row.span_s or 0.0 for row in spans)
    return sum(row.values.get(metric, 0.0) * (row.span_s or 0.0) for row in spans) / length if length else None


def mean(rows: Sequence[Row], metric: str, of: str) -> float | None:
    """Return a mean weighted by the number of occurrences (`of`)."""
    told = [row for row in rows if metric in row.values and row.values.get(of)]
    number = sum(row.values[of] for row in told)
    return sum(row.values[metric] * row.values[of] for row in told) / number if number else None


def last(rows: Sequence[Row], metric: str) -> float | None:
    """Return the last value of a gauge."""
    return next((row.values[metric] for row in reversed(rows) if metric in row.values), None)


def by_label(rows: Sequence[Row], label: str) -> dict[str, list[Row]]:
    """Return rows by the value of one of their labels, in order of appearance."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.labels.get(label, ""), []).append(row)
    return groups


def rows_of(buckets: Sequence[Bucket], source: str) -> list[Row]:
    return [row for bucket in buckets for row in bucket.rows(source)]


def active(
    buckets: Sequence[Bucket], key: Callable[[Wait], str | None] = lambda wait: wait.kind
) -> Mapping[str, float] | None:
    """Return average active sessions by `key`, most first; a key of None is left out.

    None without a sample.
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
