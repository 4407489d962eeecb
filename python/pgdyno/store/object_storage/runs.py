"""Run folders on object storage: downloaded into a local folder, and uploaded atomically."""

from __future__ import annotations

import atexit
import re
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import TYPE_CHECKING

from pgdyno.errors import StoreError
from pgdyno.mounts import expand_home
from pgdyno.records import Outcome
from pgdyno.store.object_storage.address import Address, is_remote
from pgdyno.store.object_storage.objects import Stored, fetch, find_object, list_objects, write
from pgdyno.store.run_folder import MANIFEST, TRIALS, RunFolder
from pgdyno.store.safe_files import files_below, store_errors
from pgdyno.units import format_bytes

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

AT_ONCE = 8
"""Parallel transfers: latency dominates the time."""
SUMMARIES = frozenset({"intervals", "histograms", "statements"})
"""Tables that `pgdyno analyse` reads."""
_TRIAL = re.compile(rf"{TRIALS}/[^./][^/]*/(?:[a-z_]+\.json|(?P<table>[a-z_]+)\.parquet)")


@contextmanager
def open_run(place: str, tables: Collection[str] | None = None) -> Iterator[RunFolder]:
    """Yield the run at `place`, a path or an address; a download is removed after the block.

    `tables` limits what is read; None means all. Raises StoreError.
    """
    if not is_remote(place):
        yield RunFolder.open(expand_home(place))
        return
    at = Address.parse(place)
    with TemporaryDirectory(prefix="pgdyno-run-") as folder:
        # the name of the run folder
        into = Path(folder).resolve()
        with named_as({str(into): at}):
            yield fetch_run(at, into, tables)


def fetch_run(at: Address, into: Path, tables: Collection[str] | None = None) -> RunFolder:
    """Download the run at `at` into a folder of its name in `into`, except what no figure is read from.

    All its objects are as they were when they were listed. Raises StoreError.
    """
    found = _list_run(at)
    wanted = {name: each for name, each in found.items() if _is_read(name, tables)}
    _fetch_all(at, wanted, into / at.name)
    folder = RunFolder.open(into / at.name)
    folder.location = str(at)
    return folder


def copy_run(at: Address, into: Path) -> RunFolder:
    """Download the complete run at `at` as a run folder in `into`, atomically. Raises StoreError."""
    _check_free(at, into)
    # listings ignore names that begin with a dot, and two downloads of one run have separate folders
    partial = Path(into, f".{at.name}.{secrets.token_hex(4)}.partial")
    with store_errors("make a folder in", into):
        # logs are private, as in a new run
        partial.mkdir(0o700, parents=True)
    try:
        _fetch_all(at, _list_run(at), partial, hint="free space, or name another folder")
        with named_as({str(partial): at}):
            RunFolder.open(partial)
        _check_free(at, into)
        with store_errors("write", into / at.name):
            (partial / TRIALS).mkdir(exist_ok=True)
            partial.rename(into / at.name)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return RunFolder.open(into / at.name)


def copy_to(to: str, place: str) -> str:
    """Copy the run at `place` into `to`; one of them is an address. Returns its new location. Raises StoreError."""
    if not is_remote(to):
        return str(copy_run(Address.parse(place), expand_home(to)).path)
    at = Address.parse(to)
    if not is_remote(place):
        folder = RunFolder.open(Path(place))
        # an unfinished run may be running, or may be resumed during the copy
        with nullcontext() if folder.manifest.outcome is Outcome.FINISHED else folder.hold_lock():
            return str(upload(folder, at))
    with TemporaryDirectory(prefix="pgdyno-copy-") as temporary:
        return str(upload(copy_run(Address.parse(place), Path(temporary)), at))


def _threads() -> ThreadPoolExecutor:
    # imported here: most runs are on this machine
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(AT_ONCE)


def _check_free(at: Address, into: Path) -> None:
    if (into / at.name).exists():
        raise StoreError(f"cannot copy {at}: {into / at.name} exists already")


