"""The seconds before a frame: what is needed to combine the last ones, and an hour of charts."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from pgdyno.watch.buckets import Bucket, Polled, Row
from pgdyno.watch.frame import Frame, frame_of
from pgdyno.watch.statements import SOURCE, statements_of

HOUR = 3600
LONGEST = 60
"""Seconds of a frame."""
INTERVALS = (1, 2, 5, 10, 30, 60)


@dataclass(frozen=True, slots=True)
class Point:
    """The data of one second for charts."""

    active: Mapping[str, float] | None
    tps: float | None
    cpu: float | None
    wal: float | None
    disk: float | None
    reads: float | None
    sessions: float | None


@dataclass(slots=True)
class History:
    queries: bool = False
    """Whether frames contain texts of statements."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Texts of statements, by query identifier, as far as known."""
    _buckets: deque[Bucket] = field(default_factory=lambda: deque(maxlen=LONGEST))
    _before: deque[Polled | None] = field(default_factory=lambda: deque(maxlen=LONGEST))
    _polled: Polled | None = None
    _statements: Sequence[Row] = ()
    """The last sample's: they are sampled less often than every second."""
    points: deque[Point] = field(default_factory=lambda: deque(maxlen=HOUR))

    def add(self, bucket: Bucket) -> None:
        if bucket.polled is None and self._buckets and bucket.away is None:
            # sampled a little more than a second ago: the active sessions count as unchanged
            bucket.polled = self._buckets[-1].polled
        self._statements = bucket.samples.get(SOURCE, self._statements)
        self._before.append(self._polled)
        self._buckets.append(bucket)
        if bucket.polled is not None:
            self._polled = bucket.polled
        self.points.append(_point(self.frame(1)))

    def frame(self, seconds: int) -> Frame:
        """Return the last `seconds` combined, or as many as there are. Requires at least one."""
        buckets, before = list(self._buckets)[-seconds:], list(self._before)[-seconds:]
        statements = statements_of(self._statements, self.texts, queries=self.queries)
        return frame_of(buckets, before[0], queries=self.queries, statements=statements)

    def query_ids(self) -> set[str]:
        return {row.labels.get("query_id", "") for row in self._statements}


def _point(frame: Frame) -> Point:
    return Point(
        active=frame.active,
        tps=frame.tps,
        cpu=frame.cpu.busy if frame.cpu else None,
        wal=frame.wal_bytes_per_s,
        disk=frame.disk.utilisation if frame.disk else None,
        reads=frame.reads_per_s,
        sessions=frame.sessions,
    )


def stepped(points: Sequence[Point], seconds: int, number: int) -> list[Point]:
    """Return the last `number` steps of `seconds` each, averaged; the last one ends with the last second."""
    known = list(points)
    ends = range(len(known), max(len(known) - seconds * number, 0), -seconds)
    return [_averaged(known[max(end - seconds, 0) : end]) for end in ends][::-1]


def _averaged(points: Sequence[Point]) -> Point:
    if len(points) == 1:
        return points[0]
    looked = [point.active for point in points if point.active is not None]
    names = {name for active in looked for name in active}
    active = {name: sum(each.get(name, 0.0) for each in looked) / len(looked) for name in names} if looked else None
    rest = {each.name: _mean([getattr(point, each.name) for point in points]) for each in fields(Point)[1:]}
    return Point(active, **rest)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
