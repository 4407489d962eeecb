"""The state of the last seconds, one value for terminal, log and program; and the seconds before it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from pgdyno.records.probe import wait_class
from pgdyno.watch.polling import shown_query
from pgdyno.watch.probe_stream import US, Line, Row, Second

Frame = Mapping[str, Any]
"""The object of `watch --json`, whose fields docs/reference/watch.md describes; None means unknown."""
VERSION = 1
MS = 1e3
HOUR = 3600
INTERVALS = (1, 2, 5, 10, 30, 60)
"""Seconds of a frame."""
CLASSES = ("CPU", "IO", "WAL", "Lock", "LWLock", "Client", "other")
CLIENTS = ("client backend", "parallel worker")
"""Backend types of the load; others work in the background."""
HOST = ("cpu", "kernel", "memory", "disk", "process", "cgroup")
"""Sources that need no server."""
OWN_A_SECOND = 3
"""pgdyno's own transactions per second besides samples: the counters', and two of the other session's."""


def class_of(wait: str) -> str:
    """Return the class of a wait, `type:event`. Programs that read `watch --json` know I/O by the word `IO`."""
    kind, _, event = wait.partition(":")
    found = wait_class(kind, event)
    return "IO" if found == "I/O" else found


def rate(rows: Sequence[Row], metric: str) -> float | None:
    """Return an amount per second; None if it was not sampled over a span.

    A row without it says nothing: the server does not have it, or its counter was reset meanwhile.
    """
    return _mean((row.values[metric] / row.span_s, row.span_s) for row in rows if row.span_s and metric in row.values)


def average(rows: Sequence[Row], metric: str) -> float | None:
    """Return the time-weighted average of a share or a number; None as for `rate`."""
    return _mean((row.values[metric], row.span_s) for row in rows if row.span_s and metric in row.values)


def last(rows: Sequence[Row], metric: str) -> float | None:
    return next((row.values[metric] for row in reversed(rows) if metric in row.values), None)


def _last_s(rows: Sequence[Row], metric: str) -> float | None:
    """Return a last sample of milliseconds in seconds."""
    found = last(rows, metric)
    return None if found is None else found / MS


def _mean(pairs: Iterable[tuple[float, float]]) -> float | None:
    known = list(pairs)
    weight = sum(each for _, each in known)
    return sum(value * each for value, each in known) / weight if weight else None


_FIELDS: Mapping[str, tuple[Callable[[Sequence[Row], str], float | None], str, str]] = {
    "sessions": (last, "sessions", "total"),
    "idle_in_transaction": (last, "sessions", "idle_in_transaction"),
    "waiting_for_locks": (last, "sessions", "waiting_for_locks"),
    "oldest_transaction_s": (_last_s, "sessions", "oldest_transaction"),
    "rollbacks_per_s": (rate, "databases", "rollbacks"),
    "reads_per_s": (rate, "databases", "blocks_read"),
    "temp_bytes_per_s": (rate, "databases", "temp_bytes"),
    "deadlocks_per_s": (rate, "databases", "deadlocks"),
    "wal_syncs_per_s": (rate, "wal", "syncs"),
    "wal_full_page_images_per_s": (rate, "wal", "full_page_images"),
    "checkpoint_buffers_per_s": (rate, "checkpoints", "buffers"),
    "since_checkpoint_s": (_last_s, "control", "since_checkpoint"),
    "since_redo_bytes": (last, "control", "since_redo"),
    "memory_available_bytes": (last, "memory", "available"),
    "dirty_bytes": (last, "memory", "dirty"),
}
"""How each field comes from a source's metric."""
_CPU = ("user", "system", "iowait", "irq", "steal", "guest")


