"""`pgdyno serve`."""

from __future__ import annotations

from pathlib import Path

from pgdyno.console import Console
from pgdyno.errors import StoreError
from pgdyno.live.server.web_server import Address, serve
from pgdyno.mounts import is_folder, without_folder


def serve_runs(runs: Path, listen: str | None) -> None:
    """Serves a folder of runs until Ctrl-C. Raises UsageError if the address is not available."""
    address = Address.parse(listen)
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

    serve(runs, address, say)
