"""The probe's lines sorted into seconds, and figures of several seconds together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Line = dict[str, Any]
US = 1e6
LATE_S = 0.5
"""How long after a second's end its samples may arrive."""
SILENT_S = 4.0
"""After this long without an answer, a server counts as away, even if its connection exists."""


class Row(NamedTuple):
    span_s: float | None
    labels: Mapping[str, str]
    values: Mapping[str, float]


@dataclass(slots=True)
class Bucket:
    """A second, and what was reported about it."""

    at_s: float
    """End of the second by this host's clock, since 1970."""
    waits: list[Sequence[Line]] = field(default_factory=list)
    """The rows of each sample of active sessions."""
    samples: dict[str, list[Row]] = field(default_factory=dict)
    blockers: Sequence[Line] = ()
    sessions: Sequence[Line] | None = None
    away: str | None = None
    """Why the server is not reachable; None if it is."""

    def add(self, source: str, rows: Sequence[Row]) -> None:
        self.samples.setdefault(source, []).extend(rows)


@dataclass(slots=True)
class Fold:
    """Sorts a probe's lines into seconds."""

    notes: list[str] = field(default_factory=list)
    """Missing data, each reported once; the view removes what it has displayed."""
    version: str = ""
    _open: dict[int, Bucket] = field(default_factory=dict)
    _origin_s: float | None = None
    _next: int = 1
    _away: str | None = "no session yet"
    _last_line_us: int = 0
    _said: set[str] = field(default_factory=set)

    def started_anew(self) -> None:
        """Prepare for the lines of another probe."""
        self._open.clear()
        self._origin_s, self._next, self._last_line_us = None, 1, 0
        self._away = self._away or "no session yet"

    def take(self, line: Line) -> None:
        event, t_us = line.get("event"), line.get("t_us", 0)
        if event == "start":
            self._origin_s = (line["wall_us"] - t_us) / US
        elif event == "connected":
            self.version, self._away, self._last_line_us = str(line["server_version"]), None, t_us
        elif event in ("warning", "gap"):
            self._take_problem(line["source"], str(line["message"]), line.get("reason"), is_gap=event == "gap")
        elif event == "waits":
            self._bucket(int(t_us // US) + 1).waits.append(line["rows"])
            self._last_line_us = t_us
        elif event == "blockers":
            self._bucket(round(t_us / US)).blockers = line["rows"]
        elif event == "sample":
            span_s = line["span_us"] / US if line.get("span_us") else None
            rows = [Row(span_s, row.get("labels") or {}, row["values"]) for row in line["rows"]]
            self._bucket(round(t_us / US)).add(line["source"], rows)

    def record_poll(self, counters: Row | None, sessions: Sequence[Line]) -> None:
        """Record the increase of counters, None if it is unknown, and current sessions."""
        if self._origin_s is not None and self._next in self._open:
            self._open[self._next].sessions = sessions
            self._open[self._next].add("databases", [] if counters is None else [counters])

    def note(self, text: str) -> None:
        """Add a note, if it is new."""
        if text not in self._said:
            self._said.add(text)
            self.notes.append(text)

    def finished(self, now_s: float) -> list[Bucket]:
        """Return the seconds that are complete `now_s` after the probe's start, oldest first."""
        done = []
        while self._origin_s is not None and now_s >= self._next + LATE_S:
            bucket = self._bucket(self._next)
            del self._open[self._next]
            silent_s = self._next - self._last_line_us / US
            bucket.away = self._away or (f"no answer for {silent_s:.0f} s" if silent_s > SILENT_S else None)
            done.append(bucket)
            self._next += 1
            self._bucket(self._next)
        return done

    def _take_problem(self, source: str, message: str, reason: str | None, *, is_gap: bool) -> None:
        if source == "server" and (not is_gap or reason == "session_lost"):
            self._away = message
        elif not is_gap and reason != "server_down":
            self.note(f"{source}: {message}")

    def _bucket(self, number: int) -> Bucket:
        # keep a sample that is too late for its second
        number = max(number, self._next)
        return self._open.setdefault(number, Bucket((self._origin_s or 0.0) + number))


def rows_of(buckets: Sequence[Bucket], source: str) -> list[Row]:
    return [row for bucket in buckets for row in bucket.samples.get(source, ())]


def rate(rows: Sequence[Row], metric: str) -> float | None:
    """Return an amount per second; None if it was not sampled over a span.

    A row without it says nothing: the server does not have it, or its counter was reset meanwhile.
    """
    spans = [(row.values[metric], row.span_s) for row in rows if row.span_s and metric in row.values]
    return sum(amount for amount, _ in spans) / sum(span_s for _, span_s in spans) if spans else None


def average(rows: Sequence[Row], metric: str) -> float | None:
    """Return the time-weighted average of a share or a number; None as for `rate`."""
    return _weighted_mean((row.values[metric], row.span_s) for row in rows if row.span_s and metric in row.values)


def mean(rows: Sequence[Row], metric: str, number: str) -> float | None:
    """Return a mean weighted by the number of occurrences, the metric `number`."""
    return _weighted_mean((row.values[metric], row.values.get(number, 0.0)) for row in rows if metric in row.values)


def _weighted_mean(pairs: Iterable[tuple[float, float]]) -> float | None:
    known = list(pairs)
    weight = sum(each for _, each in known)
    return sum(value * each for value, each in known) / weight if weight else None


def last(rows: Sequence[Row], metric: str) -> float | None:
    return next((row.values[metric] for row in reversed(rows) if metric in row.values), None)


def by_label(rows: Sequence[Row], label: str) -> dict[str, list[Row]]:
    """Return rows by the value of one of their labels, in order of appearance."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.labels.get(label, ""), []).append(row)
    return groups


def active(buckets: Sequence[Bucket], key: Callable[[Line], str | None]) -> Mapping[str, float] | None:
    """Return average active sessions by `key`, most first, without a key of None. None without a sample."""
    looks = [rows for bucket in buckets for rows in bucket.waits]
    sums: Counter[str] = Counter()
    for row in (row for rows in looks for row in rows):
        name = key(row)
        if name is not None:
            sums[name] += row["sessions"]
    return {name: sessions / len(looks) for name, sessions in sums.most_common()} if looks else None
