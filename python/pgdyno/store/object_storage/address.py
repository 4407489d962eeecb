"""Addresses on object storage: `s3://bucket/key`, `gs://bucket/key`, `az://container/key`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from os import PathLike, fspath

from pgdyno.errors import UsageError

SCHEMES = ("s3", "gs", "az")
"""S3 and compatible services, Google Cloud Storage, Azure Blob Storage."""
_ADDRESS = re.compile(rf"({'|'.join(SCHEMES)})://([^/]*)/?(.*)", re.DOTALL)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
WILD = re.compile(r"[*?\[]")
"""A character that makes a path or an address a pattern."""
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")


def is_remote(place: str | PathLike[str]) -> bool:
    """Return whether `place` is a URL, which `Address.of` parses or refuses; everything else is a path."""
    return _URL.match(fspath(place)) is not None


@dataclass(frozen=True, slots=True)
class Address:
    """An object, or all whose keys begin with `key/`."""

    bucket: str
    """Name of the bucket; for Azure, of the container."""
    key: str
    """Without a slash at either end; empty for the whole bucket."""
    scheme: str = "s3"

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse `text`. Raises UsageError."""
        found = _ADDRESS.fullmatch(text)
        scheme, bucket, key = found.groups() if found is not None else ("", "", "")
        if _BUCKET.fullmatch(bucket) is None:
            why = f": a bucket cannot be called {bucket!r}" if bucket else ""
            hint = f"write {scheme}://bucket/folder" if scheme else "write s3://bucket/folder, gs://… or az://…"
            raise UsageError(f"{text!r} is no address of object storage{why}", hint=hint)
        return cls(bucket, key.strip("/"), scheme)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.key}"

    def __truediv__(self, below: str) -> Address:
        return Address(self.bucket, f"{self.prefix}{below}", self.scheme)

    @property
    def prefix(self) -> str:
        """Return the common prefix of all keys below."""
        return f"{self.key}/" if self.key else ""

    @property
    def name(self) -> str:
        """Return the last part of its key; for a whole bucket, the bucket's name."""
        return self.key.rpartition("/")[2] or self.bucket
