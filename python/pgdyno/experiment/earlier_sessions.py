"""Sessions of earlier trials that are still in the server: pgdyno ends them before the next trial.

An engine cancels its statements before it ends. One that was killed, or lost its network, cannot do that, and then the
server executes them until it has an answer that it cannot send.
"""

import hashlib
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg

from pgdyno.errors import TargetError
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.messages import Message
from pgdyno.plan import PlannedTrial
from pgdyno.records import Leftovers, Manifest
from pgdyno.targets import Server

WAIT_S = 5.0
"""How long pgdyno waits for their own end, then after it canceled them, then after it terminated them."""
POLL_S = 0.05
SHOWN = 3
"""How many sessions a message names."""
SHOWN_CHARACTERS = 80

# only sessions of the same role: ending them needs no privilege, and those of other roles are not pgdyno's
_OURS: LiteralString = """
    FROM pg_stat_activity
    WHERE application_name LIKE %s AND usename = session_user AND backend_type = 'client backend'
"""
_LOOK: LiteralString = (
    "SELECT pid, coalesce(state, ''), application_name, coalesce(query, '')" + _OURS + "ORDER BY backend_start"
)
_CANCEL: LiteralString = "SELECT count(*) FILTER (WHERE pg_cancel_backend(pid))" + _OURS + "AND state <> 'idle'"
_TERMINATE: LiteralString = "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid))" + _OURS

Connection = psycopg.Connection[tuple[Any, ...]]


def sessions_name(manifest: Manifest, trial: PlannedTrial) -> str:
    """Return the application_name of a trial's clients, which identifies run and trial: `pgdrive 1f3a90c2/7`."""
    return f"{_prefix(manifest)}{trial.number}"


def _prefix(manifest: Manifest) -> str:
    run = hashlib.sha256(f"{manifest.run} {manifest.started_at.isoformat()}".encode())
    return f"pgdrive {run.hexdigest()[:8]}/"


@dataclass(frozen=True, slots=True)
class _Session:
    pid: int
    state: str
    name: str
    query: str

    def __str__(self) -> str:
        query = " ".join(self.query.split())
        shown = query if len(query) <= SHOWN_CHARACTERS else f"{query[:SHOWN_CHARACTERS]}…"
        return f"pid {self.pid} of trial {self.name.rpartition('/')[2]} ({self.state}: {shown})"


def end_leftovers(manifest: Manifest, trial: PlannedTrial, server: Server, progress: RunProgress) -> Leftovers | None:
    """Wait until no session of an earlier trial is in `server` or its standbys, and end those that stay.

    Returns None if there was none. Raises TargetError if some sessions do not end, psycopg.Error.
    """
    pattern = f"{_prefix(manifest)}%"
    began = time.monotonic()
    with ExitStack() as contexts:
        connections = [contexts.enter_context(server.connect(server.maintenance))]
        for address in server.replica_addresses():
            # a standby that is down has no sessions
            with suppress(TargetError):
                connections.append(contexts.enter_context(address.connect(server.maintenance)))
        found = [_end(connection, pattern, progress) for connection in connections]
    if not any(each.sessions for each in found):
        return None
    leftovers = Leftovers(
        sessions=sum(each.sessions for each in found),
        seconds=round(time.monotonic() - began, 6),
        canceled=sum(each.canceled for each in found),
        terminated=sum(each.terminated for each in found),
    )
    if leftovers.canceled or leftovers.terminated:
        progress.note(
            Message(
                "trial-earlier-sessions",
                "trial {trial}: {count} session of an earlier trial had not ended; statements canceled: {canceled}, "
                "sessions terminated: {terminated}",
                "trial {trial}: {count} sessions of an earlier trial had not ended; statements canceled: {canceled}, "
                "sessions terminated: {terminated}",
                trial=trial.number,
                count=leftovers.sessions,
                canceled=leftovers.canceled,
                terminated=leftovers.terminated,
            )
        )
    return leftovers


def _end(connection: Connection, pattern: str, progress: RunProgress) -> Leftovers:
    first = _look(connection, pattern)
    left, canceled, terminated = first, 0, 0
    if first:
        progress.set_up("waiting until the sessions of earlier trials have ended")
        left = _wait(connection, pattern)
    if left:
        canceled = _count(connection, _CANCEL, pattern)
        left = _wait(connection, pattern)
    if left:
        terminated = _count(connection, _TERMINATE, pattern)
        left = _wait(connection, pattern)
    if left:
        others = f", and {len(left) - SHOWN} more" if len(left) > SHOWN else ""
        shown = ", ".join(str(each) for each in left[:SHOWN])
        raise TargetError(
            f"sessions of earlier trials are still active on the server, {3 * WAIT_S:g} s after the trial was due: "
            f"{shown}{others}",
            hint="the trial would measure them, too: end them, and resume the run",
        )
    return Leftovers(sessions=len(first), seconds=0.0, canceled=canceled, terminated=terminated)


def _wait(connection: Connection, pattern: str) -> list[_Session]:
    """Return the sessions that are left when the time is over; none if all ended earlier."""
    deadline = time.monotonic() + WAIT_S
    while (left := _look(connection, pattern)) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return left


def _look(connection: Connection, pattern: str) -> list[_Session]:
    return [_Session(*row) for row in connection.execute(_LOOK, [pattern]).fetchall()]


def _count(connection: Connection, statement: LiteralString, pattern: str) -> int:
    row = connection.execute(statement, [pattern]).fetchone()
    assert row is not None
    return int(row[0])
