"""Ranks runs that can be compared, with ties, and says why the others stand apart.

Runs are one group if the fingerprint package finds no difference that refuses their comparison, and none that
confounds it except the server's version and settings, which are what is ranked. A place is claimed only where intervals
do not overlap: in a group of n runs, each has the level 1 - 0.05 / n, so that with 95 % confidence all contain the true
means, and every order that they show is right (Bonferroni). Differences below 1 % count as none, and a run with fewer
than six repeats has no interval, as in `analyse.comparison`.
"""

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgdyno.analyse.intervals import CONFIDENCE, t_quantile
from pgdyno.fingerprint import Weight, comparable
from pgdyno.fingerprint.differences import Difference, topic_of
from pgdyno.publish.run_entry import Entry

RANKED = ("version", "version_full", "configure", "built", "settings_changed", "data_checksums", "pooler")
"""Fields of a server's fingerprint that runs of one group may differ in."""
NAMED = 4
"""Topics that a reason names."""


@dataclass(frozen=True, slots=True)
class Ranked:
    entry: Entry
    first: int
    """The best place that the intervals allow; the number of runs that are shown to be better, plus one."""
    last: int
    mean: float
    """Of the logarithms of its figures."""
    half: float | None
    """Half of its interval; None with fewer repeats than a claim needs."""


@dataclass(frozen=True, slots=True)
class Group:
    ranked: Sequence[Ranked]
    """By place; those of one place, newest first."""
    differing: Sequence[str]
    """The settings in which its runs differ."""

    @property
    def has_order(self) -> bool:
        return any(each.last - each.first + 1 < len(self.ranked) for each in self.ranked)


@dataclass(frozen=True, slots=True)
class Ranking:
    groups: Sequence[Group]
    """Largest first."""
    unranked: Sequence[tuple[Entry, str]]
    """Runs that have no place, newest first, with the reason."""


def ranking(entries: Sequence[Entry]) -> Ranking:
    """Return every run of `entries`, which are newest first, with its place or the reason why it has none."""
    alike: dict[tuple[str, str], list[list[Entry]]] = defaultdict(list)
    unranked = {each.name: each.problem or each.alone for each in entries if each.problem or each.alone}
    for each in entries:
        if each.name not in unranked:
            clusters = alike[each.points, each.fingerprint]
            fitting = next((of for of in clusters if not _hindrances(of[0], each)), None)
            if fitting is None:
                clusters.append([each])
            else:
                fitting.append(each)
    every = sorted((of for clusters in alike.values() for of in clusters), key=len, reverse=True)
    for (each,) in (of for of in every if len(of) == 1):
        unranked[each.name] = _reason(each, next((of[0] for of in every if _is_other(of[0], each)), None))
    groups = [Group(_ranked(of), list(_differing(of))) for of in every if len(of) > 1]
    return Ranking(groups, [(each, unranked[each.name]) for each in entries if each.name in unranked])


def _is_other(a: Entry, b: Entry) -> bool:
    return a is not b and a.points == b.points


def _reason(entry: Entry, other: Entry | None) -> str:
    if other is None:
        return "no other run measured the same points with the same load"
    topics = list(dict.fromkeys(topic_of(each.field) for each in _hindrances(other, entry)))
    more = f" and {len(topics) - NAMED} more" if len(topics) > NAMED else ""
    return f"differs from {other.run} in {', '.join(topics[:NAMED])}{more}"


def _hindrances(a: Entry, b: Entry) -> list[Difference]:
    assert a.print is not None
    assert b.print is not None
    weights = (Weight.REFUSED, Weight.CONFOUNDER)
    return [each for each in comparable(a.print, b.print) if each.severity in weights and not _is_ranked(each.field)]


def _is_ranked(field: str) -> bool:
    parts = field.split(".")
    return parts[0] == "servers" and len(parts) > 2 and parts[2] in RANKED


def _differing(entries: Sequence[Entry]) -> Iterator[str]:
    for name in sorted({name for each in entries for name in each.settings}):
        if len({each.settings.get(name) for each in entries}) > 1:
            yield name


def _ranked(entries: Sequence[Entry]) -> list[Ranked]:
    sign, least = entries[0].metric.sign, math.log1p(entries[0].metric.least_delta)
    fewest = entries[0].metric.fewest_pairs
    means = [math.fsum(each.logs) / len(each.logs) for each in entries]
    halves = [
        _half(each.logs, mean, len(entries)) if each.by_instance or len(each.logs) >= fewest else None
        for each, mean in zip(entries, means, strict=True)
    ]
    ends = [
        (-math.inf, math.inf) if half is None else (sign * mean - half, sign * mean + half)
        for mean, half in zip(means, halves, strict=True)
    ]
    lows, highs = sorted(low for low, _ in ends), sorted(high for _, high in ends)
    found = []
    for entry, mean, half, (low, high) in zip(entries, means, halves, ends, strict=True):
        better = len(entries) - bisect_right(lows, high + least)
        worse = bisect_left(highs, low - least)
        found.append(Ranked(entry, 1 + better, len(entries) - worse, mean, half))
    return sorted(found, key=lambda each: (each.first, each.last))


def _half(logs: Sequence[float], mean: float, runs: int) -> float:
    n = len(logs)
    error = math.sqrt(math.fsum((each - mean) ** 2 for each in logs) / (n - 1) / n)
    return t_quantile(1 - (1 - CONFIDENCE) / runs, n - 1) * error
