"""Files of a run folder: read within bounds if they may come from elsewhere, written so that they survive a crash."""

from __future__ import annotations

import errno
import json
import math
import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, TypeVar

from pgdyno.errors import StoreError

if TYPE_CHECKING:
    from pydantic import BaseModel

_R = TypeVar("_R", bound="BaseModel")

_HINTS = {
    errno.ENOSPC: "free space, or choose another folder with {option}",
    errno.EDQUOT: "your quota is used up; free space, or choose another folder with {option}",
    errno.EACCES: "choose a folder that you may write to with {option}",
    errno.EPERM: "choose a folder that you may write to with {option}",
    errno.EROFS: "choose a folder that can be written to with {option}",
}


@contextmanager
def store_errors(doing: str, path: Path, option: str | None = "--runs") -> Iterator[None]:
    """Convert errors of the block to StoreError: `doing` is "write", "read" or the like, done to `path`.

    `option` names another folder on the command line; None if no other folder would help.
    """
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        at = Path(os.fsdecode(error.filename)) if isinstance(error.filename, (str, bytes)) else path
        where = f"{path}" if at == path else f"{path}: {at}"
        raise StoreError(f"cannot {doing} {where}: {reason}", hint=_hint(doing, error.errno, option)) from error
    except Exception as error:
        if not _is_of_duckdb(error):
            raise
        hint = _hint(doing, errno.ENOSPC, option) if "No space left" in str(error) else None
        first_line = str(error).strip().split("\n", 1)[0]
        raise StoreError(f"cannot {doing} {path}: {first_line}", hint=hint) from error


def _hint(doing: str, number: int | None, option: str | None) -> str | None:
    if doing == "read" and number in (errno.EACCES, errno.EPERM):
        return "allow your user to read it"
    hint = _HINTS.get(number or 0)
    return hint.format(option=option) if hint is not None and option is not None else None


def _is_of_duckdb(error: Exception) -> bool:
    # listing runs needs no database: only code that has loaded it can raise its errors
    duckdb = sys.modules.get("duckdb")
    return duckdb is not None and isinstance(error, duckdb.Error)


def open_new(path: Path) -> BinaryIO:
    """Create a new file at `path` for writing. Raises OSError.

    A folder from elsewhere may have a link of that name, to any file of this machine.
    """
    path.unlink(missing_ok=True)
    return path.open("xb")


