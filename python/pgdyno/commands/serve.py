"""`pgdyno serve`."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from pgdyno.live.address import Address
from pgdyno.live.serve import serve


def serve_runs(runs: Path, listen: str | None) -> None:
    """Serves a folder of runs until Ctrl-C. Raises UsageError when the address cannot be had."""
    address = Address.parse(listen)
    console = Console(highlight=False)

    def say(url: str) -> None:
        console.print(url, markup=False, soft_wrap=True)
        if not address.is_loopback:
            console.print(
                "The token behind the # is said only here. It travels unencrypted: see the guide.", markup=False
            )

    serve(runs, address, say)
