"""The state of the last seconds, one value for terminal, log and program; and the seconds before it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from pgdyno.watch.buckets import US, Bucket, Line, Row, active, average, by_label, last, mean, rate, rows_of
from pgdyno.watch.chart import class_of
from pgdyno.watch.polling import Polled, Session, shown_query

VERSION = 1
"""Version of the JSON objects."""
MS = 1e3
CLIENTS = ("client backend", "parallel worker")
"""Backend types of the load; others work in the background."""
HOST = ("cpu", "kernel", "memory", "disk", "process", "cgroup")
"""Sources that need no server."""
OWN_A_SECOND = 3
"""pgdyno's own transactions per second besides samples: the counters', and two of the other session's."""


@dataclass(frozen=True, slots=True)
class Cpu:
    """Shares of all cores together, 0 to 1, and tasks that wait for them."""

    busy: float
    user: float
    system: float
    iowait: float
    steal: float
    running: float | None
    """Runnable tasks at the last sample."""


@dataclass(frozen=True, slots=True)
class Disk:
    device: str
    holds: str
    """`data`, `wal`, both, or empty if unknown."""
    utilisation: float
    read_bytes_per_s: float
    written_bytes_per_s: float
    read_await_ms: float | None
    write_await_ms: float | None


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the server; `cpu` is a share of one core."""

    pid: int
    kind: str
    who: str
    activity: str
    cpu: float
    read_bytes_per_s: float
    written_bytes_per_s: float
    run_wait: float
    """Share of the time in which it was runnable and no core was free."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """A session that waits for another's lock."""

    pid: int
    lock: str
    blocked_by: int
    state: str
    wait: str


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement between the probe's last two samples, which are about ten seconds apart."""

    query_id: str
    user: str
    database: str
    query: str
    """Its command, or its text without literals; empty if unknown, or if it contains the word password."""
    sessions: float
    """Average concurrent executions: seconds of execution per second."""
    calls_per_s: float
    mean_ms: float | None
    """Mean time of one execution."""
    rows_per_s: float
    reads_per_s: float
    """Pages that were not in shared buffers."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The last seconds. None means unknown; rates are per second, sessions are averages."""

    at_s: float
    seconds: int
    away: str | None
    active: Mapping[str, float] | None
    """Active client sessions by class of wait; see `class_of`."""
    waits: Mapping[str, float] | None
    """Waiting sessions by `type:event`."""
    background: Mapping[str, float] | None
    """Other active processes, by `backend type: type:event`."""
    queries: Mapping[str, float] | None
    """Active client sessions by query identifier, if the server computes it."""
    sessions: float | None
    idle_in_transaction: float | None
    waiting_for_locks: float | None
    oldest_transaction_s: float | None
    tps: float | None
    rollbacks_per_s: float | None
    cache_hit: float | None
    reads_per_s: float | None
    temp_bytes_per_s: float | None
    deadlocks_per_s: float | None
    wal_bytes_per_s: float | None
    wal_syncs_per_s: float | None
    wal_full_page_images_per_s: float | None
    checkpoints: float | None
    """Checkpoints that started in this period."""
    checkpoint_buffers_per_s: float | None
    """Buffers that the checkpointer wrote."""
    since_checkpoint_s: float | None
    since_redo_bytes: float | None
    cpu: Cpu | None
    memory_available_bytes: float | None
    dirty_bytes: float | None
    disks: Sequence[Disk]
    processes: Sequence[Process]
    blockers: Sequence[Blocker]
    backends: Sequence[Session]
    statements: Sequence[Statement]
    """Of about the last ten seconds; empty if the database has no pg_stat_statements."""

    @property
    def active_sessions(self) -> float | None:
        return None if self.active is None else sum(self.active.values())

    @property
    def disk(self) -> Disk | None:
        """Return the busiest device of the server's, otherwise of the host's."""
        ours = [disk for disk in self.disks if disk.holds] or self.disks
        return max(ours, key=lambda disk: disk.utilisation, default=None)

    def as_json(self) -> dict[str, Any]:
        """Return the fields unchanged; see docs/reference/watch.md."""
        return {"v": VERSION, **asdict(self)}


