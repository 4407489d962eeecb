"""`pgdyno copy`: copies complete runs to and from object storage."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from pgdyno.cluster.tasks import in_line
from pgdyno.commands.spread import Unread, each_run, say_unread
from pgdyno.console import Console
from pgdyno.errors import ExitCode, UsageError
from pgdyno.records import Outcome
from pgdyno.store import RunFolder
from pgdyno.store.named import named_runs
from pgdyno.store.remote.address import Address, is_remote
from pgdyno.store.remote.runs import copied, upload


def copy_runs(named: Sequence[str], to: str, runs: Path) -> ExitCode:
    """Copies each run into `to` and prints its new location; reports the runs that cannot be copied.

    The exit code is that of the first failure. Raises StoreError and UsageError.
    """
    if is_remote(to):
        # printed once, not for each run
        Address.of(to)
    found = named_runs(named, runs)
    if not is_remote(to) and not all(is_remote(place) for place in found.places):
        raise UsageError("both the runs and the destination are on this machine", hint="use cp -r")
    console = Console()
    unread: list[Unread] = []
    for _, where in each_run(in_line, partial(_copied, to), found.places):
        if isinstance(where, Unread):
            unread.append(where)
        else:
            console.print(where, soft_wrap=True)
    say_unread(unread)
    return unread[0].exit_code if unread else ExitCode.OK


def _copied(to: str, place: str) -> str:
    if not is_remote(to):
        return str(copied(Address.of(place), Path(to).expanduser()).path)
    at = Address.of(to)
    if not is_remote(place):
        return str(_uploaded(RunFolder.open(Path(place)), at))
    with TemporaryDirectory(prefix="pgdyno-copy-") as folder:
        return str(upload(copied(Address.of(place), Path(folder)), at))


def _uploaded(folder: RunFolder, at: Address) -> Address:
    # an unfinished run may be running, or may be resumed during the copy
    with nullcontext() if folder.manifest.outcome is Outcome.FINISHED else folder.locked():
        return upload(folder, at)
