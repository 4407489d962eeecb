"""Figures of a frame as text, for tiles, tables and lines."""

from __future__ import annotations

import time

from pgdyno.report import numbers
from pgdyno.report.blocks import printable
from pgdyno.report.numbers import NOTHING
from pgdyno.units import format_duration
from pgdyno.watch.bucket import Session
from pgdyno.watch.frame import Blocker, Disk, Frame, Process
from pgdyno.watch.statements import Statement

_SIZES = ((1 << 40, "TB"), (1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB"))


def size(count: float | None) -> str:
    """Return bytes in PostgreSQL's units, powers of 1024: `12.3 MB`."""
    if count is None:
        return NOTHING
    for factor, unit in _SIZES:
        if count >= factor:
            return f"{numbers.rounded(count / factor)} {unit}"
    return f"{count:.0f} B"


def per_s(number: float | None, what: str = "") -> str:
    """Return `120 syncs/s`; a dash if unknown."""
    return f"{NOTHING if number is None else numbers.short(number)}{' ' if what else ''}{what}/s"


def percent(share: float | None) -> str:
    return NOTHING if share is None else f"{share * 100:.0f} %"


def span(seconds: float | None) -> str:
    return NOTHING if seconds is None else format_duration(max(seconds, 0.0))


def clock(at_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at_s))


def figure(number: float | None) -> str:
    """Return three digits and a letter; a small integer without a point."""
    if number is None:
        return NOTHING
    return f"{number:.0f}" if number == int(number) and abs(number) < 1000 else numbers.short(number)


def sessions_line(frame: Frame) -> str:
    parts = [f"{figure(frame.sessions)} sessions", f"{figure(frame.active_sessions)} active"]
    if frame.idle_in_transaction:
        parts.append(f"{figure(frame.idle_in_transaction)} idle in transaction")
    if frame.waiting_for_locks:
        parts.append(f"{figure(frame.waiting_for_locks)} waiting for locks")
    return ", ".join(parts)


def transactions_line(frame: Frame) -> str:
    """Return the text below tps."""
    parts = [per_s(frame.rollbacks_per_s, "rolled back")]
    if frame.oldest_transaction_s is not None:
        parts.append(f"oldest {span(frame.oldest_transaction_s)}")
    if frame.deadlocks_per_s:
        parts.append(per_s(frame.deadlocks_per_s, "deadlocks"))
    return ", ".join(parts)


def cpu_line(frame: Frame) -> str:
    """Return the text below CPU."""
    cpu = frame.cpu
    if cpu is None:
        return ""
    shares = (("user", cpu.user), ("sys", cpu.system), ("io", cpu.iowait), ("steal", cpu.steal))
    return " ".join(f"{name} {share * 100:.0f}" for name, share in shares)


def wal_line(frame: Frame) -> str:
    """Return the text below WAL."""
    parts = []
    if frame.wal_syncs_per_s is not None:
        parts.append(per_s(frame.wal_syncs_per_s, "syncs"))
    if frame.wal_full_page_images_per_s:
        parts.append(per_s(frame.wal_full_page_images_per_s, "page images"))
    return ", ".join(parts)


def checkpoint_line(frame: Frame) -> str:
    """Return the last checkpoint, and the WAL that a crash would have to replay."""
    text = f"{span(frame.since_checkpoint_s)} ago, {size(frame.since_redo_bytes)} since"
    pages = frame.checkpoint_buffers_per_s
    return f"{text}, writing {per_s(pages, 'pages')}" if pages else text


def reads_line(frame: Frame) -> str:
    """Return the text below pages read."""
    parts = [f"{frame.cache_hit * 100:.1f} % hit"] if frame.cache_hit is not None else []
    if frame.temp_bytes_per_s:
        parts.append(f"temp {size(frame.temp_bytes_per_s)}/s")
    return ", ".join(parts)


def disk_line(disk: Disk | None) -> str:
    """Return the text below a disk."""
    if disk is None:
        return ""
    awaited = f", {numbers.rounded(disk.write_await_ms, 2)} ms" if disk.write_await_ms is not None else ""
    return f"r {size(disk.read_bytes_per_s)}/s, w {size(disk.written_bytes_per_s)}/s{awaited}"


def disk_name(disk: Disk | None) -> str:
    if disk is None:
        return "disk"
    return printable(f"disk {disk.device}{f' ({disk.holds})' if disk.holds else ''}")


def process_name(process: Process) -> str:
    """Return the kind and activity of a process: `bench@shop UPDATE`, `checkpointer`."""
    first = process.who or process.kind
    return printable(f"{first} {process.activity}".strip())


def statement_name(statement: Statement) -> str:
    """Return the user of a statement, and its command or text; its identifier distinguishes statements of one
    command.
    """
    who = f"{statement.user}@{statement.database}"
    return printable(f"{statement.query or '?'} {statement.query_id} {who}")


def session_name(session: Session) -> str:
    application = f" {session.application}" if session.application else ""
    return printable(f"{session.user}@{session.database}{application}")


def session_state(session: Session) -> str:
    """Return a session's wait, or its state."""
    if session.state not in ("active", "fastpath function call"):
        return printable(session.state)
    return printable(session.wait) or "CPU"


def blocker_line(blocker: Blocker) -> str:
    does = blocker.wait if blocker.state == "active" and blocker.wait else blocker.state
    return printable(f"{blocker.pid} waits for {blocker.lock} of {blocker.blocked_by} ({does or 'unknown'})")
