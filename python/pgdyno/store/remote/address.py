"""Addresses on object storage: `s3://bucket/key`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from os import PathLike, fspath

from pgdyno.errors import UsageError

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
