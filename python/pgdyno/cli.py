"""The command line: its commands, and what it ends with."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Annotated, NoReturn

import typer

from pgdyno.commands.shell import judged, measure, plans, rented, stored
from pgdyno.commands.shell.help import Command
from pgdyno.errors import ExitCode, PgdynoError, PlanError

app = typer.Typer(
    name="pgdyno",
    help="A dynamometer for PostgreSQL: put a server on it, drive it with a known load, get figures to trust.",
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
        typer.Option("--version", callback=_version, is_eager=True, help="Name the versions of pgdyno and pgdrive."),
    ] = False,
) -> None:
    del version


def _terminate(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(ExitCode.HANGUP if number == signal.SIGHUP else ExitCode.TERMINATED)


def main() -> NoReturn:
    """Runs the command that was typed; ends with a documented exit code."""
    if sys.argv[1:] == ["generator-node"]:
        # what a driver calls on the host of a generator, over SSH; nobody types it
        from pgdyno.cluster.node import main as hold

        sys.exit(hold())
    signal.signal(signal.SIGTERM, _terminate)
    # nohup has it ignored, and so it stays
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _terminate)
    try:
        app(standalone_mode=True)
    except PgdynoError as error:
        _say(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        from rich.console import Console

        Console(stderr=True).print("interrupted")
        sys.exit(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # whoever read our output has enough of it; the interpreter's own flush must not complain
        sys.stdout = None
        sys.exit(ExitCode.OK)
    sys.exit(ExitCode.OK)


def _say(error: PgdynoError) -> None:
    from rich.console import Console

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print("[red]error:[/red] ", end="")
    console.print(error.message, markup=False)
    if isinstance(error, PlanError):
        from pgdyno.plan.show import problem_lines

        for line in problem_lines(error):
            console.print(line, markup=False)
    if error.hint:
        console.print("[dim]hint:[/dim] ", end="")
        console.print(error.hint, markup=False)


if __name__ == "__main__":
    main()
