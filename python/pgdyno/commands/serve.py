"""`pgdyno serve`."""

from pathlib import Path
from typing import Annotated

import typer

from pgdyno.commands.support import options
from pgdyno.errors import StoreError


def serve(
    runs: Annotated[
        Path, typer.Argument(metavar="DIR", envvar="PGDYNO_RUNS", help="Folder of run folders.")
    ] = options.DEFAULT_RUNS,
    listen: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Listen at ADDRESS[:PORT] or :PORT.  [default: 127.0.0.1:8432]"),
    ] = None,
) -> None:
    """Show runs in a browser.

    Serves the current run and all stored runs. Press Ctrl-C to stop.
    """
    from pgdyno.console import Console
    from pgdyno.live.server import web_server
    from pgdyno.mounts import is_folder, without_folder

    address = web_server.Address.parse(listen)
    if not is_folder(runs):
        raise StoreError(without_folder(runs), hint="name a folder of runs; pgdyno run quick makes one")
    console = Console()

    def say(url: str) -> None:
        console.print(url, soft_wrap=True)
        if not address.is_loopback:
            console.print(
                "The token after the # is shown only here. The connection is not encrypted: use an SSH tunnel or a"
            )
            console.print("TLS proxy (docs/guides/live.md, 'Who may look').")

    web_server.serve(runs, address, say)
