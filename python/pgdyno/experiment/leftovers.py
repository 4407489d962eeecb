"""Sessions of earlier trials that are still in the server: no trial begins alongside them.

An engine cancels its statements before it ends. One that was killed, or cut off from the server, cannot, and then the
server goes on with them until it has an answer that it cannot send.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg

from pgdyno.errors import TargetError
from pgdyno.experiment.state import RunState
from pgdyno.plan import PlannedTrial
from pgdyno.records import Leftovers
from pgdyno.report.run_events import SetUp
from pgdyno.targets import Server

WAIT_S = 5.0
"""How long they may take to end by themselves, then after they were canceled, then after they were terminated."""
POLL_S = 0.05
SHOWN = 3
"""How many sessions a message names."""
SHOWN_CHARACTERS = 80

# of our own role only: that needs no privilege, and others' sessions are not ours to end
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


def sessions_name(state: RunState, trial: PlannedTrial) -> str:
    """The application_name of a trial's clients: `pgdrive 1f3a90c2/7`, which tells run and trial."""
    return f"{_prefix(state)}{trial.number}"


def _prefix(state: RunState) -> str:
    manifest = state.folder.manifest
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


def end_leftovers(state: RunState, trial: PlannedTrial, server: Server) -> Leftovers | None:
    """Waits until no session of an earlier trial is in `server` or its standbys; ends those that stay.

    None if there was none. Raises TargetError when some cannot be ended, psycopg.Error.
    """
    pattern = f"{_prefix(state)}%"
    began = time.monotonic()
    with ExitStack() as contexts:
        connections = [contexts.enter_context(server.connect(server.maintenance))]
        for address in server.replica_addresses():
            # one that is down has no sessions
            with suppress(TargetError):
                connections.append(contexts.enter_context(address.connect(server.maintenance)))
        found = [_end(connection, pattern, state) for connection in connections]
    if not any(each.sessions for each in found):
        return None
    leftovers = Leftovers(
        sessions=sum(each.sessions for each in found),
        seconds=round(time.monotonic() - began, 6),
        canceled=sum(each.canceled for each in found),
        terminated=sum(each.terminated for each in found),
    )
    if leftovers.canceled or leftovers.terminated:
        state.note(f"trial {trial.number}: {_words(leftovers)}")
    return leftovers


def _words(leftovers: Leftovers) -> str:
    count = leftovers.sessions
    sessions = f"{count} session{'s' if count != 1 else ''} of an earlier trial"
    return (
        f"{sessions} had not ended; statements canceled: {leftovers.canceled}, "
        f"sessions terminated: {leftovers.terminated}"
    )


def _end(connection: Connection, pattern: str, state: RunState) -> Leftovers:
    first = _look(connection, pattern)
    left, canceled, terminated = first, 0, 0
    if first:
        state.view.event(SetUp("waiting until the sessions of earlier trials have ended"))
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
            f"sessions of earlier trials are still in the server, {3 * WAIT_S:g} s after the trial was due: "
            f"{shown}{others}",
            hint="a trial alongside them would measure them too: end them, and resume the run",
        )
    return Leftovers(sessions=len(first), seconds=0.0, canceled=canceled, terminated=terminated)


def _wait(connection: Connection, pattern: str) -> list[_Session]:
    """Those that are left when none is, or when the time is over."""
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