def upload(folder: RunFolder, into: Address) -> Address:
    """Upload a run below `into`, its manifest last, because a run without one does not exist yet. Returns its address.

    Raises StoreError if the run exists there.
    """
    at = into / folder.name
    if find_object(at / MANIFEST) is not None:
        raise StoreError(f"cannot copy {folder.path}: {at} already exists")
    with store_errors("list", folder.path):
        # locks and partial files are hidden; the manifest is uploaded separately
        paths = [path for path in files_below(folder.path) if path != folder.path / MANIFEST]

    def put(path: Path) -> None:
        with store_errors("read", path), path.open("rb") as file:
            write(file, at / path.relative_to(folder.path).as_posix())

    with _threads() as pool:
        # report the first failure
        list(pool.map(put, paths))
    _check_whole(at, {path.relative_to(folder.path).as_posix(): path.stat().st_size for path in paths})
    with store_errors("read", folder.path / MANIFEST):
        content = (folder.path / MANIFEST).read_bytes()
    write(content, at / MANIFEST, only_new=True)
    return at


def _check_whole(at: Address, sizes: Mapping[str, int]) -> None:
    """Check that the uploaded objects are complete: an interrupted upload may have left others."""
    found = {each.address.key.removeprefix(at.prefix): each.size_bytes for each in list_objects(at)}
    other = sorted(name for name in found.keys() | sizes.keys() if found.get(name) != sizes.get(name))
    if other:
        message = f"cannot copy to {at}: {other[0]} there does not belong to the run"
        raise StoreError(message, hint="remove it, or choose another place")


@contextmanager
def named_as(places: Mapping[str, Address]) -> Iterator[None]:
    """Name the address in errors of the block, instead of the folder of the download."""
    try:
        yield
    except StoreError as error:
        message = error.message
        for folder, at in places.items():
            message = message.replace(f"{folder}/{at.name}", str(at)).replace(folder, str(at))
        raise StoreError(message, hint=error.hint) from error


def _list_run(at: Address) -> dict[str, Stored]:
    found = {each.address.key.removeprefix(at.prefix): each for each in list_objects(at)}
    if not found:
        raise StoreError(f"cannot read the run {at}: there is nothing at that address")
    if MANIFEST not in found:
        hint = "it is not a run, or is still being written: its manifest is written last"
        raise StoreError(f"cannot read the run {at}: it has no {MANIFEST}", hint=hint)
    return {name: each for name, each in found.items() if _is_safe(name)}


def _is_safe(name: str) -> bool:
    """Keys may be any text, but names of files may not; names that begin with a dot are not part of a run."""
    return "\0" not in name and all(part and not part.startswith(".") for part in name.split("/"))


def _is_read(name: str, tables: Collection[str] | None) -> bool:
    if name == MANIFEST:
        return True
    match = _TRIAL.fullmatch(name)
    return match is not None and (match["table"] is None or tables is None or match["table"] in tables)


def _fetch_all(at: Address, found: Mapping[str, Stored], into: Path, hint: str = "free space, or set TMPDIR") -> None:
    objects: Sequence[tuple[str, Stored]] = sorted(found.items())
    with store_errors("write", into):
        for folder in sorted({(into / name).parent for name, _ in objects}):
            folder.mkdir(parents=True, exist_ok=True)
        (into / TRIALS).mkdir(exist_ok=True)
        free_bytes = shutil.disk_usage(into).free
    needed = sum(each.size_bytes for each in found.values())
    if needed > free_bytes:
        raise StoreError(
            f"cannot read the run {at}: it has {format_bytes(needed)}, and {into.parent} has room for "
            f"{format_bytes(free_bytes)}",
            hint=hint,
        )
    stopped = Event()
    with _threads() as pool:
        try:
            list(pool.map(lambda each: fetch(each[1], into / each[0], stopped), objects))
        except BaseException:
            # after an error and after Ctrl-C, do not wait for large transfers in progress
            stopped.set()
            raise


@cache
def _until_the_end() -> ExitStack:
    stack = ExitStack()
    # also after an error, Ctrl-C and SIGTERM
    atexit.register(stack.close)
    return stack


def borrow_run(place: str) -> RunFolder:
    """Return the run at `place`; the download is removed when this process ends. Raises StoreError and UsageError."""
    return _until_the_end().enter_context(open_run(place))
