"""The command line: the list of commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from pgdyno.commands.shell import judged, measure, plans, rented, stored
from pgdyno.commands.shell.help import Command

app = typer.Typer(
    name="pgdyno",
    help="A dynamometer for PostgreSQL: put a known load on a server and get figures that you can trust.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS: dict[str, Callable[..., None]] = {
    "run": measure.run,
    "doctor": measure.doctor,
    "watch": measure.watch,
    "import": stored.import_,
    "list": stored.list_,
    "show": stored.show,
    "report": stored.report,
    "export": stored.export,
    "copy": stored.copy,
    "compare": judged.compare,
    "gate": judged.gate,
    "analyse": judged.analyse,
    "audit": judged.audit,
    "serve": stored.serve,
    "history": judged.history,
    "reap": rented.reap,
}
for name, command in COMMANDS.items():
    app.command(name, cls=Command)(command)
app.add_typer(plans.app, name="plan")
app.add_typer(rented.app, name="target")


def _version(wanted: bool) -> None:
    if wanted:
        from pgdyno import __version__
        from pgdyno.programs import find_engine

        typer.echo(f"pgdyno {__version__}")
        engine = find_engine()
        typer.echo(f"pgdrive {engine.version} ({engine.path})")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the versions of pgdyno and pgdrive."),
    ] = False,
) -> None:
    del version
