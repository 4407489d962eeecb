"""Objects of S3: list, download, upload. A provider's package supplies the client (`service`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import IO, Any

from pgdyno.errors import StoreError
from pgdyno.store.object_storage.address import Address, service
from pgdyno.store.safe_files import storing

_NEEDED = {"list": "s3:ListBucket", "read": "s3:GetObject", "write": "s3:PutObject"}
_DENIED = {"AccessDenied", "AllAccessDisabled", "403", "Forbidden", "SignatureDoesNotMatch"}
_UNKNOWN = {"InvalidAccessKeyId", "ExpiredToken", "InvalidToken", "TokenRefreshRequired"}
_ABSENT = {"NoSuchKey", "404", "NotFound"}
_CHANGED = {"PreconditionFailed", "412"}
_CREDENTIALS = "credentials are those that boto3 finds: the environment, AWS_PROFILE, or the role of this host"
_ENDPOINT = "look at the name, at AWS_PROFILE, and at the endpoint (AWS_ENDPOINT_URL_S3)"


class BrokenOffError(StoreError):
    """The transfer of an object ended early."""


@contextmanager
def explained(doing: str, at: Address) -> Iterator[None]:
    """Convert errors of the client to StoreError: `doing` is "list", "read" or "write", done to `at`.

    Also raises StoreError without a client.
    """
    errors = service()
    what = f"cannot {doing} {at}"
    try:
        yield
    except errors.refused as error:
        raise _refused(what, doing, at, _answer(error)) from error
    except errors.broken_off as error:
        raise BrokenOffError(f"{what}: the connection broke off: {_first_line(error)}") from error
    except errors.not_asked as error:
        raise _not_asked(what, error) from error


def is_absent(error: Exception) -> bool:
    """Return whether S3 answered that the object does not exist. A missing bucket is a different error."""
    return _code(error) in _ABSENT


def is_empty(error: Exception) -> bool:
    """Return whether S3 answered that an object has no such bytes."""
    return _code(error) == "InvalidRange"


def _code(error: Exception) -> str | None:
    return _answer(error).get("Code") if isinstance(error, service().refused) else None


def _answer(error: Any) -> dict[str, str]:  # noqa: ANN401 - of a class that the client brings
    said: dict[str, str] = error.response.get("Error", {})
    return said


def _refused(what: str, doing: str, at: Address, said: dict[str, str]) -> StoreError:
    code, message = said.get("Code", ""), said.get("Message", "")
    if code == "NoSuchBucket":
        return StoreError(f"{what}: there is no bucket {at.bucket}", hint=_ENDPOINT)
    if code in _DENIED:
        return StoreError(f"{what}: access denied ({code})", hint=f"{_NEEDED[doing]} is needed; {_CREDENTIALS}")
    if code in _UNKNOWN:
        return StoreError(f"{what}: the credentials are not accepted ({code})", hint=_CREDENTIALS)
    if code in _ABSENT:
        return StoreError(f"{what}: there is no such object (any more)", hint="was it removed while it was read?")
    if code in _CHANGED and doing == "write":
        return StoreError(f"{what}: it is there already", hint="remove it first, or choose another place")
    if code in _CHANGED:
        return StoreError(f"{what}: it was changed while the run was read", hint="read it again when it is whole")
    return StoreError(f"{what}: {': '.join(each for each in (code, message) if each)}")


def _not_asked(what: str, error: Exception) -> StoreError:
    name = type(error).__name__
    if "Credential" in name or "Token" in name or name == "ProfileNotFound":
        return StoreError(f"{what}: {_first_line(error)}", hint=_CREDENTIALS)
    return StoreError(f"{what}: {_first_line(error)}", hint=_ENDPOINT)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]


CHUNK_BYTES = 1 << 20
GOES = 3
"""Attempts at an object whose transfer ends early; the client repeats requests itself."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as it was listed."""

    address: Address
    size_bytes: int
    etag: str
    """Differs if the content differs."""


def listed(at: Address) -> list[Stored]:
    """All objects below `at`, by their keys. Raises StoreError."""
    with explained("list", at):
        every = [each for page in _pages(at.bucket, at.prefix) for each in page.get("Contents", ())]
    return [Stored(Address(at.bucket, each["Key"]), each["Size"], each["ETag"]) for each in every]


def folders(at: Address, beginning: str = "") -> list[str]:
    """Return the names of direct subfolders of `at` that contain objects, sorted. Raises StoreError."""
    prefix = at.prefix + beginning
    with explained("list", at):
        found = [each["Prefix"] for page in _pages(at.bucket, prefix, "/") for each in page.get("CommonPrefixes", ())]
    return sorted(each.removeprefix(at.prefix).rstrip("/") for each in found)


def files(at: Address, beginning: str = "") -> list[str]:
    """Names of the objects directly below `at`. Raises StoreError."""
    prefix = at.prefix + beginning
    with explained("list", at):
        found = [each["Key"] for page in _pages(at.bucket, prefix, "/") for each in page.get("Contents", ())]
    return sorted(name for each in found if (name := each.removeprefix(at.prefix)))


def stored(at: Address) -> Stored | None:
    """The object at `at`; None where there is none. Raises StoreError."""
    with explained("read", at):
        try:
            answer = service().client().head_object(Bucket=at.bucket, Key=at.key)
        except Exception as error:
            if is_absent(error):
                return None
            raise
    return Stored(at, answer["ContentLength"], answer["ETag"])


def beginning(at: Address, size_bytes: int) -> bytes:
    """The first bytes of an object. Raises StoreError."""
    with explained("read", at):
        try:
            answer = service().client().get_object(Bucket=at.bucket, Key=at.key, Range=f"bytes=0-{size_bytes - 1}")
        except Exception as error:
            if is_empty(error):
                return b""
            raise
        content: bytes = answer["Body"].read(size_bytes)
    return content


def fetch(of: Stored, path: Path, stopped: Event | None = None) -> None:
    """Download the object to `path`, as it was when it was listed; stops within a chunk if `stopped` is set.

    Raises StoreError if it has vanished or changed since, is incomplete, cannot be written, or is stopped.
    """
    for left in reversed(range(GOES)):
        try:
            with storing("write", path), path.open("wb") as file, explained("read", of.address):
                _copy(of, file, stopped or Event())
        except BrokenOffError:
            if not left:
                raise
        else:
            return


def _copy(of: Stored, file: IO[bytes], stopped: Event) -> None:
    body = service().client().get_object(Bucket=of.address.bucket, Key=of.address.key, IfMatch=of.etag)["Body"]
    written = 0
    for chunk in body.iter_chunks(CHUNK_BYTES):
        if stopped.is_set():
            raise StoreError(f"cannot read {of.address}: it was stopped")
        written += file.write(chunk)
    if written != of.size_bytes:
        raise BrokenOffError(f"cannot read {of.address}: {written} of its {of.size_bytes} bytes came")


def write(content: bytes | IO[bytes], at: Address, *, only_new: bool = False) -> None:
    """Upload `content` to `at`, with a checksum that S3 verifies. Raises StoreError.

    With `only_new`, an existing object is kept, and is an error.
    """
    condition = {"IfNoneMatch": "*"} if only_new else {}
    with explained("write", at):
        service().client().put_object(
            Bucket=at.bucket, Key=at.key, Body=content, ChecksumAlgorithm="CRC32", **condition
        )


def _pages(bucket: str, prefix: str, delimiter: str | None = None) -> Iterator[dict[str, Any]]:
    divided = {} if delimiter is None else {"Delimiter": delimiter}
    yield from service().client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix, **divided)
