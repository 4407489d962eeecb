"""A file of a log, and how it is opened and read."""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from pgdyno.capture.logs.log_prefix import LinePrefix
from pgdyno.capture.logs.wrappers.unwrap import Unwrapping
from pgdyno.errors import UsageError

BLOCK_BYTES = 16 << 20
"""Read at once."""
LONGEST_BYTES = 16 << 20
"""An entry that is longer is left out: each may be in memory several times."""
PIECE_BYTES = 1 << 16
TIME = r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [^ ,"\n]{1,40}'
AFTER_TIME = r',(?:"(?:[^"]|"")*")?,(?:"(?:[^"]|"")*")?,\d*,'
_CSV_START = TIME + AFTER_TIME
JSON_START = r'\{ ?"timestamp" ?: ?'
_GZIP = b"\x1f\x8b"
_COMPRESSED = {b"\xfd7zXZ": "xz -d", b"BZh": "bzip2 -d", b"\x28\xb5\x2f\xfd": "zstd -d"}
"""The first bytes of a file that pgdyno does not decompress, and what does."""
_CUT_GZIP = (EOFError, gzip.BadGzipFile, zlib.error)
"""What reading a compressed file raises that was cut or damaged."""


class LogFormat(StrEnum):
    CSV = "csvlog"
    JSON = "jsonlog"
    STDERR = "stderr"


@dataclass(frozen=True, slots=True)
class LogFile:
    path: Path
    size_bytes: int
    format: LogFormat
    prefix: LinePrefix | None
    """The prefix of lines in the format stderr; None for other formats."""
    began: str
    """The first time in it, as it is written."""
    opening: str
    """The beginning of its first entries."""
    has_tabs: bool
    """Whether a tab begins lines that continue an entry, as PostgreSQL writes them."""
    wrappers: tuple[Unwrapping, ...] = ()
    """What is taken off its lines, the outermost first."""

    @property
    def start(self) -> str:
        """A pattern of the beginning of an entry."""
        if self.prefix is not None:
            return self.prefix.first_line()
        return _CSV_START if self.format is LogFormat.CSV else JSON_START

    @property
    def has_whole_seconds(self) -> bool:
        """Whether its times have no milliseconds: `%t` in the prefix."""
        return "." not in self.began

    def begins_like(self, other: LogFile) -> bool:
        """Whether the first entries of both are the same, as far as both have them."""
        return self.opening.startswith(other.opening) or other.opening.startswith(self.opening)


@contextmanager
def open_log(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a log: its content, which is decompressed if it is from gzip, and the file itself.

    Raises UsageError unless it is a file that can be read, OSError.
    """
    # opening a pipe would wait for its writer
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        kind = "a folder" if path.is_dir() else "not a file"
        hint = f"name its files: {path}/*.csv" if path.is_dir() else "copy its content to a file first"
        raise UsageError(f"cannot read {path}: it is {kind}", hint=hint)
    with open(handle, "rb") as file:  # noqa: PTH123 - of what is open already
        begin = file.peek(8)
        for magic, tool in _COMPRESSED.items():
            if begin.startswith(magic):
                raise UsageError(f"cannot read {path}: it is compressed", hint=f"decompress it first: {tool} {path}")
        is_gzip = begin.startswith(_GZIP)
        yield (cast("BinaryIO", gzip.GzipFile(fileobj=file)) if is_gzip else file), file


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def read_bytes(file: Readable, size: int) -> tuple[bytes, bool]:
    """Return up to `size` bytes, and whether the file could be decompressed up to their end."""
    data = bytearray()
    try:
        while len(data) < size and (part := file.read(min(size - len(data), PIECE_BYTES))):
            data += part
    except _CUT_GZIP:
        return bytes(data), False
    return bytes(data), True
