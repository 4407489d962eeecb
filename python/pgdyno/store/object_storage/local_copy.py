"""Access to one file at a time, local or remote."""

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pgdyno.errors import StoreError
from pgdyno.store.object_storage.address import Address, is_remote
from pgdyno.store.object_storage.objects import fetch, find_object, read_beginning
from pgdyno.store.object_storage.runs import named_as
from pgdyno.store.safe_files import store_errors


@contextmanager
def at_hand(place: str) -> Iterator[Path]:
    """Yield a local path of the file at `place`; a download is removed after the block. Raises StoreError."""
    if not is_remote(place):
        yield Path(place)
        return
    at = Address.parse(place)
    found = find_object(at)
    if found is None:
        raise StoreError(f"cannot read {at}: there is no such object")
    with TemporaryDirectory(prefix="pgdyno-file-") as folder, named_as({folder: at}):
        path = Path(folder, at.name)
        fetch(found, path)
        yield path


def check_regular(place: str) -> None:
    """Raise StoreError if `place` is a path and not a regular file: reading a pipe or a device may never end."""
    if is_remote(place):
        return
    path = Path(place)
    with store_errors("read", path):
        mode = path.stat().st_mode
    if stat.S_ISREG(mode):
        return
    kinds = {stat.S_IFIFO: "a named pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFDIR: "a folder",
             stat.S_IFSOCK: "a socket"}  # fmt: skip
    kind = kinds.get(stat.S_IFMT(mode), "no regular file")
    hint = "name the files in it" if stat.S_ISDIR(mode) else "write its output to a file, and name that file"
    raise StoreError(f"cannot read {place}: it is {kind}", hint=hint)


def first_line(place: str, most_bytes: int) -> bytes:
    """Return the first line of the file at `place`, up to a limit. Raises StoreError."""
    if is_remote(place):
        return read_beginning(Address.parse(place), most_bytes).split(b"\n", 1)[0]
    path = Path(place)
    with store_errors("read", path), path.open("rb") as file:
        return file.readline(most_bytes)


def size_bytes(place: str) -> int:
    """Return the size of the file at `place`. Raises StoreError."""
    if is_remote(place):
        found = find_object(Address.parse(place))
        if found is None:
            raise StoreError(f"cannot read {place}: there is no such object")
        return found.size_bytes
    path = Path(place)
    with store_errors("read", path):
        return path.stat().st_size
