"""`pgdyno watch`."""

import os
import shutil
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from pgdyno.commands.support import options
from pgdyno.errors import TargetError, UsageError

if TYPE_CHECKING:
    from pgdyno.watch.frame import Frame
    from pgdyno.watch.screen import Looks

MOST_HZ = 100
HEADING_EVERY = 20


def watch(
    target: options.Dsn = None,
    interval: Annotated[int, typer.Option(metavar="SECONDS", help="Seconds per frame: 1, 2, 5, 10, 30 or 60.")] = 1,
    once: Annotated[bool, typer.Option("--once", help="Print one frame as text and exit.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON object per interval.")] = False,
    queries: Annotated[
        bool, typer.Option("--queries", help="Show statements without literals, not only their command.")
    ] = False,
    waits_hz: Annotated[
        int | None,
        typer.Option(
            "--waits-hz", metavar="NUM", help="Session samples per second.  [default: 10, over the network 1]"
        ),
    ] = None,
) -> None:
    """Watch a server live.

    Shows active sessions by wait, throughput, CPU, disks, WAL and processes; changes nothing on the server. The
    password is taken from PGPASSWORD, ~/.pgpass or a service file, or asked for. Press q to quit.
    """
    from pgdyno.commands.support.password import password_prompt
    from pgdyno.console import Console
    from pgdyno.safe_output import print_json
    from pgdyno.watch.find_server import find
    from pgdyno.watch.frame import INTERVALS, History
    from pgdyno.watch.loop import watch as watch_server
    from pgdyno.watch.screen import Looks
    from pgdyno.watch.views import PrintedView, ScreenView, View

    if interval not in INTERVALS:
        raise UsageError(f"--interval must be one of {', '.join(map(str, INTERVALS))} seconds")
    if waits_hz is not None and not 1 <= waits_hz <= MOST_HZ:
        raise UsageError(f"--waits-hz must be a number from 1 to {MOST_HZ}")
    found, connection = find(target, password_prompt())
    history, console = History(queries=queries), Console()
    looks = Looks(interval, colours=not os.environ.get("NO_COLOR"), queries=queries)
    if not (json or once) and console.is_terminal and not console.is_dumb_terminal:
        view: View = ScreenView(console, looks)
    else:
        show = print_json if json else partial(_print_page, looks) if once else _LinePrinter().print
        view = PrintedView(interval, show, once=once)
    try:
        watch_server(found, connection, waits_hz, history, view)
    except BrokenPipeError:
        # the reader has closed the pipe; the interpreter's own flush must not fail on it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if once and history.points and history.frame(1)["away"] is not None:
        raise TargetError(f"lost the connection to the server: {history.frame(1)['away']}")


def _print_page(looks: "Looks", frame: "Frame") -> None:
    from pgdyno.console import Console
    from pgdyno.watch.screen import page

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

    def print(self, frame: "Frame") -> None:
        from pgdyno.watch.screen import HEADING, line

        if self._number % HEADING_EVERY == 0:
            print(HEADING)
        self._number += 1
        print(line(frame), flush=True)
