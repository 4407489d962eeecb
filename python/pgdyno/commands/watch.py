"""`pgdyno watch`."""

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from pgdyno.commands.support import options
from pgdyno.errors import TargetError

if TYPE_CHECKING:
    from pgdyno.console import Console
    from pgdyno.watch.frame import Frame

HEADING_EVERY = 20


def watch(
    target: options.Dsn = None,
    interval: Annotated[int, typer.Option(metavar="SECONDS", help="Seconds per frame: 1 to 60.", min=1, max=60)] = 1,
    once: Annotated[bool, typer.Option("--once", help="Print one frame as text and exit.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON object per interval.")] = False,
    queries: Annotated[
        bool, typer.Option("--queries", help="Show statements without literals, not only their command.")
    ] = False,
    waits_hz: Annotated[
        int | None,
        typer.Option(
            "--waits-hz",
            metavar="NUM",
            help="Session samples per second.  [default: 10, over the network 1]",
            min=1,
            max=100,
        ),
    ] = None,
) -> None:
    """Watch a server live.

    Shows active sessions by wait, throughput, CPU, disks, WAL and processes; changes nothing on the server. The
    password is taken from PGPASSWORD, ~/.pgpass or a service file, or asked for. Press Ctrl-C to quit.
    """
    from pgdyno.commands.support.password import password_prompt
    from pgdyno.console import Console
    from pgdyno.safe_output import print_json
    from pgdyno.watch.find_server import find
    from pgdyno.watch.sampling import frames

    found = find(target, password_prompt())
    console = Console()
    notes: dict[str, None] = {}
    with closing(frames(found, waits_hz, interval, notes, queries=queries)) as sampled:
        if console.is_terminal and not (json or once or console.is_dumb_terminal):
            _draw(console, sampled, notes, queries=queries)
            return
        noted = 0
        for number, frame in enumerate(sampled, start=1):
            for note in list(notes)[noted:]:
                print(f"note: {note}", file=sys.stderr, flush=True)
            noted = len(notes)
            if number % interval == 0:
                if json:
                    print_json(frame)
                elif once:
                    _print_page(console, frame, queries=queries)
                else:
                    _print_line(frame, with_heading=number // interval % HEADING_EVERY == 1)
                if once:
                    break
    if frame["away"] is not None:
        raise TargetError(f"lost the connection to the server: {frame['away']}")


def _draw(console: "Console", sampled: "Iterator[Frame]", notes: "dict[str, None]", *, queries: bool) -> None:
    """Draw each frame over the last one. Ctrl-Z gives the terminal back until the shell continues the process."""
    from rich.live import Live
    from rich.text import Text

    from pgdyno.watch.page import Page

    stops: list[int] = []
    note_stop = lambda number, _: stops.append(number)  # noqa: E731
    signal.signal(signal.SIGTSTP, note_stop)
    waiting = Text("connected; the first figures appear in two seconds", "dim")
    with Live(waiting, console=console, screen=True, auto_refresh=False) as live:
        for frame in sampled:
            if stops:
                stops.clear()
                live.stop()
                signal.signal(signal.SIGTSTP, signal.SIG_DFL)
                # the process stops here
                os.kill(os.getpid(), signal.SIGTSTP)
                signal.signal(signal.SIGTSTP, note_stop)
                live.start()
            live.update(Page(frame, queries, list(notes), console.height), refresh=True)


def _print_page(console: "Console", frame: "Frame", *, queries: bool) -> None:
    from pgdyno.watch.page import Page

    console.width = shutil.get_terminal_size((100, 24)).columns
    with console.capture() as captured:
        console.print(Page(frame, queries))
    # rich has escaped it, and `print` would escape its colours
    console.file.write("".join(f"{each.rstrip()}\n" for each in captured.get().splitlines()))
    console.file.flush()


def _print_line(frame: "Frame", *, with_heading: bool) -> None:
    """Print a line, as vmstat does, and the heading now and then."""
    from pgdyno.watch.page import HEADING, line

    if with_heading:
        print(HEADING)
    print(line(frame), flush=True)
