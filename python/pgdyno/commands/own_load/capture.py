"""`pgdyno capture`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from pgdyno.commands.support import options


@dataclass(frozen=True, slots=True)
class CaptureCommand:
    """Record what a server's applications do.

    Records the server's log for a time, or reads existing log files, or relays sessions as a proxy, into a folder that
    can be replayed. Changes nothing on the server: if it does not log what a capture needs, prints the statements that
    change its settings, and those that restore them. Ctrl-C ends the recording and keeps what it has.
    """

    folder: Annotated[Path, typer.Option("--into", metavar="DIR", help="New folder for the capture.")]
    dsn: options.Dsn = None
    log: Annotated[
        list[str] | None,
        typer.Option(
            "--log",
            metavar="FILE",
            help="Log file or pattern: csvlog, jsonlog or stderr; with --ssh, on that host. Repeatable.",
        ),
    ] = None
    ssh: Annotated[
        str | None, typer.Option("--ssh", metavar="HOST", help="Read the log over SSH: [USER@]HOST[:PORT].")
    ] = None
    time: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="Record a server for this time.  [default: 10m]")
    ] = None
    proxy: Annotated[
        str | None,
        typer.Option(
            "--proxy", metavar="HOST:PORT", help="Record sessions that connect to this address, instead of a log."
        ),
    ] = None
    proxy_tls: Annotated[
        str | None,
        typer.Option(
            "--proxy-tls",
            metavar="FILE|new",
            help="Accept TLS at the proxy: a PEM file with certificate and key, or a new certificate.",
        ),
    ] = None
    statements: Annotated[
        bool, typer.Option("--statements", help="Read pg_stat_statements instead of a log: no order, no values.")
    ] = False
    values: Annotated[
        Literal["anonymised", "kept"] | None,
        typer.Option("--values", help="Replace text in values, or keep it.  [default: anonymised]"),
    ] = None
    prefix: Annotated[
        str | None, typer.Option("--prefix", metavar="TEXT", help="log_line_prefix of stderr log files.")
    ] = None
    database: Annotated[
        str | None,
        typer.Option("--database", metavar="NAME", help="Database to capture, if the log files have several."),
    ] = None
    user: Annotated[str | None, typer.Option("--user", metavar="NAME", help="Capture only this user.")] = None
    application: Annotated[
        str | None, typer.Option("--application", metavar="NAME", help="Capture only this application_name.")
    ] = None
    only_reads: Annotated[bool, typer.Option("--reads", help="Leave out statements that write, or may write.")] = False
    from_time: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help='Leave out what log files have before: "2026-03-01 09:00 CET".'),
    ] = None
    to_time: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Leave out what log files have after.")
    ] = None
    max_size: Annotated[
        str,
        typer.Option(
            "--max-size", "--most", metavar="SIZE", help="End the capture after copying this much of the log."
        ),
    ] = "10GB"
    quiet: options.Quiet = False
    json: Annotated[
        bool, typer.Option("--json", help='Print {"folder": path, "calls": n, "left_out": [...], "notes": [...]}.')
    ] = False

    def __call__(self) -> None:
        from pgdyno.commands.own_load.record_load import capture

        capture(self)

    @property
    def logs(self) -> Sequence[str]:
        return self.log or ()

    @property
    def of_logs(self) -> dict[str, object]:
        """Options that concern logs only."""
        return {"--log": self.log, "--ssh": self.ssh, "--values": self.values, "--prefix": self.prefix} | self.chosen

    @property
    def chosen(self) -> dict[str, object]:
        """Options that choose statements of logs and of proxies."""
        return {
            "--proxy": self.proxy,
            "--user": self.user,
            "--application": self.application,
            "--reads": self.only_reads,
        }
