"""The probe's lines sorted into seconds, and figures of several seconds together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pgdyno.watch.polling import Polled

Line = dict[str, Any]
US = 1e6
LATE_S = 0.5
"""How long after a second's end its samples may arrive."""
SILENT_S = 4.0
"""After this long without an answer, a server counts as away, even if its connection exists."""
SESSION_LOST, SERVER_DOWN = "session_lost", "server_down"
"""Reasons of the probe's warnings and gaps."""


class Row(NamedTuple):
    span_s: float | None
    labels: Mapping[str, str]
    values: Mapping[str, float]


@dataclass(slots=True)
class Bucket:
    """A second: what the probe reported, and the counters and sessions at its end."""

    at_s: float
    """End of the second by this host's clock, since 1970."""
    waits: list[Line] = field(default_factory=list)
    """Samples of active sessions."""
    samples: dict[str, list[Row]] = field(default_factory=dict)
    blockers: list[Line] = field(default_factory=list)
    polled: Polled | None = None
    away: str | None = None
    """Why the server is not reachable; None if it is."""


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
        event = line.get("event")
        if event == "start":
            self._origin_s = (line["wall_us"] - line["t_us"]) / US
        elif event == "connected":
            self.version, self._away = str(line["server_version"]), None
            self._last_line_us = line["t_us"]
        elif event in ("warning", "gap"):
            self._problem(line, is_gap=event == "gap")
        elif event in ("waits", "sample", "blockers"):
            self._put(line)

    def polled(self, polled: Polled) -> None:
        """Record current counters and sessions."""
        if self._origin_s is not None and self._next in self._open:
            self._open[self._next].polled = polled

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
            bucket.away = self._away
            if bucket.away is None and silent_s > SILENT_S:
                bucket.away = f"no answer for {silent_s:.0f} s"
            done.append(bucket)
            self._next += 1
            self._bucket(self._next)
        return done

    def _problem(self, line: Line, *, is_gap: bool) -> None:
        source, message, reason = line["source"], str(line["message"]), line.get("reason")
        if source == "server" and (not is_gap or reason == SESSION_LOST):
            self._away = message
        elif not is_gap and reason != SERVER_DOWN:
            self.note(f"{source}: {message}")

    def _put(self, line: Line) -> None:
        t_us = line["t_us"]
        if line["event"] == "waits":
            self._bucket(int(t_us // US) + 1).waits.append(line)
            self._last_line_us = t_us
            return
        bucket = self._bucket(round(t_us / US))
        if line["event"] == "blockers":
            bucket.blockers = line["rows"]
            return
        span_s = line["span_us"] / US if line.get("span_us") else None
        rows = [Row(span_s, row.get("labels") or {}, row["values"]) for row in line["rows"]]
        bucket.samples.setdefault(line["source"], []).extend(rows)

    def _bucket(self, number: int) -> Bucket:
        # keep a sample that is too late for its second
        number = max(number, self._next)
        return self._open.setdefault(number, Bucket((self._origin_s or 0.0) + number))


def rate(rows: Sequence[Row], metric: str) -> float | None:
    """Return an amount per second; None if it was not sampled over a span.

    A row without it says nothing: the server does not have it, or its counter was reset meanwhile.
    """
    spans = [(row.values[metric], row.span_s) for row in rows if row.span_s and metric in row.values]
    length_s = sum(span_s for _, span_s in spans)
    return sum(amount for amount, _ in spans) / length_s if length_s else None


def average(rows: Sequence[Row], metric: str) -> float | None:
    """Return the time-weighted average of a share or a number; None as for `rate`."""
    return rate(
        [
            row._replace(values={metric: row.values[metric] * (row.span_s or 0.0)})
            for row in rows
            if metric in row.values
        ],
        metric,
    )


def mean(rows: Sequence[Row], metric: str, of: str) -> float | None:
    """Return a mean weighted by the number of occurrences (`of`)."""
    weighted = [row for row in rows if metric in row.values and row.values.get(of)]
    number = sum(row.values[of] for row in weighted)
    return sum(row.values[metric] * row.values[of] for row in weighted) / number if number else None


def last(rows: Sequence[Row], metric: str) -> float | None:
    return next((row.values[metric] for row in reversed(rows) if metric in row.values), None)


def by_label(rows: Sequence[Row], label: str) -> dict[str, list[Row]]:
    """Return rows by the value of one of their labels, in order of appearance."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.labels.get(label, ""), []).append(row)
    return groups


def rows_of(buckets: Sequence[Bucket], source: str) -> list[Row]:
    return [row for bucket in buckets for row in bucket.samples.get(source, ())]


def active(buckets: Sequence[Bucket], key: Callable[[Line], str | None]) -> Mapping[str, float] | None:
    """Return average active sessions by `key` of their row, most first; a key of None is left out.

    None without a sample.
    """
    looks = [line["rows"] for bucket in buckets for line in bucket.waits]
    sums: Counter[str] = Counter()
    for row in (row for rows in looks for row in rows):
        name = key(row)
        if name is not None:
            sums[name] += row["sessions"]
    return {name: sessions / len(looks) for name, sessions in sums.most_common()} if looks else None
