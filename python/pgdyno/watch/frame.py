"""The state of the last seconds, one value for terminal, log and program; and the seconds before it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from pgdyno.watch.buckets import US, Bucket, Line, Row, active, average, by_label, last, mean, rate, rows_of
from pgdyno.watch.chart import STYLES, class_of
from pgdyno.watch.polling import shown_query

Frame = Mapping[str, Any]
"""The object of `watch --json`, whose fields docs/reference/watch.md describes; None means unknown."""
VERSION = 1
MS = 1e3
HOUR = 3600
INTERVALS = (1, 2, 5, 10, 30, 60)
"""Seconds of a frame."""
CLIENTS = ("client backend", "parallel worker")
"""Backend types of the load; others work in the background."""
HOST = ("cpu", "kernel", "memory", "disk", "process", "cgroup")
"""Sources that need no server."""
OWN_A_SECOND = 3
"""pgdyno's own transactions per second besides samples: the counters', and two of the other session's."""
_LAST = {
    "sessions": ("sessions", "total"),
    "idle_in_transaction": ("sessions", "idle_in_transaction"),
    "waiting_for_locks": ("sessions", "waiting_for_locks"),
    "since_redo_bytes": ("control", "since_redo"),
    "memory_available_bytes": ("memory", "available"),
    "dirty_bytes": ("memory", "dirty"),
}
"""Fields that are the last sample of a source's metric."""
_AGES = {
    "oldest_transaction_s": ("sessions", "oldest_transaction"),
    "since_checkpoint_s": ("control", "since_checkpoint"),
}
"""Likewise, of milliseconds."""
_RATES = {
    "rollbacks_per_s": ("databases", "rollbacks"),
    "reads_per_s": ("databases", "blocks_read"),
    "temp_bytes_per_s": ("databases", "temp_bytes"),
    "deadlocks_per_s": ("databases", "deadlocks"),
    "wal_syncs_per_s": ("wal", "syncs"),
    "wal_full_page_images_per_s": ("wal", "full_page_images"),
    "checkpoint_buffers_per_s": ("checkpoints", "buffers"),
}


def frame_of(buckets: Sequence[Bucket], *, queries: bool, statements: Sequence[Line] = ()) -> Frame:
    """Combine `buckets`, which are consecutive and at least one.

    Without `queries`, the frame contains only the kind of each statement, not its text.
    """
    end = buckets[-1]
    if end.away is not None:
        # figures from before an outage are not current
        host = {source: rows for source, rows in end.samples.items() if source in HOST}
        buckets, statements = [Bucket(end.at_s, samples=host, away=end.away)], []
    rows = {source: rows_of(buckets, source) for bucket in buckets for source in bucket.samples}
    latest = {name: last(rows.get(source, ()), metric) for name, (source, metric) in (_LAST | _AGES).items()}
    rates = {name: rate(rows.get(source, ()), metric) for name, (source, metric) in _RATES.items()}
    commits, hit = (rate(rows.get("databases", ()), metric) for metric in ("commits", "blocks_hit"))
    rollbacks, read = rates["rollbacks_per_s"], rates["reads_per_s"]
    own = sum(len(bucket.waits) for bucket in buckets) / len(buckets) + OWN_A_SECOND
    # a standby makes no WAL, and has only one of these positions
    places = (("wal_position", "received"), ("wal", "bytes"), ("wal_position", "inserted"))
    written = (rate(rows.get(source, ()), metric) for source, metric in places)
    started = [row.values for row in rows.get("checkpoints", ()) if row.span_s]
    return {
        "v": VERSION,
        "at_s": end.at_s,
        "seconds": len(buckets),
        "away": end.away,
        "active": active(buckets, lambda row: class_of(*_wait(row)) if _is_client(row) else None),
        "waits": active(buckets, lambda row: _wait_name(row) if _is_client(row) else None),
        "background": active(
            buckets, lambda row: None if _is_client(row) else f"{row['backend_type'] or ''}: {_wait_name(row)}"
        ),
        "queries": active(buckets, lambda row: str(row["query_id"]) if _is_client(row) and row["query_id"] else None),
        **latest,
        **{name: None if (value := latest[name]) is None else value / MS for name in _AGES},
        "tps": None if commits is None or rollbacks is None else max(commits - own, 0.0) + rollbacks,
        "cache_hit": hit / (read + hit) if read is not None and hit is not None and read + hit > 0 else None,
        "wal_bytes_per_s": next((each for each in written if each is not None), None),
        "checkpoints": sum(each.get("timed", 0) + each.get("requested", 0) for each in started) if started else None,
        **rates,
        "cpu": _cpu(rows),
        "disks": _disks(rows.get("disk", ())),
        "processes": _processes(rows, len(buckets)),
        "blockers": [_blocker(row) for row in buckets[-1].blockers],
        "backends": [
            {**each, "query": shown_query(each["query"], whole=queries)} for each in buckets[-1].sessions or ()
        ],
        "statements": list(statements),
    }


def active_sessions(frame: Frame) -> float | None:
    return None if frame["active"] is None else sum(frame["active"].values())


def _is_client(row: Line) -> bool:
    return row["backend_type"] in CLIENTS


def _wait(row: Line) -> tuple[str, str]:
    """Return a wait's type, which is CPU if the session does not wait, and its event."""
    return row.get("wait_type") or "", row.get("wait") or ""


def _wait_name(row: Line) -> str:
    return ":".join(part for part in _wait(row) if part)


