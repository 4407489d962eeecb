"""Lines in pgprobe's format about an invented server."""

from collections import deque
from typing import Any

from pgdyno.watch.frame import Frame, frame_of
from pgdyno.watch.probe_stream import Samples

Line = dict[str, Any]
WALL_US = 1_700_000_000_000_000
ESCAPE = "\x1b[2J\x1b]0;pwned\x07"


def line(event: str, t_s: float, **fields: object) -> Line:
    return {"event": event, "t_us": round(t_s * 1e6), "wall_us": WALL_US + round(t_s * 1e6), **fields}


def connected(t_s: float = 0.05) -> Line:
    return line("connected", t_s, server_version="18.1", pid=1, sources=[])


def waits(t_s: float, *rows: tuple[str, str, str | None, int]) -> Line:
    names = ("backend_type", "wait_type", "wait", "sessions")
    return line("waits", t_s, took_us=90, rows=[{**dict(zip(names, row, strict=True)), "query_id": 7} for row in rows])


def sample(source: str, t_s: float, *rows: Line, span_s: float | None = 1.0) -> Line:
    span_us = None if span_s is None else round(span_s * 1e6)
    return line("sample", t_s, source=source, span_us=span_us, rows=list(rows))


def row(labels: dict[str, str] | None = None, /, **values: float) -> Line:
    return {"labels": labels or {}, "values": values}


def session(pid: int, query: str, application: str = "shop", state: str = "active") -> Line:
    return {
        "pid": pid,
        "user": "alice",
        "database": "shop",
        "application": application,
        "state": state,
        "wait": "IO:DataFileRead",
        "query": query,
        "transaction_s": 1.5,
        "statement_s": 0.2,
    }


def counters(commits: float = 1000.0) -> Line:
    values = {"commits": commits, "rollbacks": 2.0, "blocks_read": 100.0, "blocks_hit": 900.0}
    return sample("databases", 0, row(**values, temp_bytes=0.0, deadlocks=0.0))


CPU = {"user": 0.5, "system": 0.2, "idle": 0.2, "iowait": 0.05, "irq": 0.0, "steal": 0.05, "guest": 0.0}


def second(number: int, name: str = "alice") -> list[Line]:
    """Returns the lines of a local probe about the second that ends at `number`."""
    looks = [
        waits(
            number - 1 + at / 10,
            ("client backend", "CPU", None, 2),
            ("client backend", "LWLock", "WALWrite", at % 2 * 2),
            ("client backend", "Lock", "tuple", 1),
            ("checkpointer", "IO", "DataFileWrite", 1),
        )
        for at in range(10)
    ]
    process = {"pid": "4711", "kind": "client backend", "user": name, "database": "shop", "activity": "UPDATE"}
    return [
        *looks,
        sample("cpu", number, row(**CPU)),
        sample("kernel", number, row(running=9)),
        sample("cgroup", number, row(cpu_limit=4)),
        sample("wal", number, row(bytes=2e6, syncs=300)),
        sample("sessions", number, row(total=40, active=4, idle_in_transaction=2, oldest_transaction=1500)),
        sample("disk", number, row({"device": "vda", "holds": "data wal"}, utilisation=0.45, written=3e6, writes=10)),
        sample("disk", number, row({"device": "vdb"}, utilisation=0.9)),
        sample("process", number, row(process, cpu=5e5, written=1e6)),
        line(
            "blockers",
            number,
            rows=[
                {
                    "pid": 12,
                    "lock": "tuple",
                    "blocked_by": 13,
                    "state": f"idle{ESCAPE}",
                    "wait_type": None,
                    "wait": None,
                }
            ],
        ),
    ]


SERVER = {"server": "alice@db/shop", "server_version": "18.1", "processors": 4.0}


def samples_of(*seconds: list[Line], most: int = 60) -> Samples:
    """Returns the last `most` of `seconds`, each with its lines."""
    samples = Samples(deque(maxlen=most), {})
    for lines in seconds:
        samples.recent.append([])
        for each in lines:
            samples.take(each)
    return samples


def history(number: int = 3, name: str = "alice", *sessions: Line, most: int = 1) -> Samples:
    """Returns the last `most` of `number` seconds, with 1,000 more commits in each but the first."""
    every = [second(at, name) for at in range(1, number + 1)]
    counted = [[*lines, counters(), {"event": "backends", "rows": list(sessions)}] for lines in every[1:]]
    return samples_of([connected(), *every[0]], *counted, most=most)


def frame(samples: Samples, *, away: str | None = None, queries: bool = False, **server: object) -> Frame:
    """Returns a frame of `samples` and of a server."""
    return {**frame_of(samples, 1.7e9, {}, away=away, queries=queries), **SERVER, **server}
