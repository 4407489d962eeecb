"""`pgdyno synthesise`."""

import shlex
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.records.capture import Capture
    from pgdyno.synthesise.modelled_load import Model

FORMAT = 1
"""The version of the JSON output."""


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
    from pgdyno.capture.folder import read_capture, refuse_existing
    from pgdyno.safe_output import print_json
    from pgdyno.synthesise.model_folder import write_model

    capture = read_capture(folder)
    into = into or folder.resolve().with_name(f"{folder.resolve().name}-model")
    refuse_existing(into)
    if not capture.calls or capture.span_us <= 0:
        raise UsageError(f"{folder} has no statements", hint="capture while the application runs")
    model = _model(folder, capture, min_share / 100, dsn)
    write_model(into, model)
    if json:
        print_json(_model_json(into, model))
    else:
        _show(into, model)


def _model(folder: Path, capture: "Capture", least: float, dsn: str | None) -> "Model":
    from pgdyno.capture.server.server_session import reach_server
    from pgdyno.commands.support.password import password_prompt
    from pgdyno.records.capture import Source
    from pgdyno.synthesise.modelled_load import model_log, model_statistics

    if capture.source is not Source.STATEMENTS:
        if dsn is not None:
            raise UsageError("--dsn is for captures of pg_stat_statements: a log has the values", hint="remove --dsn")
        return model_log(folder, capture, least)
    if dsn is None:
        message = f"{folder} comes from pg_stat_statements, which has no values"
        raise UsageError(message, hint="name the database, or a copy of it: --dsn; its statistics give them")
    with closing(reach_server(dsn, password_prompt()).connect()) as connection:
        return model_statistics(folder, capture, least, connection)


def _show(into: Path, model: "Model") -> None:
    from pgdyno.capture.folder import PLAN_FILE
    from pgdyno.console import Console
    from pgdyno.synthesise.model_folder import left_share

    console = Console(soft_wrap=True)
    of = "time on the server" if any(each.total_us for each in model.capture.statements) else "statements"
    console.print(f"{into}/ covers {100 * model.modelled:.1f} % of the {of}:")
    width = max(len(script.name) for script in model.scripts)
    for script in model.scripts:
        console.print(f"  {script.name:<{width}}  {script.summary}")
    for each in model.left:
        console.print(
            f"left out: {each.count:,} transactions, {100 * left_share(each, model.capture):.2f} % of the time"
        )
        console.print(f"  {each.reason.value}")
    for note in model.notes:
        console.print(f"note: {note}")
    arrivals = model.arrivals
    loop = f"open loop, {arrivals.rate:g} transactions/s" if arrivals.rate is not None else "closed loop"
    console.print(f"{loop}, clients: {arrivals.clients}, protocol: {model.protocol}")
    console.print(f"Run it:  name a copy of the database in {into / PLAN_FILE}, then")
    console.print(f"         pgdyno run {shlex.quote(str(into / PLAN_FILE))}")


def _model_json(into: Path, model: "Model") -> dict[str, object]:
    return {
        "format": FORMAT,
        "folder": str(into),
        "modelled": model.modelled,
        "clients": model.arrivals.clients,
        "rate": model.arrivals.rate,
        "protocol": model.protocol,
        "scripts": [{"name": script.name, "weight": script.weight} for script in model.scripts],
        "left_out": [
            {"reason": each.reason.name.lower().replace("_", "-"), "message": each.reason.value, "count": each.count}
            for each in model.left
        ],
        "notes": model.notes,
    }