def frame_of(
    buckets: Sequence[Bucket], before: Polled | None, *, queries: bool, statements: Sequence[Statement] = ()
) -> Frame:
    """Combine `buckets`, which are consecutive and at least one.

    `before` are the counters with which those of the buckets are compared. Without `queries`, the frame contains only
    the kind of each statement, not its text.
    """
    end = buckets[-1]
    seconds = len(buckets)
    if end.away is not None:
        # figures from before an outage are not current
        host = {source: rows for source, rows in end.samples.items() if source in HOST}
        buckets = [Bucket(end.at_s, samples=host, away=end.away)]
    wal, positions = rows_of(buckets, "wal"), rows_of(buckets, "wal_position")
    sessions, control, memory = (rows_of(buckets, source) for source in ("sessions", "control", "memory"))
    checkpoints = rows_of(buckets, "checkpoints")
    started = [row.values for row in checkpoints if row.span_s]
    oldest_ms, since_ms = last(sessions, "oldest_transaction"), last(control, "since_checkpoint")
    # a standby makes no WAL, and has only one of these positions
    written = (rate(positions, "received"), rate(wal, "bytes"), rate(positions, "inserted"))
    return Frame(
        at_s=end.at_s,
        seconds=1 if end.away is not None else seconds,
        away=end.away,
        active=active(buckets, lambda row: class_of(*_wait(row)) if _is_client(row) else None),
        waits=active(buckets, lambda row: _wait_name(row) if _is_client(row) else None),
        background=active(
            buckets, lambda row: None if _is_client(row) else f"{row['backend_type'] or ''}: {_wait_name(row)}"
        ),
        queries=active(buckets, lambda row: str(row["query_id"]) if _is_client(row) and row["query_id"] else None),
        sessions=last(sessions, "total"),
        idle_in_transaction=last(sessions, "idle_in_transaction"),
        waiting_for_locks=last(sessions, "waiting_for_locks"),
        oldest_transaction_s=None if oldest_ms is None else oldest_ms / MS,
        wal_bytes_per_s=next((each for each in written if each is not None), None),
        wal_syncs_per_s=rate(wal, "syncs"),
        wal_full_page_images_per_s=rate(wal, "full_page_images"),
        checkpoints=sum(row.get("timed", 0) + row.get("requested", 0) for row in started) if started else None,
        checkpoint_buffers_per_s=rate(checkpoints, "buffers"),
        since_checkpoint_s=None if since_ms is None else since_ms / MS,
        since_redo_bytes=last(control, "since_redo"),
        cpu=_cpu(buckets),
        memory_available_bytes=last(memory, "available"),
        dirty_bytes=last(memory, "dirty"),
        disks=_disks(buckets),
        processes=_processes(buckets),
        blockers=[_blocker(row) for row in buckets[-1].blockers],
        backends=_backends(buckets[-1].polled, queries=queries),
        statements=[] if end.away is not None else statements,
        **_polled(buckets, before),
    )


def _is_client(row: Line) -> bool:
    return row["backend_type"] in CLIENTS


