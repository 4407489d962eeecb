"""Measures and drops cached pages of the dataset: in shared buffers and in the operating system's page cache."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import psycopg

from pgdyno.errors import TargetError
from pgdyno.plan.reset_checks import DROP_CACHES
from pgdyno.prepare.relations import Relation
from pgdyno.targets import Server
from pgdyno.targets.cluster_copy import files_below
from pgdyno.targets.copying import sync_files
from pgdyno.targets.storage import storing

_WINDOW_BYTES = 1 << 30
"""Files are mapped in windows, because mincore needs a byte per page."""
_PAGE_CACHE_ONLY = b"1\n"


def drop_cache(server: Server, what: Literal["files", "machine"]) -> str:
    """Syncs the cluster's files, then makes the operating system drop them, or its whole cache.

    Returns a description. Raises TargetError.
    """
    folders = [server.data_directory]
    if (server.data_directory / "pg_wal").is_symlink():
        folders.append((server.data_directory / "pg_wal").resolve())
    for folder in folders:
        sync_files(folder)
    if what == "machine":
        # also syncs other file systems, whose dirty pages would stay in the cache
        os.sync()
        with storing(DROP_CACHES, "cannot write"):
            DROP_CACHES.write_bytes(_PAGE_CACHE_ONLY)
        return "the machine's whole cache"
    count = 0
    for path in itertools.chain.from_iterable(files_below(folder) for folder in folders):
        try:
            # follows no link: the folder belongs to the server's user, and this process may be root
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise TargetError(f"cannot drop the page cache of {path}: {error.strerror}") from error
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)
        count += 1
    return f"{count:,} files of the cluster"


def shared_buffers_share(server: Server, relations: Sequence[Relation]) -> float | None:
    """Returns the share of the relations' main forks in shared buffers, by pg_buffercache; None if that is not
    installed.

    The extension is created in the maintenance database, so that the dataset stays unchanged.
    """
    total = sum(relation.main_bytes for relation in relations)
    if total == 0:
        return None
    with server.connect(server.maintenance) as connection:
        try:
            connection.execute("SET client_min_messages = warning")
            connection.execute("CREATE EXTENSION IF NOT EXISTS pg_buffercache")
        except (psycopg.errors.UndefinedFile, psycopg.errors.FeatureNotSupported):
            return None
        row = connection.execute(
            "SELECT count(*) * current_setting('block_size')::bigint FROM pg_buffercache WHERE relforknumber = 0"
            " AND reldatabase = (SELECT oid FROM pg_database WHERE datname = %s) AND relfilenode::bigint = ANY(%s)",
            [server.dbname, [relation.filenode for relation in relations]],
        ).fetchone()
    assert row is not None
    return min(int(row[0]) / total, 1.0)


def page_cache_share(data_directory: Path, relations: Sequence[Relation]) -> float | None:
    """Returns the share of the relations' main forks in the page cache.

    None without permission: mincore(2) answers only owners of files, and root.
    """
    cached = pages = 0
    try:
        for relation in relations:
            for path in relation.files(data_directory):
                of_file = _resident_pages(path)
                cached += of_file[0]
                pages += of_file[1]
    except OSError:
        return None
    return cached / pages if pages else None


def _resident_pages(path: Path) -> tuple[int, int]:
    """Returns the cached pages and all pages of a file. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        size = os.fstat(handle).st_size
        cached = 0
        for start in range(0, size, _WINDOW_BYTES):
            cached += _resident_in(handle, start, min(_WINDOW_BYTES, size - start))
        return cached, -(-size // mmap.PAGESIZE)
    finally:
        os.close(handle)


def _resident_in(handle: int, start: int, length: int) -> int:
    # Python's own mmap does not expose the address of a read-only map
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    address = libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, handle, start)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "cannot map")
    pages = -(-length // mmap.PAGESIZE)
    resident = ctypes.create_string_buffer(pages)
    try:
        if libc.mincore(address, length, resident) != 0:
            raise OSError(ctypes.get_errno(), "mincore failed")
    finally:
        libc.munmap(address, length)
    return pages - resident.raw.count(b"\0")