def frame_of(seconds: Sequence[Second], *, queries: bool, statements: Sequence[Line] = ()) -> Frame:
    """Combine `seconds`, which are consecutive and at least one.

    Without `queries`, the frame contains only the kind of each statement, not its text.
    """
    end = seconds[-1]
    if end.away is not None:
        # figures from before an outage are not current
        host = {source: rows for source, rows in end.samples.items() if source in HOST}
        seconds, statements = [Second(end.at_s, samples=host, away=end.away)], []
    rows: dict[str, list[Row]] = {}
    for second in seconds:
        for source, found in second.samples.items():
            rows.setdefault(source, []).extend(found)

    def read(how: Callable[[Sequence[Row], str], float | None], source: str, metric: str) -> float | None:
        return how(rows.get(source, ()), metric)

    fields = {name: read(*each) for name, each in _FIELDS.items()}
    commits, hit = (read(rate, "databases", metric) for metric in ("commits", "blocks_hit"))
    rollbacks, reads = fields["rollbacks_per_s"], fields["reads_per_s"]
    own = sum(len(second.waits) for second in seconds) / len(seconds) + OWN_A_SECOND
    # a standby makes no WAL, and has only one of these positions
    places = (("wal_position", "received"), ("wal", "bytes"), ("wal_position", "inserted"))
    written = (read(rate, *each) for each in places)
    started = [row.values for row in rows.get("checkpoints", ()) if row.span_s]
    looks = [look for second in seconds for look in second.waits]
    shares = {name: read(average, "cpu", name) for name in _CPU}
    return {
        "v": VERSION,
        "at_s": end.at_s,
        "seconds": len(seconds),
        "away": end.away,
        "active": _active(looks, lambda row: class_of(_wait(row)) if _is_client(row) else None),
        "waits": _active(looks, lambda row: _wait(row) if _is_client(row) else None),
        "background": _active(
            looks, lambda row: None if _is_client(row) else f"{row['backend_type'] or ''}: {_wait(row)}"
        ),
        "queries": _active(looks, lambda row: str(row["query_id"]) if _is_client(row) and row["query_id"] else None),
        **fields,
        "tps": None if commits is None or rollbacks is None else max(commits - own, 0.0) + rollbacks,
        "cache_hit": hit / (reads + hit) if reads is not None and hit is not None and reads + hit > 0 else None,
        "wal_bytes_per_s": next((each for each in written if each is not None), None),
        "checkpoints": sum(each.get("timed", 0) + each.get("requested", 0) for each in started) if started else None,
        "cpu": None if None in shares.values() else _cpu(shares, read(last, "kernel", "running")),
        "disks": _disks(rows.get("disk", ())),
        "processes": _processes(rows, len(seconds)),
        "blockers": [_blocker(row) for row in seconds[-1].blockers],
        "backends": [{**each, "query": shown_query(each["query"], whole=queries)} for each in seconds[-1].sessions],
        "statements": list(statements),
    }


def active_sessions(frame: Frame) -> float | None:
    return None if frame["active"] is None else sum(frame["active"].values())


def _active(looks: Sequence[Sequence[Line]], key: Callable[[Line], str | None]) -> Mapping[str, float] | None:
    """Return average active sessions by `key`, most first, without a key of None. None without a sample."""
    sums: Counter[str] = Counter()
    for row in (row for rows in looks for row in rows):
        name = key(row)
        if name is not None:
            sums[name] += row["sessions"]
    return {name: sessions / len(looks) for name, sessions in sums.most_common()} if looks else None


def _is_client(row: Line) -> bool:
    return row["backend_type"] in CLIENTS


def _wait(row: Line) -> str:
    """Return a wait's type, which is CPU if the session does not wait, and its event."""
    return ":".join(part for part in (row.get("wait_type"), row.get("wait")) if part)


def _cpu(shares: Mapping[str, Any], running: float | None) -> Frame:
    # the kernel counts in ticks, so that busy cores may gain one more than fits into the time
    excess = max(sum(shares.values()), 1.0)
    part = {name: share / excess for name, share in shares.items()}
    user, system = part["user"] + part["guest"], part["system"] + part["irq"]
    others = {"iowait": part["iowait"], "steal": part["steal"], "running": running}
    return {"busy": user + system, "user": user, "system": system, **others}


def _by_label(rows: Sequence[Row], label: str) -> dict[str, list[Row]]:
    """Return rows by the value of one of their labels, in order of appearance."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.labels.get(label, ""), []).append(row)
    return groups


def _disks(rows: Sequence[Row]) -> list[Frame]:
    """Sort the server's devices before others, then the busiest first."""
    disks = [
        {
            "device": device,
            "holds": ours[-1].labels.get("holds", ""),
            "utilisation": min(utilisation, 1.0),
            "read_bytes_per_s": rate(ours, "read") or 0.0,
            "written_bytes_per_s": rate(ours, "written") or 0.0,
            "read_await_ms": _await(ours, "read"),
            "write_await_ms": _await(ours, "write"),
        }
        for device, ours in _by_label(rows, "device").items()
        if (utilisation := average(ours, "utilisation")) is not None
    ]
    return sorted(disks, key=lambda disk: (not disk["holds"], -disk["utilisation"]))


def _await(rows: Sequence[Row], kind: str) -> float | None:
    name = f"{kind}_await"
    return _mean((row.values[name], row.values.get(f"{kind}s", 0.0)) for row in rows if name in row.values)