def _wait(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return a wait's type, which is CPU if the session does not wait, and its event."""
    return row.get("wait_type") or "", row.get("wait") or ""


def _wait_name(row: Mapping[str, Any]) -> str:
    return ":".join(part for part in _wait(row) if part)


def _polled(buckets: Sequence[Bucket], before: Polled | None) -> dict[str, float | None]:
    polled = [bucket.polled for bucket in buckets if bucket.polled is not None]
    comparable = (each for each in (before, *polled) if each is not None and each.series == polled[-1].series)
    first = next(comparable, None) if polled else None
    names = ("tps", "rollbacks_per_s", "cache_hit", "reads_per_s", "temp_bytes_per_s", "deadlocks_per_s")
    if first is None or not polled or polled[-1].at_s <= first.at_s or polled[-1].commits < first.commits:
        return dict.fromkeys(names)
    now = polled[-1]
    length = now.at_s - first.at_s
    own = sum(len(bucket.waits) for bucket in buckets) / len(buckets) + OWN_A_SECOND
    rollbacks = (now.rollbacks - first.rollbacks) / length
    read, hit = now.blocks_read - first.blocks_read, now.blocks_hit - first.blocks_hit
    return {
        "tps": max((now.commits - first.commits) / length - own, 0.0) + rollbacks,
        "rollbacks_per_s": rollbacks,
        "cache_hit": hit / (read + hit) if read + hit > 0 else None,
        "reads_per_s": read / length,
        "temp_bytes_per_s": (now.temp_bytes - first.temp_bytes) / length,
        "deadlocks_per_s": (now.deadlocks - first.deadlocks) / length,
    }


def _cpu(buckets: Sequence[Bucket]) -> Cpu | None:
    rows = rows_of(buckets, "cpu")
    shares = {name: average(rows, name) for name in ("user", "system", "iowait", "irq", "steal", "guest")}
    if any(share is None for share in shares.values()):
        return None
    # the kernel counts in ticks, so that busy cores may gain one more than fits into the time
    excess = max(sum(share or 0.0 for share in shares.values()), 1.0)
    known = {name: (share or 0.0) / excess for name, share in shares.items()}
    system = known["system"] + known["irq"]
    busy = known["user"] + system + known["guest"]
    running = last(rows_of(buckets, "kernel"), "running")
    return Cpu(busy, known["user"] + known["guest"], system, known["iowait"], known["steal"], running)


def _disks(buckets: Sequence[Bucket]) -> list[Disk]:
    disks = []
    for device, rows in by_label(rows_of(buckets, "disk"), "device").items():
        utilisation = average(rows, "utilisation")
        if utilisation is not None:
            disks.append(
                Disk(
                    device,
                    rows[-1].labels.get("holds", ""),
                    min(utilisation, 1.0),
                    rate(rows, "read") or 0.0,
                    rate(rows, "written") or 0.0,
                    mean(rows, "read_await", "reads"),
                    mean(rows, "write_await", "writes"),
                )
            )
    return sorted(disks, key=lambda disk: (not disk.holds, -disk.utilisation))


def _processes(buckets: Sequence[Bucket]) -> list[Process]:
    """Sort by bytes read and written, then by CPU."""
    rows = rows_of(buckets, "process")
    # the probe samples both in the same tick; a process that is idle, or has ended, has no row
    seconds = sum(row.span_s or 0.0 for row in rows_of(buckets, "cpu")) or len(buckets)
    processes = [_process(pid, of_pid, seconds) for pid, of_pid in by_label(rows, "pid").items() if pid]
    return sorted(
        processes, key=lambda each: (each.read_bytes_per_s + each.written_bytes_per_s, each.cpu), reverse=True
    )


def _process(pid: str, rows: Sequence[Row], seconds: float) -> Process:
    labels = rows[-1].labels

    def a_second(metric: str) -> float:
        return sum(row.values.get(metric, 0.0) for row in rows if row.span_s) / seconds

    who = "@".join(part for part in (labels.get("user", ""), labels.get("database", "")) if part)
    return Process(
        pid=int(pid) if pid.isdigit() else 0,
        kind=labels.get("kind", ""),
        who=who,
        activity=labels.get("activity", ""),
        cpu=a_second("cpu") / US,
        read_bytes_per_s=a_second("read"),
        written_bytes_per_s=a_second("written"),
        run_wait=a_second("run_wait") / US,
    )


def statements_of(rows: Sequence[Row], texts: Mapping[str, str], *, queries: bool) -> list[Statement]:
    """Return the statements of one sample, those with the most time first; `texts` are by query identifier."""
    found = [_statement(row, row.span_s, texts, queries=queries) for row in rows if row.span_s]
    return sorted(found, key=lambda each: -each.sessions)


def _statement(row: Row, span_s: float, texts: Mapping[str, str], *, queries: bool) -> Statement:
    query_id = row.labels.get("query_id", "")
    calls, took_ms = row.values.get("calls", 0.0), row.values.get("exec_time", 0.0)
    return Statement(
        query_id=query_id,
        user=row.labels.get("user", ""),
        database=row.labels.get("database", ""),
        query=shown_query(texts.get(query_id, ""), whole=queries),
        sessions=took_ms / MS / span_s,
        calls_per_s=calls / span_s,
        mean_ms=took_ms / calls if calls else None,
        rows_per_s=row.values.get("rows", 0.0) / span_s,
        reads_per_s=row.values.get("blocks_read", 0.0) / span_s,
    )


def _blocker(row: Mapping[str, Any]) -> Blocker:
    return Blocker(row["pid"] or 0, row["lock"] or "", row["blocked_by"] or 0, row.get("state") or "", _wait_name(row))


def _backends(polled: Polled | None, *, queries: bool) -> list[Session]:
    if polled is None:
        return []
    return [replace(each, query=shown_query(each.query, whole=queries)) for each in polled.sessions]


HOUR = 3600
LONGEST = 60
"""Seconds of a frame."""
INTERVALS = (1, 2, 5, 10, 30, 60)


class Point(NamedTuple):
    """The data of one second for charts."""

    active: Mapping[str, float] | None
    tps: float | None = None
    cpu: float | None = None
    wal: float | None = None
    disk: float | None = None
    reads: float | None = None
    sessions: float | None = None


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
        self._statements = bucket.samples.get("statements", self._statements)
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
    cpu, disk = frame.cpu, frame.disk
    busy, use = cpu.busy if cpu else None, disk.utilisation if disk else None
    return Point(frame.active, frame.tps, busy, frame.wal_bytes_per_s, use, frame.reads_per_s, frame.sessions)


def stepped(points: Sequence[Point], seconds: int, number: int) -> list[Point]:
    """Return the last `number` steps of `seconds` each, averaged; the last one ends with the last second."""
    known = list(points)
    ends = range(len(known), max(len(known) - seconds * number, 0), -seconds)
    return [_averaged(known[max(end - seconds, 0) : end]) for end in ends][::-1]


def _averaged(points: Sequence[Point]) -> Point:
    looked = [point.active for point in points if point.active is not None]
    names = {name for active in looked for name in active}
    active = {name: sum(each.get(name, 0.0) for each in looked) / len(looked) for name in names} if looked else None
    figures = (
        [value for value in values if value is not None] for values in zip(*(each[1:] for each in points), strict=True)
    )
    return Point(active, *(sum(known) / len(known) if known else None for known in figures))
