"""`pgdyno watch`: its arguments and options."""

from typing import Annotated

import typer


def watch(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="DSN",
            help="Database, connection string or URI, as for psql. No passwords: use PGPASSWORD or ~/.pgpass.",
        ),
    ] = None,
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
    from pgdyno.commands.watch import Wanted
    from pgdyno.commands.watch import watch as watch_server

    watch_server(Wanted(target, interval, waits_hz, once, json, queries))
