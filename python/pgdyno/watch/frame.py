"""The state of the last seconds, one value for terminal, log and program."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pgdyno.records.probe import wait_class
from pgdyno.watch.probe_stream import US, Line, Samples
from pgdyno.watch.shown_statement import shown_query

Frame = Mapping[str, Any]
"""The object of `watch --json`, whose fields docs/reference/watch.md describes; None means unknown."""
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


def rate(rows: Sequence[Line], metric: str) -> float | None:
    """Return an amount per second; None if it was not sampled over a span.

    A row without it says nothing: the server does not have it, or its counter was reset meanwhile.
    """
    found = _over_spans(rows, metric)
    return sum(value for value, _ in found) / sum(span_s for _, span_s in found) if found else None


def average(rows: Sequence[Line], metric: str) -> float | None:
    """Return the time-weighted average of a share or a number; None as for `rate`."""
    return _mean(_over_spans(rows, metric))


def _over_spans(rows: Sequence[Line], metric: str) -> list[tuple[float, float]]:
    """Return values with the seconds over which they were sampled."""
    return [(row["values"][metric], row["span_s"]) for row in rows if row["span_s"] and metric in row["values"]]


def last(rows: Sequence[Line], metric: str) -> float | None:
    return next((row["values"][metric] for row in reversed(rows) if metric in row["values"]), None)


def _mean(pairs: Sequence[tuple[float, float]]) -> float | None:
    weight = sum(each for _, each in pairs)
    return sum(value * each for value, each in pairs) / weight if weight else None


_FIELDS: Mapping[str, tuple[Callable[[Sequence[Line], str], float | None], str, str]] = {
    "sessions": (last, "sessions", "total"),
    "idle_in_transaction": (last, "sessions", "idle_in_transaction"),
    "waiting_for_locks": (last, "sessions", "waiting_for_locks"),
    "oldest_transaction_s": (last, "sessions", "oldest_transaction"),
    "rollbacks_per_s": (rate, "databases", "rollbacks"),
    "reads_per_s": (rate, "databases", "blocks_read"),
    "temp_bytes_per_s": (rate, "databases", "temp_bytes"),
    "deadlocks_per_s": (rate, "databases", "deadlocks"),
    "wal_syncs_per_s": (rate, "wal", "syncs"),
    "wal_full_page_images_per_s": (rate, "wal", "full_page_images"),
    "checkpoint_buffers_per_s": (rate, "checkpoints", "buffers"),
    "since_checkpoint_s": (last, "control", "since_checkpoint"),
    "since_redo_bytes": (last, "control", "since_redo"),
    "memory_available_bytes": (last, "memory", "available"),
    "dirty_bytes": (last, "memory", "dirty"),
}
"""How each field comes from a source's metric."""
_IN_MS = ("oldest_transaction_s", "since_checkpoint_s")
_CPU = ("user", "system", "iowait", "irq", "steal", "guest")


def frame_of(samples: Samples, at_s: float, texts: Mapping[str, str], *, away: str | None, queries: bool) -> Frame:
    """Combine the last seconds of `samples`, which end `at_s` seconds after 1970.

    `texts` are those of statements by identifier, as far as known; `away` is why the server is not reachable, or None.
    Without `queries`, the frame contains only the kind of each statement, not its text.
    """
    seconds, backends, statements = samples.recent, samples.rows("backends"), samples.rows("statements")
    if away is not None:
        # figures from before an outage are not current
        seconds, backends, statements = deque([[line for line in seconds[-1] if line.get("source") in HOST]]), (), ()
    lines = [line for second in seconds for line in second]
    rows: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        rows[line.get("source", "")] += line["rows"]
    fields = {name: how(rows[source], metric) for name, (how, source, metric) in _FIELDS.items()}
    fields |= {name: value / 1e3 for name in _IN_MS if (value := fields[name]) is not None}
    commits, hit = (rate(rows["databases"], metric) for metric in ("commits", "blocks_hit"))
    rollbacks, reads = fields["rollbacks_per_s"], fields["reads_per_s"]
    looks = [line["rows"] for line in lines if line["event"] == "waits"]
    own = len(looks) / len(seconds) + OWN_A_SECOND
    # a standby makes no WAL, and has only one of these positions
    places = (("wal_position", "received"), ("wal", "bytes"), ("wal_position", "inserted"))
    written = (rate(rows[source], metric) for source, metric in places)
    started = [row["values"] for row in rows["checkpoints"] if row["span_s"]]
    shares = {name: average(rows["cpu"], name) for name in _CPU}
    return {
        "v": 1,
        "at_s": at_s,
        "seconds": len(seconds),
        "away": away,
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
        "cpu": None if None in shares.values() else _cpu(shares, last(rows["kernel"], "running")),
        "disks": _disks(rows["disk"]),
        "processes": _processes(rows, len(seconds)),
        "blockers": [_blocker(row) for line in seconds[-1] if line["event"] == "blockers" for row in line["rows"]],
        "backends": [{**row, "query": shown_query(row["query"], whole=queries)} for row in backends],
        "statements": sorted(
            (_statement(row, texts, whole=queries) for row in statements if row["span_s"]),
            key=lambda each: -each["sessions"],
        ),
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


def _by_label(rows: Sequence[Line], label: str) -> dict[str, list[Line]]:
    """Return rows by the value of one of their labels, in order of appearance."""
    groups: dict[str, list[Line]] = defaultdict(list)
    for row in rows:
        groups[row["labels"].get(label, "")].append(row)
    return groups


def _disks(rows: Sequence[Line]) -> list[Frame]:
    """Sort the server's devices before others, then the busiest first."""
    disks = [
        {
            "device": device,
            "holds": ours[-1]["labels"].get("holds", ""),
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


def _await(rows: Sequence[Line], kind: str) -> float | None:
    values = [row["values"] for row in rows if f"{kind}_await" in row["values"]]
    return _mean([(each[f"{kind}_await"], each.get(f"{kind}s", 0.0)) for each in values])


def _processes(rows: Mapping[str, Sequence[Line]], length: int) -> list[Frame]:
    """Sort by bytes read and written, then by CPU."""
    # the probe samples both in the same tick; a process that is idle, or has ended, has no row
    seconds = sum(row["span_s"] or 0.0 for row in rows["cpu"]) or length
    found = []
    for pid, ours in _by_label(rows["process"], "pid").items():
        labels, spans = ours[-1]["labels"], [row["values"] for row in ours if row["span_s"]]
        cpu, read, written, run_wait = (
            sum(each.get(metric, 0.0) for each in spans) / seconds for metric in ("cpu", "read", "written", "run_wait")
        )
        if pid:
            found.append(
                {
                    "pid": int(pid),
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


def _statement(row: Line, texts: Mapping[str, str], *, whole: bool) -> Frame:
    calls, took_ms, span_s = row["values"].get("calls", 0.0), row["values"].get("exec_time", 0.0), row["span_s"]
    labels = {name: row["labels"].get(name, "") for name in ("query_id", "user", "database")}
    return {
        **labels,
        "query": shown_query(texts.get(labels["query_id"], ""), whole=whole),
        "sessions": took_ms / 1e3 / span_s,
        "calls_per_s": calls / span_s,
        "mean_ms": took_ms / calls if calls else None,
        "rows_per_s": row["values"].get("rows", 0.0) / span_s,
        "reads_per_s": row["values"].get("blocks_read", 0.0) / span_s,
    }
