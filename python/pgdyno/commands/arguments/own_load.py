"""`pgdyno capture` and `synthesise`: arguments in, one function a command."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from pgdyno.commands.arguments.options import QuietOption


def capture(
    folder: Annotated[Path, typer.Option("--into", metavar="DIR", help="New folder for the capture.")],
    dsn: Annotated[
        str | None,
        typer.Argument(
            metavar="DSN",
            help="Database, connection string or URI, as for psql. No passwords: use PGPASSWORD or ~/.pgpass.",
        ),
    ] = None,
    log: Annotated[
        list[str] | None,
        typer.Option(
            "--log",
            metavar="FILE",
            help="Log file or pattern: csvlog, jsonlog or stderr; with --ssh, on that host. Repeatable.",
        ),
    ] = None,
    ssh: Annotated[
        str | None, typer.Option("--ssh", metavar="HOST", help="Read the log over SSH: [USER@]HOST[:PORT].")
    ] = None,
    time: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="Record a server for this time.  [default: 10m]")
    ] = None,
    statements: Annotated[
        bool, typer.Option("--statements", help="Read pg_stat_statements instead of a log: no order, no values.")
    ] = False,
    values: Annotated[
        Literal["anonymised", "kept"] | None,
        typer.Option("--values", help="Replace text in values, or keep it.  [default: anonymised]"),
    ] = None,
    prefix: Annotated[
        str | None, typer.Option("--prefix", metavar="TEXT", help="log_line_prefix of stderr log files.")
    ] = None,
    database: Annotated[
        str | None,
        typer.Option("--database", metavar="NAME", help="Database to capture, if the log files have several."),
    ] = None,
    from_time: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help='Leave out what log files have before: "2026-03-01 09:00 CET".'),
    ] = None,
    to_time: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Leave out what log files have after.")
    ] = None,
    max_size: Annotated[
        str,
        typer.Option(
            "--max-size", "--most", metavar="SIZE", help="End the capture after copying this much of the log."
        ),
    ] = "10GB",
    quiet: QuietOption = False,
    json: Annotated[
        bool, typer.Option("--json", help='Print {"folder": path, "calls": n, "left_out": [...], "notes": [...]}.')
    ] = False,
) -> None:
    """Record what a server's applications do.

    Records the server's log for a time, or reads existing log files, into a folder that can be replayed. Changes
    nothing on the server: if it does not log what a capture needs, prints the statements that change its settings, and
    those that restore them. Ctrl-C ends the recording and keeps what it has.
    """
    from pgdyno.commands.own_load.capture import Wanted
    from pgdyno.commands.own_load.capture import capture as record

    record(
        Wanted(
            folder=folder,
            dsn=dsn,
            logs=log or [],
            ssh=ssh,
            time=time,
            statements=statements,
            values=values,
            prefix=prefix,
            database=database,
            span=(from_time, to_time),
            most=max_size,
            quiet=quiet,
            json=json,
        )
    )


def synthesise(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of a capture.")],
    into: Annotated[
        Path | None, typer.Option("--into", metavar="DIR", help="New folder for the model.  [default: FOLDER-model]")
    ] = None,
    min_share: Annotated[
        float,
        typer.Option(
            "--min-share",
            "--least",
            metavar="PERCENT",
            min=0,
            max=100,
            help="Leave out transactions below this share of the server's time.",
        ),
    ] = 0.1,
    dsn: Annotated[
        str | None,
        typer.Option(
            "--dsn", metavar="DSN", help="Database whose statistics give values to a capture of pg_stat_statements."
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help='Print {"folder": path, "scripts": [...], "left_out": [...], ...}.')
    ] = False,
) -> None:
    """Model a captured load, at any size.

    Writes a plan with a script for each kind of transaction, its weight, values drawn as the captured ones were, and
    the number of clients and the rate.
    """
    from pgdyno.commands.own_load.synthesise import synthesise as model

    model(folder, into, min_share / 100, dsn, json=json)
