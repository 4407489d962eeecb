"""The kernel's cache of a cluster's files: dropped, and what of them it has."""

import ctypes
import mmap
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.targets.cluster.folders import sync_files
from pgdyno.targets.cluster.snapshots.cluster_copy import files_below

_C = ctypes.CDLL(None, use_errno=True)
# it follows no link: the folder belongs to the server's user, and this process may be root
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


def drop_cache(data_directory: Path) -> int:
    """Sync the files of a cluster, then make the kernel forget them; return their number. Raises TargetError."""
    for folder in _folders(data_directory):
        sync_files(folder)
    count = 0
    for path in cluster_files(data_directory):
        try:
            handle = os.open(path, _READ)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise TargetError(f"cannot drop the page cache of {path}: {error.strerror}") from error
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)
        count += 1
    return count


def cached_share(files: Iterable[Path]) -> float | None:
    """Return the share of the pages of `files` that the kernel's cache has, from 0 to 1.

    None without pages or permission: mincore(2) answers only owners of files, and root.
    """
    cached = pages = 0
    try:
        for file in files:
            with suppress(FileNotFoundError), open(os.open(file, _READ), "rb") as opened:  # noqa: PTH123 - a descriptor
                found = _resident_pages(opened.fileno())
                cached += sum(found)
                pages += len(found)
    except OSError:
        return None
    return cached / pages if pages else None


def _resident_pages(handle: int) -> list[int]:
    """Return 1 for each page of a file that is in the cache, else 0. Raises OSError."""
    if os.fstat(handle).st_size == 0:
        # it cannot be mapped
        return []
    with mmap.mmap(handle, 0, access=mmap.ACCESS_COPY) as mapped:
        found = (ctypes.c_ubyte * -(-len(mapped) // mmap.PAGESIZE))()
        start = ctypes.c_char.from_buffer(mapped)
        failed = _C.mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(len(mapped)), found)
        # the map cannot be closed while it is referred to
        del start
    if failed:
        raise OSError(ctypes.get_errno(), "mincore failed")
    return [each & 1 for each in found]


def cluster_files(data_directory: Path) -> Iterator[Path]:
    """Yield the files of a cluster, also those of its tablespaces and of a separate folder for WAL."""
    for folder in _folders(data_directory):
        yield from files_below(folder)


def _folders(data_directory: Path) -> list[Path]:
    links = [data_directory / "pg_wal", *(data_directory / "pg_tblspc").iterdir()]
    return [data_directory, *(each.resolve() for each in links if each.is_symlink())]