def _processes(rows: Mapping[str, Sequence[Row]], length: int) -> list[Frame]:
    """Sort by bytes read and written, then by CPU."""
    # the probe samples both in the same tick; a process that is idle, or has ended, has no row
    seconds = sum(row.span_s or 0.0 for row in rows.get("cpu", ())) or length
    found = []
    for pid, ours in _by_label(rows.get("process", ()), "pid").items():
        labels, spans = ours[-1].labels, [row.values for row in ours if row.span_s]
        cpu, read, written, run_wait = (
            sum(each.get(metric, 0.0) for each in spans) / seconds for metric in ("cpu", "read", "written", "run_wait")
        )
        if pid:
            found.append(
                {
                    "pid": int(pid) if pid.isdigit() else 0,
                    "kind": labels.get("kind", ""),
                    "who": "@".join(filter(None, (labels.get("user"), labels.get("database")))),
                    "activity": labels.get("activity", ""),
                    "cpu": cpu / US,
                    "read_bytes_per_s": read,
                    "written_bytes_per_s": written,
                    "run_wait": run_wait / US,
                }
            )
    return sorted(found, key=lambda each: (-each["read_bytes_per_s"] - each["written_bytes_per_s"], -each["cpu"]))


def _blocker(row: Line) -> Frame:
    numbers = {name: row[name] or 0 for name in ("pid", "blocked_by")}
    return {**numbers, "lock": row["lock"] or "", "state": row.get("state") or "", "wait": _wait(row)}


def _statement(row: Row, span_s: float, text: str) -> Line:
    calls, took_ms = row.values.get("calls", 0.0), row.values.get("exec_time", 0.0)
    return {
        **{name: row.labels.get(name, "") for name in ("query_id", "user", "database")},
        "query": text,
        "sessions": took_ms / MS / span_s,
        "calls_per_s": calls / span_s,
        "mean_ms": took_ms / calls if calls else None,
        "rows_per_s": row.values.get("rows", 0.0) / span_s,
        "reads_per_s": row.values.get("blocks_read", 0.0) / span_s,
    }


Point = Mapping[str, float]
"""The known figures of a second for charts, by name; active sessions by class."""


@dataclass(slots=True)
class History:
    queries: bool = False
    """Whether frames contain texts of statements."""
    server: Frame = field(default_factory=dict)
    """Its name, version and processors."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Texts of statements, by query identifier, as far as known."""
    _seconds: deque[Second] = field(default_factory=lambda: deque(maxlen=INTERVALS[-1]))
    _statements: Sequence[Row] = ()
    """The last sample's: they are sampled less often than every second."""
    points: deque[Point] = field(default_factory=lambda: deque(maxlen=HOUR))

    def add(self, second: Second) -> None:
        self._statements = second.samples.get("statements", self._statements)
        self._seconds.append(second)
        frame = self.frame(1)
        figures = {
            **{name: frame[name] for name in ("tps", "sessions", "wal_bytes_per_s", "reads_per_s")},
            "cpu": frame["cpu"] and frame["cpu"]["busy"],
            "disk": next((disk["utilisation"] for disk in frame["disks"]), None),
            **({} if frame["active"] is None else {name: frame["active"].get(name, 0.0) for name in CLASSES}),
        }
        self.points.append({name: value for name, value in figures.items() if value is not None})

    def frame(self, seconds: int) -> Frame:
        """Return the last `seconds` combined, or as many as there are. Requires at least one."""
        statements = [
            _statement(row, row.span_s, shown_query(self.texts.get(identifier, ""), whole=self.queries))
            for row in self._statements
            if row.span_s and (identifier := row.labels.get("query_id", "")) is not None
        ]
        statements.sort(key=lambda each: -each["sessions"])
        figures = frame_of(list(self._seconds)[-seconds:], queries=self.queries, statements=statements)
        return {**figures, **self.server}

    def query_ids(self) -> set[str]:
        return {row.labels.get("query_id", "") for row in self._statements}


def stepped(points: Sequence[Point], seconds: int, number: int) -> list[Point]:
    """Return the last `number` steps of `seconds` each, averaged; the last one ends with the last second."""
    known = list(points)
    ends = range(len(known), max(len(known) - seconds * number, 0), -seconds)
    return [_averages(known[max(end - seconds, 0) : end]) for end in ends][::-1]


def _averages(points: Sequence[Point]) -> Point:
    names = {name for point in points for name in point}
    return {name: fmean(point[name] for point in points if name in point) for name in names}
