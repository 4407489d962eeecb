"""Objects of S3: list, download, upload. A provider's package supplies the client (`service`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import IO, Any

from pgdyno.errors import StoreError
from pgdyno.store.remote.address import Address
from pgdyno.store.remote.faults import BrokenOffError, explained, is_absent, is_empty
from pgdyno.store.remote.service import service
from pgdyno.store.storing import storing

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
