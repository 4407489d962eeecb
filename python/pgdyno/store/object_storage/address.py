"""Addresses on object storage: `s3://bucket/key`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from os import PathLike, fspath
from typing import Any, Protocol

from pgdyno.errors import StoreError, UsageError
from pgdyno.registry import OBJECT_STORAGE, loaded

SCHEME = "s3://"
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")


def is_remote(place: str | PathLike[str]) -> bool:
    """Return whether `place` is an address of object storage; everything else is a path."""
    return fspath(place).startswith(SCHEME)


@dataclass(frozen=True, slots=True)
class Address:
    """An object, or all whose keys begin with `key/`."""

    bucket: str
    key: str
    """Without a slash at either end; empty for the whole bucket."""

    @classmethod
    def of(cls, text: str) -> Address:
        """Parse `text`. Raises UsageError."""
        bucket, _, key = text.removeprefix(SCHEME).partition("/")
        if not is_remote(text) or _BUCKET.fullmatch(bucket) is None:
            why = f": a bucket cannot be called {bucket!r}" if bucket and is_remote(text) else ""
            raise UsageError(f"{text!r} is no address of object storage{why}", hint="write s3://bucket/folder")
        return cls(bucket, key.strip("/"))

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.key}"

    def __truediv__(self, below: str) -> Address:
        """Return the address of `below` in it."""
        return Address(self.bucket, f"{self.prefix}{below}")

    @property
    def prefix(self) -> str:
        """Return the common prefix of all keys below."""
        return f"{self.key}/" if self.key else ""

    @property
    def name(self) -> str:
        """Return the last part of its key; for a whole bucket, the bucket's name."""
        return self.key.rpartition("/")[2] or self.bucket


class Service(Protocol):
    """A client of S3 with boto3's methods, and its types of errors.

    Credentials, region and endpoint are those that the client finds; none of them is stored.
    """

    refused: type[Exception]
    """Raised if the service answers with an error; `response["Error"]` has its `Code` and `Message`."""
    broken_off: tuple[type[Exception], ...]
    """Raised if the transfer of an object ends early."""
    not_asked: type[Exception]
    """Raised if a request does not reach the service; may be a base class of the others."""

    def client(self) -> Any:  # noqa: ANN401 - boto3 makes its clients while it runs
        """Return the cached client, which reads its configuration when it is created. Raises StoreError."""


@cache
def service() -> Service:
    """Return the service for s3:// addresses. Raises StoreError."""
    module = loaded(OBJECT_STORAGE["s3"])
    if module is None:
        raise StoreError("this pgdyno has no client of object storage: the package of its provider is missing")
    made: Service = module.S3()
    return made