def write_durably(path: Path, content: bytes) -> None:
    """Write a file that is on disk when this returns. Raises OSError."""
    with open_new(path) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_durably(path: Path, content: bytes) -> None:
    """Replace `path` with `content` atomically. Raises OSError."""
    unfinished = path.with_name(f".{path.name}.partial")
    try:
        write_durably(unfinished, content)
        unfinished.rename(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's entries, to disk. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Flush `folder` and everything below it to disk. Raises OSError."""
    for below in folder.iterdir():
        if below.is_dir():
            sync_tree(below)
        else:
            sync(below)
    sync(folder)


MOST_RECORD_BYTES = 32 << 20
"""Limit of `manifest.json`, `trial.json` and `cloud.json`: with 10,000 trials, a manifest has about 1 MB."""
LARGEST_INTEGER = 2**64
"""Largest integer in a record: in nanoseconds, 584 years."""
LARGEST_NUMBER = 1e45
"""Largest other number in a record. The sum of the squares of a trial's latencies, in nanoseconds squared, is
1e21 after an hour of 3,000 transactions per second that take 10 ms each.
"""
MOST_US = 10**16
"""Largest time on any clock: 300 years."""
DEEPEST = 16
"""Deepest nesting of folders in a run: pgdyno creates four."""
_DIGITS = 40
NO_LINKS = "a run folder contains only files, no links: replace it with the file that it points to"
DAMAGED = "the file was changed or damaged"


def read_record(path: Path) -> bytes:
    """Return the record at `path`. Raises StoreError for a link, a pipe, a device, and beyond the limit."""
    with store_errors("read", path), open_regular(path) as file:
        content = file.read(MOST_RECORD_BYTES + 1)
    if len(content) > MOST_RECORD_BYTES:
        raise StoreError(f"cannot read {path}: it is larger than {MOST_RECORD_BYTES >> 20} MiB", hint=DAMAGED)
    return content


def read_model(path: Path, model: type[_R], check: Callable[[Path, dict[str, Any]], None] | None = None) -> _R:
    """Return the record at `path` as a `model`; `check` gets its JSON before, and may raise. Raises StoreError."""
    # imported here: most commands that use this module read no record
    from pydantic import ValidationError

    content = read_record(path)
    try:
        data = parse_json(content)
        if not isinstance(data, dict):
            raise ValueError("it is not an object")
        if check is not None:
            check(path, data)
        return model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        at = ".".join(str(part) for part in first["loc"])
        raise StoreError(f"cannot read {path}: {at}: {first['msg'].lower()}", hint=DAMAGED) from error
    except ValueError as error:
        raise StoreError(f"cannot read {path}: it is not JSON: {error}", hint=DAMAGED) from error


def open_regular(path: Path) -> BinaryIO:
    """Open the file at `path`. Raises OSError; StoreError for a link, a pipe and a device."""
    try:
        # opening a pipe would wait for its writer; a link may name any file of this machine
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise StoreError(f"cannot read {path}: it is a symbolic link", hint=NO_LINKS) from error
        raise
    file = open(handle, "rb")  # noqa: PTH123, SIM115 - of what is open already; the caller closes it
    try:
        check_regular(path, os.fstat(handle))
    except BaseException:
        file.close()
        raise
    return file


def check_regular(path: Path, found: os.stat_result) -> None:
    """Raise StoreError unless `found`, the status of `path` itself, is a regular file."""
    if stat.S_ISLNK(found.st_mode):
        raise StoreError(f"cannot read {path}: it is a symbolic link", hint=NO_LINKS)
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(f"cannot read {path}: it is not a regular file", hint=DAMAGED)


def files_below(folder: Path, _depth: int = 1) -> Iterator[Path]:
    """Return files in `folder` and its subfolders, by path, without hidden ones and links. Raises OSError, and
    StoreError for a folder that is nested too deeply.
    """
    if _depth > DEEPEST:
        raise StoreError(f"cannot read {folder}: it is nested deeper than {DEEPEST} folders", hint=DAMAGED)
    for each in sorted(folder.iterdir()):
        # a link may name any file of this machine
        if each.name.startswith(".") or each.is_symlink():
            continue
        if each.is_dir():
            yield from files_below(each, _depth + 1)
        elif each.is_file():
            yield each


def parse_json(content: bytes | str) -> Any:  # noqa: ANN401 - JSON of any shape
    """Parse JSON. Raises ValueError also for a duplicate key, a number not finite or too large, and deep nesting."""
    try:
        return json.loads(
            content,
            object_pairs_hook=_refuse_duplicates,
            parse_constant=_no_number,
            parse_float=_number,
            parse_int=_whole,
        )
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def detail_of(kind: str, detail: str) -> dict[str, Any]:
    """Return the other fields of an event of the table `events`. Raises StoreError unless they are a JSON object."""
    try:
        found = parse_json(detail)
    except ValueError as error:
        raise StoreError(f"cannot read the event {kind}: {error}", hint=DAMAGED) from error
    if not isinstance(found, dict):
        raise StoreError(f"cannot read the event {kind}: its detail is not a JSON object", hint=DAMAGED)
    return found


def whole_of(kind: str, detail: str, name: str) -> int | None:
    """Return an integer among these fields; None if absent. Raises StoreError for another type."""
    value = detail_of(kind, detail).get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < MOST_US):
        return value
    raise StoreError(f"cannot read the event {kind}: its {name} is not an integer", hint=DAMAGED)


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        times = Counter(name for name, _ in pairs)
        twice = next(name for name, count in times.items() if count > 1)
        raise ValueError(f"the key {twice[:60]!r} occurs twice")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or abs(value) > LARGEST_NUMBER:
        raise ValueError(f"the number {text[:_DIGITS]} is too large")
    return value


def _whole(text: str) -> int:
    if len(text) > _DIGITS or abs(value := int(text)) > LARGEST_INTEGER:
        raise ValueError(f"the number {text[:_DIGITS]} is too large")
    return value
