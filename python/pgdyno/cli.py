"""The command line: the list of commands."""

from importlib import import_module
from inspect import getdoc
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from pgdyno.user_config import config_path, defaults, read_config

COMMANDS = {
    "run": "run:run",
    "ab": "comparison.ab:ab",
    "impact": "comparison.impact:impact",
    "bisect": "bisection.bisect:BisectCommand",
    "count": "comparison.count:count",
    "query": "comparison.query:query",
    "tune": "tune:tune",
    "doctor": "doctor:doctor",
    "watch": "watch:watch",
    "capture": "own_load.capture:CaptureCommand",
    "synthesise": "own_load.synthesise:synthesise",
    "import": "import_export:import_",
    "list": "list_runs:list_",
    "show": "show:show",
    "report": "report:report",
    "publish": "publish:publish",
    "export": "import_export:export",
    "copy": "import_export:copy",
    "compare": "comparison.compare:compare",
    "gate": "comparison.compare:gate",
    "analyse": "analyse:analyse",
    "audit": "analyse:audit",
    "serve": "serve:serve",
    "history": "history:history",
    "reap": "rented.reap:ReapCommand",
}
"""Module below `pgdyno.commands` and function of each command, or a class whose fields are its options."""
GROUPS = {"plan": "plan:app", "target": "rented.target:app"}


class Commands(TyperGroup):
    """Imports a command and reads its options when it is used: those of all take longer than to start."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - typer's
        super().__init__(**settings)
        for name in COMMANDS:
            self.add_command(TyperCommand(name))
        for name in GROUPS:
            self.add_command(TyperGroup(name=name))

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - of click, or of Typer's copy of it
        """Add the help texts, which the list and the shell's completion show."""
        for name, command in self.commands.items():
            command.help = _load(GROUPS[name]).info.help if name in GROUPS else getdoc(_load(COMMANDS[name]))
        return super().list_commands(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - likewise
        name, command, rest = super().resolve_command(ctx, args)
        if name is None:
            return name, command, rest
        if name in GROUPS:
            commands = _load(GROUPS[name])
        else:
            from pgdyno.commands.support.options import Command

            commands = typer.Typer(add_completion=False, rich_markup_mode=None)
            commands.command(name, cls=Command)(_load(COMMANDS[name]))
        command = typer.main.get_command(commands)
        command.name = name
        return name, command, rest


def _load(place: str) -> Any:  # noqa: ANN401 - a function, a class or a group of commands
    module, _, name = place.partition(":")
    return getattr(import_module(f"pgdyno.commands.{module}"), name)


app = typer.Typer(
    name="pgdyno",
    cls=Commands,
    help="A dynamometer for PostgreSQL: put a known load on a server and get figures that you can trust.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def configured_defaults() -> dict[str, dict[str, str]]:
    """Return the user's own defaults, by command. Raises UsageError."""
    return defaults(read_config(config_path()), COMMANDS)


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
        typer.Option(
            "--version", "-V", callback=_version, is_eager=True, help="Print the versions of pgdyno and pgdrive."
        ),
    ] = False,
) -> None:
    del version
