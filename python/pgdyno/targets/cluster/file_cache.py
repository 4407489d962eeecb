"""The kernel's cache of a cluster's files: dropped, and what of them it has."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pgdyno.errors import TargetError

_TABLES = ("base", "global", "pg_tblspc")
_C = ctypes.CDLL(None, use_errno=True)


def drop_cache(data_directory: Path) -> None:
    """Let the kernel forget the tables of a cluster, which nothing should write now. Raises TargetError."""
    for file in _files(data_directory):
        with suppress(FileNotFoundError):
            descriptor = os.open(file, os.O_RDONLY)
            try:
                # pages that are not written yet stay
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            except OSError as error:
                raise TargetError(f"cannot drop {file} from the kernel's cache: {error.strerror}") from error
            finally:
                os.close(descriptor)


def cached_share(data_directory: Path) -> float:
    """Return the share of the pages of a cluster's tables that the kernel's cache has, from 0 to 1 (mincore)."""
    cached = pages = 0
    for file in _files(data_directory):
        with suppress(FileNotFoundError, ValueError), file.open("rb") as opened:
            # an empty file cannot be mapped, and has no pages
            with mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
                count = -(-len(mapped) // mmap.PAGESIZE)
                found = (ctypes.c_ubyte * count)()
                start = ctypes.c_char.from_buffer(mapped)
                done = _C.mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(len(mapped)), found)
                del start
            if done == 0:
                pages += count
                cached += sum(each & 1 for each in found)
    return cached / pages if pages else 0.0


def _files(data_directory: Path) -> Iterator[Path]:
    for top in _TABLES:
        for folder, _, names in os.walk(data_directory / top, followlinks=True):
            yield from (Path(folder, name) for name in names)
