"""Where something lies on object storage: `s3://bucket/key`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from os import PathLike, fspath

from pgdyno.errors import UsageError

SCHEME = "s3://"
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")


def is_remote(place: str | PathLike[str]) -> bool:
    """Whether `place` is an address of object storage; all else is a path."""
    return fspath(place).startswith(SCHEME)


@dataclass(frozen=True, slots=True)
class Address:
    """An object, or all whose keys begin with `key/`."""

    bucket: str
    key: str
    """Without a slash at either end; empty: the whole bucket."""

    @classmethod
    def of(cls, text: str) -> Address:
        """What `text` says. Raises UsageError."""
        bucket, _, key = text.removeprefix(SCHEME).partition("/")
        if not is_remote(text) or _BUCKET.fullmatch(bucket) is None:
            why = f": a bucket cannot be called {bucket!r}" if bucket and is_remote(text) else ""
            raise UsageError(f"{text!r} is no address of object storage{why}", hint="write s3://bucket/folder")
        return cls(bucket, key.strip("/"))

    def __str__(self) -> str:
        """As people type it."""
        return f"{SCHEME}{self.bucket}/{self.key}"

    def __truediv__(self, below: str) -> Address:
        """What is called `below` in it."""
        return Address(self.bucket, f"{self.prefix}{below}")

    @property
    def prefix(self) -> str:
        """What keys of all that is below begin with."""
        return f"{self.key}/" if self.key else ""

    @property
    def name(self) -> str:
        """The last part of its key; of a whole bucket, the bucket's."""
        return self.key.rpartition("/")[2] or self.bucket
