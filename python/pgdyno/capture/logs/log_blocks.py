"""The entries of a file of a log, a block at a time, each in a line with the number of its first line."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import duckdb

from pgdyno.capture.left_out import Losses
from pgdyno.capture.logs.log_files import BLOCK_BYTES, LONGEST_BYTES, LogFile, LogFormat, Readable, open_log, read_bytes
from pgdyno.capture.logs.log_prefix import without_groups
from pgdyno.capture.logs.text_entries import NEWLINE, PART, join_entry_lines, judge_entries
from pgdyno.capture.logs.wrappers.unwrap import UnwrappedFile
from pgdyno.store.duckdb_session import fetch_row
from pgdyno.store.safe_files import store_errors

PLACE_MARK = "\x1f"
"""Between the line's number and the entry in the files that DuckDB reads; logs do not use it."""
JSON_BYTES = 4 << 20
"""JSON that is parsed at once: DuckDB takes several times as much memory for it."""


@dataclass(frozen=True, slots=True)
class Block:
    """Some entries of a file, each in a line of `data` after the number of its first line."""

    data: bytes
    entries: int
    line: int
    """The first of the block."""
    end_bytes: int
    """How much of the file was read, as far as the file is not compressed."""


def load_pieces(
    cursor: duckdb.DuckDBPyConnection, table: str, query: str, data: bytes, piece_bytes: int, file: Path
) -> int:
    """Fill `table` with rows of `query` on `file`, to which `data` is written by `piece_bytes`; return their number."""
    command, at, rows = f"CREATE OR REPLACE TEMP TABLE {table} AS", 0, 0
    while at < len(data) or command.startswith("CREATE"):
        end = data.find(b"\n", at + piece_bytes) + 1 or len(data)
        file.write_bytes(data[at:end])
        rows += fetch_row(cursor, f"{command} {query}")[0]
        command, at = f"INSERT INTO {table}", end
    return rows


def blocks(log: LogFile, losses: Losses) -> Iterator[Block]:
    """Yield the entries of `log`; what cannot be read is added to `losses`. Raises StoreError."""
    with store_errors("read", log.path, None), open_log(log.path) as (opened, raw):
        file = UnwrappedFile(opened, log.wrappers) if log.wrappers else opened
        places = _Places(losses, file.number if isinstance(file, UnwrappedFile) else int)
        for line, data, is_rest, is_end in _runs(file, re.compile(log.start.encode()), log, places):
            if isinstance(file, UnwrappedFile):
                file.forget(line)
            entries = _entries(_decode(data, log, line, places), log, line, is_rest, is_end, places)
            block = Block("\n".join(entries).encode(), len(entries), places.number(line), raw.tell())
            # they would stay in memory while the block is loaded
            del data, entries
            yield block
        for each in log.wrappers:
            if each.others:
                losses.add("other-source", log.path, each.first_other, each.others)


class _Places(NamedTuple):
    """Adds to the losses what is left out, by the number that a line has in the file."""

    losses: Losses
    number: Callable[[int], int]

    def add(self, reason: str, path: Path, line: int, count: int = 1) -> None:
        self.losses.add(reason, path, self.number(line), count)


def _runs(
    file: Readable, start: re.Pattern[bytes], log: LogFile, losses: _Places
) -> Iterator[tuple[int, bytes, bool, bool]]:
    """Yield runs of whole entries: the number of the first line, the bytes, whether they begin with the rest of an
    entry that was left out, and whether the file ends with them.
    """
    rest, line, is_rest = b"", 1, False
    is_whole = True
    while is_whole:
        chunk, is_whole = read_bytes(file, BLOCK_BYTES)
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


def _last_start(data: bytes, start: re.Pattern[bytes]) -> int:
    """Return where the last entry in `data` begins; 0 if it has a single entry."""
    end = len(data)
    while end > 0:
        newline = data.rfind(b"\n", 0, end)
        if newline < 0:
            return 0
        if start.match(data, newline + 1):
            return newline + 1
        end = newline
    return 0


def _decode(data: bytes, log: LogFile, line: int, losses: _Places) -> str:
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
    newline = text.find("\n")
    if newline > 0 and text[newline - 1] == "\r":
        text = text.replace("\r\n", "\n")
    if log.prefix is not None:
        text = join_entry_lines(text, log.prefix)
    found = re.split(rf"\n(?={without_groups(log.start)})", text.rstrip("\n"))
    lines = list(accumulate((_lines(each, log) for each in found), initial=line))
    lines = list(map(losses.number, lines))
    if re.match(log.start, found[0]) is None:
        if not is_rest and found[0].strip():
            losses.add("cut", log.path, line)
        del found[0], lines[0]
    if log.prefix is not None:
        judged = judge_entries(found, log.prefix, has_tabs=log.has_tabs, is_end=is_end)
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
