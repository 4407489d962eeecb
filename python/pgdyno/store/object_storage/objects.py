"""Objects of a bucket. obstore and asyncio are imported in functions: most commands read no object storage."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import IO, TYPE_CHECKING, Literal, TypeVar

from pgdyno.errors import StoreError
from pgdyno.store.object_storage.address import Address
from pgdyno.store.object_storage.services import SERVICES, bucket_store
from pgdyno.store.safe_files import store_errors

if TYPE_CHECKING:
    from obstore.store import ObjectStore

T = TypeVar("T")
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]*)</Message>")
_NO_BUCKET = {"NoSuchBucket", "ContainerNotFound", "InvalidBucketName"}
_UNKNOWN = {"InvalidAccessKeyId", "ExpiredToken", "InvalidToken", "TokenRefreshRequired", "AuthenticationFailed",
            "InvalidAuthenticationInfo"}  # fmt: skip
_NO_CREDENTIALS = re.compile(r"token request|169\.254\.|metadata|credential|authorization request", re.IGNORECASE)


@contextmanager
def explain_errors(doing: str, at: Address) -> Iterator[None]:
    """Convert errors of the service to StoreError: `doing` is "list", "read" or "write", done to `at`."""
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, FileNotFoundError, ValueError) as error:
        raise _service_error(f"cannot {doing} {at}", doing, at, error) from error


def _service_error(what: str, doing: str, at: Address, error: Exception) -> StoreError:
    from obstore.exceptions import AlreadyExistsError, PreconditionError

    service, text = SERVICES[at.scheme], str(error).partition("\n\nDebug source:")[0]
    status, code = _first_match(_STATUS, text), _first_match(_CODE, text)
    if code in _NO_BUCKET:
        return StoreError(f"{what}: there is no bucket {at.bucket}", hint=service.endpoint)
    if code in _UNKNOWN or status == "401":
        why = f" ({code})" if code else ""
        return StoreError(f"{what}: the credentials are not accepted{why}", hint=service.credentials)
    if status == "403" and not _NO_CREDENTIALS.search(text):
        hint = f"{service.needed[doing]} is needed; {service.credentials}"
        return StoreError(f"{what}: access denied{f' ({code})' if code else ''}", hint=hint)
    if isinstance(error, AlreadyExistsError):
        return StoreError(f"{what}: it already exists", hint="remove it first, or choose another place")
    if isinstance(error, PreconditionError):
        return StoreError(f"{what}: it was changed while the run was read", hint="read it again when it is complete")
    if isinstance(error, FileNotFoundError):
        return StoreError(
            f"{what}: the object does not exist, or no longer exists",
            hint="check whether somebody removed it while pgdyno read it",
        )
    if status is not None and code is not None:
        return StoreError(f"{what}: {', '.join(each for each in (code, _first_match(_MESSAGE, text)) if each)}")
    if status is None and "body" in text:
        return StoreError(f"{what}: the connection broke: {_shorten(text)}")
    hint = service.credentials if _NO_CREDENTIALS.search(text) else service.endpoint
    return StoreError(f"{what}: {_shorten(text)}", hint=hint)


def _first_match(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return None if found is None else found[1]


def _shorten(text: str) -> str:
    """Return the cause: the library's text repeats what was asked before it."""
    line = " ".join(text.split())
    return line.rpartition("Error performing ")[2][:300]


CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as it was listed."""

    address: Address
    size_bytes: int
    etag: str | None
    """Differs if the content differs; None if the service gives none."""


def _run_work(work: Callable[[], Awaitable[T]]) -> T:
    """Wait for what `work` begins; unlike obstore's functions that block, Ctrl-C ends it at once."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    async def wait() -> T:
        return await work()

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    # a notebook's cells are executed in a loop, and a thread runs only one
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, wait()).result()


def _store(at: Address) -> ObjectStore:
    return bucket_store(at.scheme, at.bucket)


def list_objects(at: Address) -> list[Stored]:
    """All objects below `at`, by their keys. Raises StoreError."""
    import obstore

    with explain_errors("list", at):
        found = _run_work(lambda: obstore.list(_store(at), at.key or None).collect_async())
    # without the empty object that consoles create for a folder
    own = [each for each in found if each["path"] != at.key]
    objects = [Stored(Address(at.bucket, each["path"], at.scheme), each["size"], each["e_tag"]) for each in own]
    return sorted(objects, key=lambda each: each.address.key)


def folders(at: Address) -> list[str]:
    """Return the names of direct subfolders of `at` that contain objects, sorted. Raises StoreError."""
    return _list_names(at)[0]


def files(at: Address) -> list[str]:
    """Names of the objects directly below `at`, sorted. Raises StoreError."""
    return _list_names(at)[1]


def _list_names(at: Address) -> tuple[list[str], list[str]]:
    import obstore

    with explain_errors("list", at):
        found = _run_work(lambda: obstore.list_with_delimiter_async(_store(at), at.key or None))
    objects = [each["path"] for each in found["objects"] if each["path"] != at.key]
    return _names(at, found["common_prefixes"]), _names(at, objects)


def _names(at: Address, keys: Iterable[str]) -> list[str]:
    return sorted(key.removeprefix(at.prefix) for key in keys)


def find_object(at: Address) -> Stored | None:
    """The object at `at`; None where there is none. Raises StoreError."""
    import obstore

    with explain_errors("read", at):
        try:
            found = _run_work(lambda: obstore.head_async(_store(at), at.key))
        except FileNotFoundError:
            return None
    return Stored(at, found["size"], found["e_tag"])


def read_beginning(at: Address, size_bytes: int) -> bytes:
    """The first bytes of an object. Raises StoreError."""
    import obstore
    from obstore.exceptions import BaseError

    with explain_errors("read", at):
        try:
            return bytes(_run_work(lambda: obstore.get_range_async(_store(at), at.key, start=0, end=size_bytes)))
        except BaseError as error:
            if _first_match(_STATUS, str(error)) == "416":
                # it is empty
                return b""
            raise


def fetch(of: Stored, path: Path, stopped: Event | None = None) -> None:
    """Download the object to `path`, as it was when it was listed; stops within a chunk if `stopped` is set.

    Raises StoreError if it has vanished or changed since, is incomplete, cannot be written, or is stopped.
    """
    with store_errors("write", path), path.open("wb") as file, explain_errors("read", of.address):
        _run_work(lambda: _copy(of, file, stopped or Event()))


async def _copy(of: Stored, file: IO[bytes], stopped: Event) -> None:
    import obstore

    answer = await obstore.get_async(_store(of.address), of.address.key, options={"if_match": of.etag})
    written = 0
    async for chunk in answer.stream(CHUNK_BYTES):
        if stopped.is_set():
            raise StoreError(f"cannot read {of.address}: it was stopped")
        written += file.write(chunk)
    if written != of.size_bytes:
        raise StoreError(f"cannot read {of.address}: {written} of its {of.size_bytes} bytes came")


def write(content: bytes | IO[bytes], at: Address, *, only_new: bool = False) -> None:
    """Upload `content` to `at`; the object appears as a whole or not at all. Raises StoreError.

    With `only_new`, an existing object is kept, and is an error.
    """
    import obstore

    mode: Literal["create", "overwrite"] = "create" if only_new else "overwrite"
    with explain_errors("write", at):
        _run_work(lambda: obstore.put_async(_store(at), at.key, content, mode=mode))
