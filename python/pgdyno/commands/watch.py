"""`pgdyno watch`."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass

from pgdyno.commands.support.password import password_prompt
from pgdyno.console import Console
from pgdyno.errors import TargetError, UsageError
from pgdyno.watch import INTERVALS, History, JsonView, LineView, PageView, ScreenView, View, Watcher, find

MOST_HZ = 100


@dataclass(frozen=True, slots=True)
class Wanted:
    """The arguments of `pgdyno watch`."""

    target: str | None
    interval: int
    waits_hz: int | None
    once: bool
    json: bool
    queries: bool


def watch(wanted: Wanted) -> None:
    """Watches until the user quits. Raises UsageError, TargetError, EngineError."""
    if wanted.interval not in INTERVALS:
        raise UsageError(f"--interval must be one of {', '.join(map(str, INTERVALS))} seconds")
    if wanted.waits_hz is not None and not 1 <= wanted.waits_hz <= MOST_HZ:
        raise UsageError(f"--waits-hz must be a number from 1 to {MOST_HZ}")
    found, connection = find(wanted.target, password_prompt())
    history = History(queries=wanted.queries)
    try:
        Watcher(found, wanted.waits_hz, history).watch(connection, _view(wanted))
    except BrokenPipeError:
        # the reader has closed the pipe; the interpreter's own flush must not fail on it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if wanted.once and history.points and history.frame(1).away is not None:
        raise TargetError(f"lost the connection to the server: {history.frame(1).away}")


def _view(wanted: Wanted) -> View:
    if wanted.json:
        return JsonView(wanted.interval, once=wanted.once)
    if wanted.once:
        return PageView(wanted.interval, shutil.get_terminal_size((100, 24)).columns)
    console = Console()
    if console.is_terminal and not console.is_dumb_terminal:
        return ScreenView(console, wanted.interval)
    return LineView(wanted.interval)
