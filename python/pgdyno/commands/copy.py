"""`pgdyno copy`: whole runs onto object storage, and back."""

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
    """Copies each run that is named into `to`, and says where it is; those that cannot be copied are named.

    The code is that of the first of these. Raises StoreError and UsageError.
    """
    if is_remote(to):
        # said once, not of each run
        Address.of(to)
    found = named_runs(named, runs)
    if not is_remote(to) and not all(is_remote(place) for place in found.places):
        raise UsageError("the runs and the place are both on this machine", hint="cp -r copies there")
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
    # one that did not come to its end may be one that goes on, or is just gone on with
    with nullcontext() if folder.manifest.outcome is Outcome.FINISHED else folder.locked():
        return upload(folder, at)
