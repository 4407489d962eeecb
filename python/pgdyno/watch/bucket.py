"""What the probe said, second by second, in a form that several seconds can be put together from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Line = dict[str, Any]
US = 1e6
LATE_S = 0.5
"""How long after a second's end its samples may come."""
SILENT_S = 4.0
"""A server that says nothing for so long is away, though its connection is there."""


_GONE = ("postmaster.pid", "is not running", "there is no process")
"""What the probe says of the processes of a server that is down."""
CLIENTS = ("client backend", "parallel worker")
"""Whose sessions are the load; others work behind it."""


def event_name(kind: str, event: str) -> str:
    """`type:event`, as far as there is one."""
    return f"{kind}:{event}" if event else kind


class Wait(NamedTuple):
    """What sessions of one kind wait for; `kind` is the wait's type, CPU where they work."""

    backend: str
    kind: str
    event: str
    query_id: int | None

    @property
    def is_client(self) -> bool:
        """Whether these are sessions of clients."""
        return self.backend in CLIENTS

    @property
    def name(self) -> str:
        """`type:event`."""
        return event_name(self.kind, self.event)


class Row(NamedTuple):
    """A row of a source's sample."""

    span_s: float | None
    labels: Mapping[str, str]
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Session:
    """A backend that works, or has a transaction open; its names are as the server says them, unchecked."""

    pid: int
    user: str
    database: str
    application: str
    state: str
    wait: str
    query: str
    transaction_s: float | None
    statement_s: float | None


@dataclass(frozen=True, slots=True)
class Polled:
    """Counters of all databases at an instant of the server's clock, and its sessions."""

    at_s: float
    commits: float
    rollbacks: float
    blocks_read: float
    blocks_hit: float
    temp_bytes: float
    deadlocks: float
    sessions: Sequence[Session] = ()


@dataclass(slots=True)
class Bucket:
    """A second."""

    at_s: float
    """Its end by this host's clock, since 1970."""
    looks: int = 0
    waits: Counter[Wait] = field(default_factory=Counter)
    """Added up over the looks."""
    samples: dict[str, list[Row]] = field(default_factory=dict)
    blockers: list[Line] = field(default_factory=list)
    polled: Polled | None = None
    away: str | None = None
    """Why the server is not there; None while it is."""

    def rows(self, source: str) -> Iterator[Row]:
        """Rows of a source."""
        return iter(self.samples.get(source, ()))


@dataclass(slots=True)
class Fold:
    """Sorts a probe's lines into seconds."""

    notes: list[str] = field(default_factory=list)
    """What is missing, each once; whoever shows them takes them away."""
    version: str = ""
    _open: dict[int, Bucket] = field(default_factory=dict)
    _origin_s: float | None = None
    _next: int = 1
    _away: str | None = "no session yet"
    _heard_us: int = 0
    _said: set[str] = field(default_factory=set)

    def started_anew(self) -> None:
        """The lines that follow are another probe's."""
        self._open.clear()
        self._origin_s, self._next, self._heard_us = None, 1, 0
        self._away = self._away or "no session yet"

    def take(self, line: Line) -> None:
        """A line of the probe's."""
        event = line.get("event")
        if event == "start":
            self._origin_s = (line["wall_us"] - line["t_us"]) / US
        elif event == "connected":
            self.version, self._away = str(line["server_version"]), None
            self._heard_us = line["t_us"]
        elif event in ("warning", "gap"):
            self._problem(line, is_gap=event == "gap")
        elif event in ("waits", "sample", "blockers"):
            self._put(line)

    def polled(self, polled: Polled) -> None:
        """Counters and sessions, as of now."""
        if self._origin_s is not None and self._next in self._open:
            self._open[self._next].polled = polled

    def note(self, text: str) -> None:
        """Something to be said once."""
        if text not in self._said:
            self._said.add(text)
            self.notes.append(text)

    def finished(self, now_s: float) -> list[Bucket]:
        """Seconds that are whole `now_s` after the probe's start, oldest first."""
        done = []
        while self._origin_s is not None and now_s >= self._next + LATE_S:
            bucket = self._bucket(self._next)
            del self._open[self._next]
            silent_s = self._next - self._heard_us / US
            bucket.away = self._away
            if bucket.away is None and silent_s > SILENT_S:
                bucket.away = f"no answer for {silent_s:.0f} s"
            done.append(bucket)
            self._next += 1
            self._bucket(self._next)
        return done

    def _problem(self, line: Line, *, is_gap: bool) -> None:
        source, message = line["source"], str(line["message"])
        if source == "server" and (not is_gap or message.startswith("the session was lost")):
            self._away = message
        elif not is_gap and not any(words in message for words in _GONE):
            self.note(f"{source}: {message}")

    def _put(self, line: Line) -> None:
        t_us = line["t_us"]
        if line["event"] == "waits":
            bucket = self._bucket(int(t_us // US) + 1)
            bucket.looks += 1
            bucket.waits.update(_waits(line["rows"]))
            self._heard_us = t_us
            return
        bucket = self._bucket(round(t_us / US))
        if line["event"] == "blockers":
            bucket.blockers = line["rows"]
            return
        span_s = line["span_us"] / US if line.get("span_us") else None
        rows = [Row(span_s, row.get("labels") or {}, row["values"]) for row in line["rows"]]
        bucket.samples.setdefault(line["source"], []).extend(rows)

    def _bucket(self, number: int) -> Bucket:
        # what comes too late for its second is not lost
        number = max(number, self._next)
        return self._open.setdefault(number, Bucket((self._origin_s or 0.0) + number))


def _waits(rows: Iterable[Line]) -> Counter[Wait]:
    waits: Counter[Wait] = Counter()
    for row in rows:
        wait = Wait(row["backend_type"] or "", row["wait_type"] or "", row["wait"] or "", row["query_id"])
        waits[wait] += row["sessions"]
    return waits
