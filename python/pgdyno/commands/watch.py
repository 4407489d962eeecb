"""`pgdyno watch`."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass

from pgdyno.commands.support.password import password_prompt
from pgdyno.console import Console
from pgdyno.errors import TargetError, UsageError
from pgdyno.safe_output import print_json
from pgdyno.watch.find_server import find
from pgdyno.watch.frame import INTERVALS, Frame, History
from pgdyno.watch.loop import Watcher
from pgdyno.watch.screen import HEADING, Looks, line, page
from pgdyno.watch.views import PrintedView, ScreenView, View

MOST_HZ = 100
HEADING_EVERY = 20


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
    console = Console()
    if not (wanted.json or wanted.once) and console.is_terminal and not console.is_dumb_terminal:
        return ScreenView(console, wanted.interval)
    show = _print_json if wanted.json else _print_page if wanted.once else _LinePrinter().print
    return PrintedView(wanted.interval, show, once=wanted.once)


def _print_json(frame: Frame, looks: Looks) -> None:
    head = {"server": looks.title, "server_version": looks.version, "processors": looks.processors}
    print_json({**frame.as_json(), **head})


def _print_page(frame: Frame, looks: Looks) -> None:
    console = Console()
    console.width = shutil.get_terminal_size((100, 24)).columns
    with console.capture() as captured:
        console.print(page(frame, looks))
    console.file.write("".join(f"{each.rstrip()}\n" for each in captured.get().splitlines()))
    console.file.flush()


class _LinePrinter:
    """Prints a line per interval, as vmstat does, and the heading now and then."""

    def __init__(self) -> None:
        self._number = 0

    def print(self, frame: Frame, _looks: Looks) -> None:
        if self._number % HEADING_EVERY == 0:
            print(HEADING)
        self._number += 1
        print(line(frame), flush=True)