def _cpu(rows: Mapping[str, Sequence[Row]]) -> Frame | None:
    shares = {
        name: average(rows.get("cpu", ()), name) for name in ("user", "system", "iowait", "irq", "steal", "guest")
    }
    known = {name: share for name, share in shares.items() if share is not None}
    if len(known) < len(shares):
        return None
    # the kernel counts in ticks, so that busy cores may gain one more than fits into the time
    excess = max(sum(known.values()), 1.0)
    user, system = (known["user"] + known["guest"]) / excess, (known["system"] + known["irq"]) / excess
    return {
        "busy": user + system,
        "user": user,
        "system": system,
        "iowait": known["iowait"] / excess,
        "steal": known["steal"] / excess,
        "running": last(rows.get("kernel", ()), "running"),
    }


def _disks(rows: Sequence[Row]) -> list[Frame]:
    """Sort the server's devices before others, then the busiest first."""
    disks = [
        {
            "device": device,
            "holds": ours[-1].labels.get("holds", ""),
            "utilisation": min(utilisation, 1.0),
            "read_bytes_per_s": rate(ours, "read") or 0.0,
            "written_bytes_per_s": rate(ours, "written") or 0.0,
            "read_await_ms": mean(ours, "read_await", "reads"),
            "write_await_ms": mean(ours, "write_await", "writes"),
        }
        for device, ours in by_label(rows, "device").items()
        if (utilisation := average(ours, "utilisation")) is not None
    ]
    return sorted(disks, key=lambda disk: (not disk["holds"], -disk["utilisation"]))


def _processes(rows: Mapping[str, Sequence[Row]], length: int) -> list[Frame]:
    """Sort by bytes read and written, then by CPU."""
    # the probe samples both in the same tick; a process that is idle, or has ended, has no row
    seconds = sum(row.span_s or 0.0 for row in rows.get("cpu", ())) or length
    found = [_process(pid, ours, seconds) for pid, ours in by_label(rows.get("process", ()), "pid").items() if pid]
    return sorted(found, key=lambda each: (-each["read_bytes_per_s"] - each["written_bytes_per_s"], -each["cpu"]))


def _process(pid: str, rows: Sequence[Row], seconds: float) -> Frame:
    labels = rows[-1].labels
    sums = {
        metric: sum(row.values.get(metric, 0.0) for row in rows if row.span_s) / seconds
        for metric in ("cpu", "read", "written", "run_wait")
    }
    return {
        "pid": int(pid) if pid.isdigit() else 0,
        "kind": labels.get("kind", ""),
        "who": "@".join(filter(None, (labels.get("user"), labels.get("database")))),
        "activity": labels.get("activity", ""),
        "cpu": sums["cpu"] / US,
        "read_bytes_per_s": sums["read"],
        "written_bytes_per_s": sums["written"],
        "run_wait": sums["run_wait"] / US,
    }


def _blocker(row: Line) -> Frame:
    return {
        "pid": row["pid"] or 0,
        "lock": row["lock"] or "",
        "blocked_by": row["blocked_by"] or 0,
        "state": row.get("state") or "",
        "wait": _wait_name(row),
    }


def _statement(row: Row, span_s: float, text: str, *, queries: bool) -> Line:
    calls, took_ms = row.values.get("calls", 0.0), row.values.get("exec_time", 0.0)
    return {
        **{name: row.labels.get(name, "") for name in ("query_id", "user", "database")},
        "query": shown_query(text, whole=queries),
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
    texts: Mapping[str, str] = field(default_factory=dict)
    """Texts of statements, by query identifier, as far as known."""
    _buckets: deque[Bucket] = field(default_factory=lambda: deque(maxlen=INTERVALS[-1]))
    _statements: Sequence[Row] = ()
    """The last sample's: they are sampled less often than every second."""
    points: deque[Point] = field(default_factory=lambda: deque(maxlen=HOUR))

    def add(self, bucket: Bucket) -> None:
        if bucket.sessions is None and self._buckets and bucket.away is None:
            # sampled a little more than a second ago: the active sessions count as unchanged
            bucket.sessions = self._buckets[-1].sessions
        self._statements = bucket.samples.get("statements", self._statements)
        self._buckets.append(bucket)
        self.points.append(_point(self.frame(1)))

    def frame(self, seconds: int) -> Frame:
        """Return the last `seconds` combined, or as many as there are. Requires at least one."""
        statements = [
            _statement(row, row.span_s, self.texts.get(row.labels.get("query_id", ""), ""), queries=self.queries)
            for row in self._statements
            if row.span_s
        ]
        statements.sort(key=lambda each: -each["sessions"])
        return frame_of(list(self._buckets)[-seconds:], queries=self.queries, statements=statements)

    def query_ids(self) -> set[str]:
        return {row.labels.get("query_id", "") for row in self._statements}


def _point(frame: Frame) -> Point:
    figures = {
        **{name: frame[name] for name in ("tps", "sessions", "wal_bytes_per_s", "reads_per_s")},
        "cpu": frame["cpu"] and frame["cpu"]["busy"],
        "disk": next((disk["utilisation"] for disk in frame["disks"]), None),
        **({} if frame["active"] is None else {name: frame["active"].get(name, 0.0) for name in STYLES}),
    }
    return {name: value for name, value in figures.items() if value is not None}


def stepped(points: Sequence[Point], seconds: int, number: int) -> list[Point]:
    """Return the last `number` steps of `seconds` each, averaged; the last one ends with the last second."""
    known = list(points)
    ends = range(len(known), max(len(known) - seconds * number, 0), -seconds)
    return [_averages(known[max(end - seconds, 0) : end]) for end in ends][::-1]


def _averages(points: Sequence[Point]) -> Point:
    names = {name for point in points for name in point}
    return {name: fmean(point[name] for point in points if name in point) for name in names}
