"""A file fetched whole, going on where an earlier attempt was cut.

What has come stands in NAME.partial, and beside it in NAME.partial.json what it is a part of: without
that, or when the server's file is another by now, the download starts anew.
"""

from __future__ import annotations

import http.client
import json
import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.targets.progress import Progress
from pgdyno.targets.storage import storage_error, storing
from pgdyno.targets.web import (
    HINT,
    Patience,
    RangeRefusedError,
    TransientError,
    announced_bytes,
    opened,
    public_url,
    read_some,
)
from pgdyno.units import format_bytes

CHUNK_BYTES = 256 * 1024
MAX_REQUESTS = 100
"""A server that cuts again and again after a little more is left after so many requests."""

_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")


@dataclass(frozen=True, slots=True)
class _Whole:
    """The file that a partial one is a part of."""

    url: str
    tag: str | None
    """What If-Range takes: a strong entity tag or a date."""
    total: int | None
    """Bytes."""


def fetch_file(url: str, path: Path, patience: Patience, progress: Progress) -> None:
    """Fetches `url` into `path`. Raises NotThereError, and TargetError for all else that keeps it from ending well."""
    partial = _partial(path)
    failures, longest = 0, _length(partial)
    reason: TransientError | None = None
    for _ in range(MAX_REQUESTS):
        try:
            _request_rest(url, partial, patience, progress)
            with storing(path, "cannot write"):
                partial.replace(path)
                _note(partial).unlink(missing_ok=True)
            return
        except TransientError as error:
            # a cut that gained something is the first failure again: the next request goes on behind it
            failures = 1 if _length(partial) > longest else failures + 1
            longest = max(longest, _length(partial))
            reason = error
        if failures >= patience.attempts:
            break
        patience.pause(failures)
    raise TargetError(f"cannot fetch {public_url(url)}: {reason}", hint=HINT) from reason


def discard(path: Path) -> None:
    """Removes `path` and what was fetched of it."""
    partial = _partial(path)
    with suppress(OSError):
        for each in (path, partial, _note(partial)):
            each.unlink(missing_ok=True)


def _request_rest(url: str, partial: Path, patience: Patience, progress: Progress) -> None:
    whole = _read_note(partial)
    if whole is None or whole.url != public_url(url):
        _forget(partial)
        whole = None
    offset = _length(partial)
    if whole is not None and offset == whole.total:
        return
    headers = {}
    if whole is not None and offset:
        headers["Range"] = f"bytes={offset}-"
        if whole.tag is not None:
            headers["If-Range"] = whole.tag
    try:
        with opened(url, headers, patience) as response:
            if response.status == 206 and whole is not None:
                _check_continues(response, offset, whole)
            else:
                offset, whole = 0, _Whole(public_url(url), _tag(response), announced_bytes(response))
                _start(partial, whole)
            _receive(response, partial, offset, whole.total, progress)
    except RangeRefusedError:
        _forget(partial)
        raise


def _receive(
    response: http.client.HTTPResponse, partial: Path, offset: int, total: int | None, progress: Progress
) -> None:
    progress.bytes(offset, total)
    try:
        with partial.open("r+b") as file:
            file.seek(offset)
            while chunk := read_some(response, CHUNK_BYTES):
                file.write(chunk)
                file.flush()
                offset += len(chunk)
                progress.bytes(offset, total)
    except OSError as error:
        # a full disk is not left full of half a file
        _forget(partial)
        raise storage_error(error, partial, "cannot write") from error
    if total is not None and offset < total:
        raise TransientError(f"the connection ended after {format_bytes(offset)} of {format_bytes(total)}")
    if total is not None and offset > total:
        raise RangeRefusedError(f"the server sent more than the {format_bytes(total)} that it announced")


def _check_continues(response: http.client.HTTPResponse, offset: int, whole: _Whole) -> None:
    match = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if match is None or int(match[1]) != offset or whole.total not in (None, int(match[2])):
        raise RangeRefusedError("the file changed on the server while it was fetched")


def _tag(response: http.client.HTTPResponse) -> str | None:
    tag = response.headers.get("ETag")
    # If-Range takes strong tags only (RFC 9110, 13.1.5)
    return tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified")


def _start(partial: Path, whole: _Whole) -> None:
    with storing(partial, "cannot write"):
        partial.write_bytes(b"")
        _note(partial).write_text(json.dumps(asdict(whole)), encoding="utf-8")


def _forget(partial: Path) -> None:
    with suppress(OSError):
        _note(partial).unlink(missing_ok=True)
        partial.unlink(missing_ok=True)


def _partial(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")


def _note(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.json")


def _read_note(partial: Path) -> _Whole | None:
    try:
        return _Whole(**json.loads(_note(partial).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
