"""The files of a log: their format, their order, and their entries, a block at a time."""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol, cast

from pgdyno.capture.left_out import Losses
from pgdyno.capture.logs.log_prefix import MOST_HEADER, SEVERITIES, LinePrefix, check_prefix, recognised, without_groups
from pgdyno.capture.logs.log_times import epochs_us
from pgdyno.capture.logs.text_entries import NEWLINE, PART, judged_entries, marked
from pgdyno.capture.logs.wrappers.find import find_wrappers
from pgdyno.capture.logs.wrappers.unwrap import UnwrappedFile, Unwrapping
from pgdyno.errors import UsageError
from pgdyno.store.safe_files import storing

BLOCK_BYTES = 16 << 20
"""Read at once."""
LONGEST_BYTES = 16 << 20
"""An entry that is longer is left out: each may be in memory several times."""
_HEAD_BYTES, _PIECE_BYTES = 1 << 20, 1 << 16
_SHOWN = 120
"""Characters of a line in a message."""
_OPENING = 4096
"""Characters of a file's first entries that tell it from other files."""
PLACE_MARK = "\x1f"
"""Between the line's number and the entry in the files that DuckDB reads; logs do not use it."""

_TIME = r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [^ ,"\n]{1,40}'
_AFTER_TIME = r',(?:"(?:[^"]|"")*")?,(?:"(?:[^"]|"")*")?,\d*,'
_CSV_START = _TIME + _AFTER_TIME
_JSON_START = r'\{ ?"timestamp" ?: ?'
_OTHER_ENTRY = re.compile(rf"^(?!\t).{{0,{MOST_HEADER}}}?(?:{SEVERITIES}):  ", re.MULTILINE)
"""Matches a line of a log of text whatever its prefix; those of a longer message begin with a tab."""
_GZIP = b"\x1f\x8b"
_COMPRESSED = {b"\xfd7zXZ": "xz -d", b"BZh": "bzip2 -d", b"\x28\xb5\x2f\xfd": "zstd -d"}
"""The first bytes of a file that pgdyno does not decompress, and what does."""
_CUT_GZIP = (EOFError, gzip.BadGzipFile, zlib.error)
"""What reading a compressed file raises that was cut or damaged."""


class LogFormat(StrEnum):
    """What PostgreSQL calls it in `log_destination`."""

    CSV = "csvlog"
    JSON = "jsonlog"
    STDERR = "stderr"


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file of a log."""

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
        return _CSV_START if self.format is LogFormat.CSV else _JSON_START

    @property
    def has_whole_seconds(self) -> bool:
        """Whether its times have no milliseconds: `%t` in the prefix."""
        return "." not in self.began

    def begins_like(self, other: LogFile) -> bool:
        """Whether the first entries of both are the same, as far as both have them."""
        return self.opening.startswith(other.opening) or other.opening.startswith(self.opening)


@dataclass(frozen=True, slots=True)
class Block:
    """Some entries of a file, each in a line of `data` after the number of its first line."""

    data: bytes
    entries: int
    line: int
    """The first of the block."""
    end_bytes: int
    """How much of the file was read, as far as the file is not compressed."""


# ---- which files ----


def log_files(paths: Sequence[Path], prefix: str | None) -> list[LogFile]:
    """Returns the logs at `paths` in the order of their first times, each file once, without empty ones.

    Raises UsageError if one is no log, or if they cannot be one log; StoreError if one cannot be read.
    """
    given = LinePrefix.of(prefix) if prefix is not None else None
    found = [log for path in _different(paths) if (log := _recognised(path, given)) is not None]
    if not found:
        named = ", ".join(map(str, paths))
        raise UsageError(f"nothing to capture: {named} is empty", hint="name the files that the server writes to")
    formats = {each.format: each.path for each in found}
    if len(formats) > 1:
        both = " and ".join(f"{path} ({name})" for name, path in list(formats.items())[:2])
        raise UsageError(
            f"{both} differ in format: if the server writes both, each statement is in both",
            hint="name the files of one format, preferably csvlog",
        )
    # the time of the day comes again when summer time ends
    began_us = epochs_us([each.began for each in found])
    ordered = sorted(zip(began_us, found, strict=True), key=lambda each: (each[0], str(each[1].path)))
    return [log for _, log in ordered]


def without_copies(logs: Sequence[LogFile]) -> tuple[list[LogFile], list[LogFile]]:
    """Returns `logs` without those that begin with the same entries as another one, and those that do.

    Such a file is a copy, or the same log compressed, or a part of it. The longest stays, preferably uncompressed.
    """
    kept: dict[str, list[LogFile]] = {}
    for log in sorted(logs, key=lambda each: (each.path.suffix == ".gz", -each.size_bytes, str(each.path))):
        others = kept.setdefault(log.began, [])
        if not any(map(log.begins_like, others)):
            others.append(log)
    paths = {each.path for some in kept.values() for each in some}
    return [each for each in logs if each.path in paths], [each for each in logs if each.path not in paths]


def _different(paths: Sequence[Path]) -> list[Path]:
    """Returns the first path of each file: links give it several."""
    found: dict[object, Path] = {}
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            # whoever opens it reports that
            found.setdefault(path, path)
        else:
            found.setdefault((status.st_dev, status.st_ino), path)
    return list(found.values())


def _recognised(path: Path, given: LinePrefix | None) -> LogFile | None:
    head = None
    with storing("read", path, None), open_log(path) as (file, raw):
        for text in _heads(file):
            if not text.strip():
                continue
            status = os.fstat(raw.fileno())
            wrappers: list[Unwrapping] = []
            first = _first_entry(text, given)
            plain = text
            if first is None and head is None:
                plain, first, wrappers = _unwrapped(text, given, datetime.fromtimestamp(status.st_mtime, UTC).year)
            if first is not None:
                opening = plain[first.at : first.at + _OPENING]
                return LogFile(
                    path, status.st_size, first.format, first.prefix, first.began, opening, "\n\t" in plain,
                    tuple(wrappers),
                )  # fmt: skip
            head = text if head is None else head
            # further on, the prefix may be another one: this one is reported
            if _OTHER_ENTRY.search(text):
                break
    if head is None:
        return None
    raise _unknown(path, head, given)


def _unwrapped(text: str, given: LinePrefix | None, year: int) -> tuple[str, _FirstEntry | None, list[Unwrapping]]:
    """Returns `text`, the beginning of a log, without its wrappers, its first entry, and the wrappers."""
    lines = text.encode().splitlines(keepends=True)
    # the last one may be half
    lines = lines[:-1] if len(lines) > 1 and len(text) >= _HEAD_BYTES // 4 else lines
    wrappers = find_wrappers(
        list(enumerate(lines, 1)), year, lambda inner, stamped: _first_entry(inner, given, stamped=stamped) is not None
    )
    if not wrappers:
        return text, None, []
    file = UnwrappedFile(io.BytesIO(b"".join(lines)), wrappers)
    inner = file.read(4 * _HEAD_BYTES).decode("utf-8", "replace").replace("\0", "")
    return inner, _first_entry(inner, given, stamped=wrappers[-1].stamped), [each.fresh() for each in wrappers]


def _heads(file: BinaryIO) -> Iterator[str]:
    """Yields the text of `file` piece by piece, each from the beginning of a line, up to where an entry has to begin.

    A log that was cut begins within an entry, which may be long.
    """
    rest, read_bytes, is_whole = b"", 0, True
    while is_whole and read_bytes < LONGEST_BYTES + BLOCK_BYTES:
        chunk, is_whole = _read(file, _HEAD_BYTES)
        if not chunk:
            return
        data = rest + chunk
        yield (data.partition(b"\n")[2] if read_bytes else data).decode("utf-8", "replace").replace("\0", "")
        read_bytes += len(chunk)
        # the beginning of an entry may be cut at the end of the piece; further ends are in the middle of an entry
        newline = data.rfind(b"\n")
        rest = data[newline:] if newline >= 0 and len(data) - newline <= _PIECE_BYTES else b""


class _FirstEntry(NamedTuple):
    at: int
    """Where it begins in the text."""
    format: LogFormat
    prefix: LinePrefix | None
    began: str


def _first_entry(text: str, given: LinePrefix | None, *, stamped: bool = False) -> _FirstEntry | None:
    csv_start = re.search(f"^({_TIME}){_AFTER_TIME}", text, re.MULTILINE)
    if csv_start:
        return _FirstEntry(csv_start.start(), LogFormat.CSV, None, csv_start[1])
    json_start = re.search(rf'^{_JSON_START}"({_TIME})', text, re.MULTILINE)
    if json_start:
        return _FirstEntry(json_start.start(), LogFormat.JSON, None, json_start[1])
    prefix = recognised(text, given, stamped=stamped)
    if prefix is None:
        return None
    first = re.search(f"^{prefix.first_line()}", text, re.MULTILINE)
    if first is None:
        return None
    return _FirstEntry(first.start(), LogFormat.STDERR, prefix, first[prefix.groups.index("stamp") + 1])


def _unknown(path: Path, head: str, given: LinePrefix | None) -> UsageError:
    number, line = next((number, text) for number, text in enumerate(head.split("\n"), 1) if text.strip())
    shown = repr(_shortened(line))
    if given is not None:
        check_prefix(given)
        return UsageError(
            f"{path}:{number}: no line begins with the prefix {given.text!r} and a severity; this one is {shown}",
            hint="give the server's log_line_prefix (SHOW log_line_prefix) with --prefix",
        )
    hint = "download the server's log as csvlog, jsonlog or text; what it may be wrapped in: docs/guides/own-load.md"
    if _OTHER_ENTRY.search(head):
        hint = (
            "if this line begins with the server's log_line_prefix (SHOW log_line_prefix), give that with --prefix;"
            " if another program put its own text before it, remove that text, or read the server's own log file"
        )
    return UsageError(
        f"{path}:{number}: this is neither a csvlog nor a jsonlog, nor a log with a common log_line_prefix: {shown}",
        hint=hint,
    )


def _shortened(line: str) -> str:
    """Returns the beginning of `line` without a password."""
    text = re.sub(r"(?i)(password\s*[=:]?\s*|://[^/@\s:]*:)(?:'[^']*'?|\"[^\"]*\"?|[^\s@,;]+)", r"\1****", line)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


@contextmanager
def open_log(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Opens a log: its content, which is decompressed if it is from gzip, and the file itself.

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


# ---- their entries ----


def blocks(log: LogFile, losses: Losses) -> Iterator[Block]:
    """Yields the entries of `log`; what cannot be read is added to `losses`. Raises StoreError."""
    with storing("read", log.path, None), open_log(log.path) as (opened, raw):
        file = UnwrappedFile(opened, log.wrappers) if log.wrappers else opened
        places = _Places(losses, file.number if isinstance(file, UnwrappedFile) else int)
        for line, data, is_rest, is_end in _runs(file, re.compile(log.start.encode()), log, places):
            if isinstance(file, UnwrappedFile):
                file.forget(line)
            entries = _entries(_decoded(data, log, line, places), log, line, is_rest, is_end, places)
            block = Block("\n".join(entries).encode(), len(entries), places.number(line), raw.tell())
            # they would stay in memory while the block is loaded
            del data, entries
            yield block
        for each in log.wrappers:
            if each.others:
                losses.add("other-source", log.path, each.first_other, each.others)


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Places(NamedTuple):
    """Adds to the losses what is left out, by the number that a line has in the file."""

    losses: Losses
    number: Callable[[int], int]

    def add(self, reason: str, path: Path, line: int, count: int = 1) -> None:
        self.losses.add(reason, path, self.number(line), count)


def _runs(
    file: _Readable, start: re.Pattern[bytes], log: LogFile, losses: _Places
) -> Iterator[tuple[int, bytes, bool, bool]]:
    """Yields runs of whole entries: the number of the first line, the bytes, whether they begin with the rest of an
    entry that was left out, and whether the file ends with them.
    """
    rest, line, is_rest = b"", 1, False
    is_whole = True
    while is_whole:
        chunk, is_whole = _read(file, BLOCK_BYTES)
        rest += chunk
        # a block costs DuckDB a tenth of a second, however small it is: the last entry gets none of its own
        if not chunk or (len(chunk) < BLOCK_BYTES and len(rest) <= LONGEST_BYTES):
            break
        del chunk
        at = _last_start(rest, start)
        if at > 0:
            yield line, rest[:at], is_rest, False
            line, rest, is_rest = line + rest.count(b"\n", 0, at), rest[at:], False
        elif len(rest) > LONGEST_BYTES:
            if not is_rest:
                losses.add("too-long", log.path, line)
            # its last line may be the beginning of another entry
            end = max(rest.rfind(b"\n") + 1, len(rest) - BLOCK_BYTES)
            line, rest, is_rest = line + rest.count(b"\n", 0, end), rest[end:], True
    if not is_whole:
        losses.add("cut", log.path, line + rest.count(b"\n"))
    if rest:
        yield line, rest, is_rest, True


def _read(file: _Readable, size: int) -> tuple[bytes, bool]:
    """Returns up to `size` bytes, and whether the file could be decompressed up to their end."""
    data = bytearray()
    try:
        while len(data) < size and (part := file.read(min(size - len(data), _PIECE_BYTES))):
            data += part
    except _CUT_GZIP:
        return bytes(data), False
    return bytes(data), True


def _last_start(data: bytes, start: re.Pattern[bytes]) -> int:
    """Returns where the last entry in `data` begins; 0 if it has a single entry."""
    end = len(data)
    while end > 0:
        newline = data.rfind(b"\n", 0, end)
        if newline < 0:
            return 0
        if start.match(data, newline + 1):
            return newline + 1
        end = newline
    return 0


def _decoded(data: bytes, log: LogFile, line: int, losses: _Places) -> str:
    if b"\0" in data:
        first = data.index(b"\0")
        losses.add("nul-bytes", log.path, line + data.count(b"\n", 0, first), _lines_with(data, b"\0"))
        data = data.replace(b"\0", b"")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        text = data.decode("utf-8", "replace")
        count = sum("\ufffd" in each for each in text.splitlines())
        losses.add("not-utf8", log.path, line + data.count(b"\n", 0, error.start), count)
    return text.replace(PLACE_MARK, " ") if PLACE_MARK in text else text


def _lines_with(data: bytes, byte: bytes) -> int:
    return sum(byte in each for each in data.split(b"\n"))


def _entries(text: str, log: LogFile, line: int, is_rest: bool, is_end: bool, losses: _Places) -> list[str]:
    """Returns the entries of `text`, each as a line for DuckDB; `is_end` if the file ends with it."""
    newline = text.find("\n")
    if newline > 0 and text[newline - 1] == "\r":
        text = text.replace("\r\n", "\n")
    if log.prefix is not None:
        text = marked(text, log.prefix)
    found = re.split(rf"\n(?={without_groups(log.start)})", text.rstrip("\n"))
    lines = list(accumulate((_lines(each, log) for each in found), initial=line))
    lines = list(map(losses.number, lines))
    if re.match(log.start, found[0]) is None:
        if not is_rest and found[0].strip():
            losses.add("cut", log.path, line)
        del found[0], lines[0]
    if log.prefix is not None:
        judged = judged_entries(found, log.prefix, has_tabs=log.has_tabs, is_end=is_end)
        return [
            f"{number}{PLACE_MARK}{doubt or ''}{PLACE_MARK}{each}"
            for number, (each, doubt) in zip(lines, judged, strict=False)
        ]
    if log.format is LogFormat.JSON:
        return [f"{number}{PLACE_MARK}{each.partition(chr(10))[0]}" for number, each in zip(lines, found, strict=False)]
    numbered = []
    for number, each in zip(lines, found, strict=False):
        if each.count('"') % 2:
            losses.add("cut", log.path, number)
        else:
            numbered.append(f"{number},{each}")
    return numbered


def _lines(entry: str, log: LogFile) -> int:
    count = 1 + entry.count("\n")
    return count if log.prefix is None else count + entry.count(NEWLINE) + entry.count(PART)
