"""Fetches a file, resuming an interrupted download, and unpacks a server's archive completely or not at all.

Received bytes are in NAME.partial, and NAME.partial.json says what they are part of. Without that, or if the file in
the repository has changed, the download starts again.

The archive is a zip file that contains an xz-compressed tar file. Nothing in it may be written, or point, outside its
folder: names are checked before anything is written, and links are made after all files, so that no file is written
through a link.
"""

import http.client
import json
import lzma
import os
import re
import secrets
import shutil
import tarfile
import zipfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from pgdyno.errors import TargetError
from pgdyno.targets.home import Progress, ensure_folder, storage_error, target_errors
from pgdyno.targets.http_requests import (
    HINT,
    Patience,
    RangeRefusedError,
    TransientError,
    announced_bytes,
    open_url,
    public_url,
    read_some,
)
from pgdyno.units import format_bytes

CHUNK_BYTES = 256 * 1024
MAX_REQUESTS = 100
"""The limit for a server that breaks the connection after every few bytes."""
MAX_ARCHIVE_BYTES = 1 << 30
MAX_UNPACKED_BYTES = 2 << 30
"""Limits of an archive and of its content; PostgreSQL's have 12 MiB and 60 MiB."""

_RANGE = re.compile(r"bytes (\d{1,18})-\d+/(\d{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Whole:
    """The complete file that a partial one belongs to."""

    url: str
    tag: str | None
    """A value for If-Range: a strong entity tag or a date."""
    total: int | None
    """The size in bytes."""


def fetch_file(url: str, path: Path, patience: Patience, progress: Progress) -> None:
    """Download `url` to `path`. Raises NotThereError if it does not exist, and TargetError for every other failure."""
    partial = _partial_path(path)
    failures, longest = 0, _length(partial)
    reason: TransientError | None = None
    for _ in range(MAX_REQUESTS):
        try:
            _request_rest(url, partial, patience, progress)
            with target_errors(path, "cannot write"):
                partial.replace(path)
                _note(partial).unlink(missing_ok=True)
            return
        except TransientError as error:
            # an interruption after some progress counts as the first failure: the next request continues from there
            failures = 1 if _length(partial) > longest else failures + 1
            longest = max(longest, _length(partial))
            reason = error
        if failures >= patience.attempts:
            break
        patience.pause(failures)
    raise TargetError(f"cannot fetch {public_url(url)}: {reason}", hint=HINT) from reason


def discard(path: Path) -> None:
    """Remove `path` and its partial download."""
    partial = _partial_path(path)
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
        with open_url(url, headers, patience) as response:
            if response.status == 206 and whole is not None:
                match = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
                if match is None or int(match[1]) != offset or whole.total not in (None, int(match[2])):
                    raise RangeRefusedError("the file changed on the server while it was fetched")
            else:
                offset, whole = 0, _Whole(public_url(url), _tag(response), announced_bytes(response))
                with target_errors(partial, "cannot write"):
                    partial.write_bytes(b"")
                    _note(partial).write_text(json.dumps(asdict(whole)), encoding="utf-8")
            _receive(response, partial, offset, whole.total, progress)
    except RangeRefusedError:
        _forget(partial)
        raise


def _receive(
    response: http.client.HTTPResponse, partial: Path, offset: int, total: int | None, progress: Progress
) -> None:
    progress.bytes(offset, total)
    _check_size(max(offset, total or 0), partial)
    try:
        with partial.open("r+b") as file:
            file.seek(offset)
            while chunk := read_some(response, CHUNK_BYTES):
                file.write(chunk)
                file.flush()
                offset += len(chunk)
                _check_size(offset, partial)
                progress.bytes(offset, total)
    except OSError as error:
        # half a file must not keep a full disk full
        _forget(partial)
        raise storage_error(error, partial, "cannot write") from error
    if total is not None and offset < total:
        raise TransientError(f"the connection ended after {format_bytes(offset)} of {format_bytes(total)}")
    if total is not None and offset > total:
        raise RangeRefusedError(f"the server sent more than the {format_bytes(total)} that it announced")


def _check_size(size: int, partial: Path) -> None:
    if size > MAX_ARCHIVE_BYTES:
        _forget(partial)
        raise TargetError(
            f"cannot fetch {partial.stem}: the server sends {format_bytes(size)}, more than the limit of "
            f"{format_bytes(MAX_ARCHIVE_BYTES)}",
            hint=HINT,
        )


def _tag(response: http.client.HTTPResponse) -> str | None:
    tag = response.headers.get("ETag")
    # If-Range takes strong tags only (RFC 9110, 13.1.5)
    return tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified")


def _forget(partial: Path) -> None:
    with suppress(OSError):
        _note(partial).unlink(missing_ok=True)
        partial.unlink(missing_ok=True)


def _partial_path(path: Path) -> Path:
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


def unpack_archive(archive: Path, folder: Path) -> None:
    """Unpacks `archive` as `folder`, which appears when it is complete.

    Files are readable and folders traversable by everyone, because servers may run as another user. Raises TargetError
    if the archive is damaged or unsafe, or space is short.
    """
    ensure_folder(folder.parent)
    unfinished = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    try:
        _unpack(archive, unfinished)
        unfinished.rename(folder)
    # zipfile raises RuntimeError for encryption, and for compression that it does not know; pathlib for a loop of links
    except (zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, EOFError, RuntimeError, ValueError) as error:
        raise TargetError(f"cannot unpack {archive}: {str(error).lower() or 'it ends too early'}") from error
    except OSError as error:
        raise storage_error(error, folder, "cannot unpack a server into") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _unpack(archive: Path, folder: Path) -> None:
    folder.mkdir(0o755)
    folder.chmod(0o755)
    root = folder.resolve()
    with zipfile.ZipFile(archive) as outer:
        names = [name for name in outer.namelist() if name.endswith(".txz")]
        if len(names) != 1:
            raise TargetError(f"cannot unpack {archive}: {len(names)} archives of a server inside instead of one")
        with (
            outer.open(names[0]) as packed,
            _Bounded(packed) as content,
            tarfile.open(fileobj=content, mode="r|") as inner,
        ):
            links = [member for member in inner if not _write(inner, member, root, archive)]
    _make_links(links, root, archive)


class _Bounded(lzma.LZMAFile):
    """What is unpacked, up to the limit: the content of a small archive may have any size."""

    _left = MAX_UNPACKED_BYTES

    def read(self, size: int | None = -1) -> bytes:
        found = super().read(size)
        self._left -= len(found)
        if self._left < 0:
            raise TargetError(f"cannot unpack the server: it is larger than {format_bytes(MAX_UNPACKED_BYTES)}")
        return found


def _write(inner: tarfile.TarFile, member: tarfile.TarInfo, root: Path, archive: Path) -> bool:
    path = _path_inside(member.name, root, archive)
    if member.isdir():
        _make_folders(path, root)
    elif member.isfile() and not member.issparse():  # a sparse one may be larger than all that was read
        _make_folders(path.parent, root)
        content = inner.extractfile(member)
        assert content is not None  # regular files always have content
        with content, path.open("xb") as file:
            shutil.copyfileobj(content, file)
        path.chmod(0o755 if member.mode & 0o100 else 0o644)
    elif member.issym() or member.islnk():
        return False
    else:
        raise TargetError(f"cannot unpack {archive}: {member.name} is neither file, folder nor link")
    return True


def _make_links(links: list[tarfile.TarInfo], root: Path, archive: Path) -> None:
    for link in (each for each in links if each.islnk()):
        path = _path_inside(link.name, root, archive)
        _make_folders(path.parent, root)
        os.link(_path_inside(link.linkname, root, archive), path, follow_symlinks=False)
    symbolic = [(_path_inside(each.name, root, archive), each) for each in links if each.issym()]
    for path, _ in symbolic:
        _make_folders(path.parent, root)
    for path, link in symbolic:
        if path.parent.resolve() != path.parent:
            raise TargetError(f"cannot unpack {archive}: {link.name} is below a symbolic link")
        path.symlink_to(link.linkname)
    # the file system resolves the links after all exist, because one link may lead through another
    for path, link in symbolic:
        if not path.resolve().is_relative_to(root):
            raise TargetError(f"cannot unpack {archive}: the link {link.name} points outside, to {link.linkname}")


def _make_folders(path: Path, root: Path) -> None:
    for folder in reversed([path, *path.parents]):
        if folder.is_relative_to(root) and not folder.is_dir():
            folder.mkdir()
            folder.chmod(0o755)


def _path_inside(name: str, root: Path, archive: Path) -> Path:
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts:
        raise TargetError(f"cannot unpack {archive}: {name} would be outside its folder")
    return root / pure
