"""The command line: the list of commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

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

app = typer.Typer(
    name="pgdyno",
    help="A dynamometer for PostgreSQL: put a known load on a server and get figures that you can trust.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
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
for name, command in COMMANDS.items():
    app.command(name, cls=Command)(command)
for name, commands in GROUPS.items():
    app.add_typer(commands, name=name)


def keep_only(words: Sequence[str]) -> None:
    """Removes all other commands if `words`, a command line, begin with one: typer reads the options of all that
    are left, a tenth of a short command's time.
    """
    name = words[0] if words else ""
    if name in COMMANDS or name in GROUPS:
        app.registered_commands = [each for each in app.registered_commands if each.name == name]
        app.registered_groups = [each for each in app.registered_groups if each.name == name]


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
