"""Which files a log has: their format, their prefix and wrappers, and their order."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pgdyno.capture.logs.log_files import (
    AFTER_TIME,
    BLOCK_BYTES,
    JSON_START,
    LONGEST_BYTES,
    PIECE_BYTES,
    TIME,
    LogFile,
    LogFormat,
    open_log,
    read_bytes,
)
from pgdyno.capture.logs.log_prefix import MOST_HEADER, SEVERITIES, LinePrefix, check_prefix, recognise_prefix
from pgdyno.capture.logs.log_times import epochs_us
from pgdyno.capture.logs.wrappers.find import find_wrappers
from pgdyno.capture.logs.wrappers.unwrap import UnwrappedFile, Unwrapping
from pgdyno.errors import UsageError
from pgdyno.store.safe_files import store_errors

_HEAD_BYTES = 1 << 20
_SHOWN = 120
"""Characters of a line in a message."""
_OPENING = 4096
"""Characters of a file's first entries that tell it from other files."""
_OTHER_ENTRY = re.compile(rf"^(?!\t).{{0,{MOST_HEADER}}}?(?:{SEVERITIES}):  ", re.MULTILINE)
"""Matches a line of a log of text whatever its prefix; those of a longer message begin with a tab."""


def log_files(paths: Sequence[Path], prefix: str | None) -> list[LogFile]:
    """Return the logs at `paths` in the order of their first times, each file once, without empty ones.

    Raises UsageError if one is no log, or if they cannot be one log; StoreError if one cannot be read.
    """
    given = LinePrefix.parse(prefix) if prefix is not None else None
    found = [log for path in _drop_repeated(paths) if (log := _recognise(path, given)) is not None]
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
    """Return `logs` without those that begin with the same entries as another one, and those that do.

    Such a file is a copy, or the same log compressed, or a part of it. The longest stays, preferably uncompressed.
    """
    kept: dict[str, list[LogFile]] = {}
    for log in sorted(logs, key=lambda each: (each.path.suffix == ".gz", -each.size_bytes, str(each.path))):
        others = kept.setdefault(log.began, [])
        if not any(map(log.begins_like, others)):
            others.append(log)
    paths = {each.path for some in kept.values() for each in some}
    return [each for each in logs if each.path in paths], [each for each in logs if each.path not in paths]


def _drop_repeated(paths: Sequence[Path]) -> list[Path]:
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


def _recognise(path: Path, given: LinePrefix | None) -> LogFile | None:
    head = None
    with store_errors("read", path, None), open_log(path) as (file, raw):
        for text in _heads(file):
            if not text.strip():
                continue
            status = os.fstat(raw.fileno())
            wrappers: list[Unwrapping] = []
            first = _first_entry(text, given)
            plain = text
            if first is None and head is None:
                plain, first, wrappers = _strip_wrappers(text, given, datetime.fromtimestamp(status.st_mtime, UTC).year)
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


def _strip_wrappers(text: str, given: LinePrefix | None, year: int) -> tuple[str, _FirstEntry | None, list[Unwrapping]]:
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
    """Yield the text of `file` piece by piece, each from the beginning of a line, up to where an entry has to begin.

    A log that was cut begins within an entry, which may be long.
    """
    rest, read_count, is_whole = b"", 0, True
    while is_whole and read_count < LONGEST_BYTES + BLOCK_BYTES:
        chunk, is_whole = read_bytes(file, _HEAD_BYTES)
        if not chunk:
            return
        data = rest + chunk
        yield (data.partition(b"\n")[2] if read_count else data).decode("utf-8", "replace").replace("\0", "")
        read_count += len(chunk)
        # the beginning of an entry may be cut at the end of the piece; further ends are in the middle of an entry
        newline = data.rfind(b"\n")
        rest = data[newline:] if newline >= 0 and len(data) - newline <= PIECE_BYTES else b""


class _FirstEntry(NamedTuple):
    at: int
    """Where it begins in the text."""
    format: LogFormat
    prefix: LinePrefix | None
    began: str


def _first_entry(text: str, given: LinePrefix | None, *, stamped: bool = False) -> _FirstEntry | None:
    csv_start = re.search(f"^({TIME}){AFTER_TIME}", text, re.MULTILINE)
    if csv_start:
        return _FirstEntry(csv_start.start(), LogFormat.CSV, None, csv_start[1])
    json_start = re.search(rf'^{JSON_START}"({TIME})', text, re.MULTILINE)
    if json_start:
        return _FirstEntry(json_start.start(), LogFormat.JSON, None, json_start[1])
    prefix = recognise_prefix(text, given, stamped=stamped)
    if prefix is None:
        return None
    first = re.search(f"^{prefix.first_line()}", text, re.MULTILINE)
    if first is None:
        return None
    return _FirstEntry(first.start(), LogFormat.STDERR, prefix, first[prefix.groups.index("stamp") + 1])


def _unknown(path: Path, head: str, given: LinePrefix | None) -> UsageError:
    number, line = next((number, text) for number, text in enumerate(head.split("\n"), 1) if text.strip())
    shown = repr(_shorten(line))
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


def _shorten(line: str) -> str:
    text = re.sub(r"(?i)(password\s*[=:]?\s*|://[^/@\s:]*:)(?:'[^']*'?|\"[^\"]*\"?|[^\s@,;]+)", r"\1****", line)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
