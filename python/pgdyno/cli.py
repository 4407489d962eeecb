"""The command line: the list of commands."""

from __future__ import annotations

from collections.abc import Callable
from inspect import getdoc
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from pgdyno.commands.arguments import (
    ab,
    compare_and_analyse,
    doctor,
    own_load,
    plan,
    run,
    stored_runs,
    target,
    tune,
    watch,
)
from pgdyno.commands.arguments.options import Command
from pgdyno.user_config import config_path, defaults, read_config

COMMANDS: dict[str, Callable[..., None]] = {
    "run": run.run,
    "ab": ab.ab,
    "tune": tune.tune,
    "doctor": doctor.doctor,
    "watch": watch.watch,
    "capture": own_load.capture,
    "synthesise": own_load.synthesise,
    "import": stored_runs.import_,
    "list": stored_runs.list_,
    "show": stored_runs.show,
    "report": stored_runs.report,
    "export": stored_runs.export,
    "copy": stored_runs.copy,
    "compare": compare_and_analyse.compare,
    "gate": compare_and_analyse.gate,
    "analyse": compare_and_analyse.analyse,
    "audit": compare_and_analyse.audit,
    "serve": stored_runs.serve,
    "history": compare_and_analyse.history,
    "reap": target.reap,
}
GROUPS = {"plan": plan.app, "target": target.app}


class Commands(TyperGroup):
    """Reads the options of a command when it is used: typer takes longer to read those of all than to start."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - typer's
        super().__init__(**settings)
        for name, command in COMMANDS.items():
            self.add_command(TyperCommand(name, help=getdoc(command)))
        for name, commands in GROUPS.items():
            self.add_command(TyperGroup(name=name, help=commands.info.help))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - of click, or of Typer's copy of it
        name, command, rest = super().resolve_command(ctx, args)
        if name is None:
            return name, command, rest
        commands = GROUPS.get(name)
        if commands is None:
            commands = typer.Typer(add_completion=False, rich_markup_mode=None)
            commands.command(name, cls=Command)(COMMANDS[name])
        command = typer.main.get_command(commands)
        command.name = name
        return name, command, rest


app = typer.Typer(
    name="pgdyno",
    cls=Commands,
    help="A dynamometer for PostgreSQL: put a known load on a server and get figures that you can trust.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def configured() -> dict[str, dict[str, str]]:
    """Returns the user's own defaults, by command. Raises UsageError."""
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
