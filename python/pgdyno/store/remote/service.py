"""Object storage as the package of a cloud provider supplies it."""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol

from pgdyno.errors import StoreError
from pgdyno.registry import OBJECT_STORAGE, loaded


class Service(Protocol):
    """A client of S3 with boto3's methods, and what its errors mean.

    Credentials, region and endpoint are those that the client finds; nothing of them is kept.
    """

    refused: type[Exception]
    """Raised where the service answers with an error; `response["Error"]` has its `Code` and `Message`."""
    broken_off: tuple[type[Exception], ...]
    """Raised where an object's bytes stop coming."""
    not_asked: type[Exception]
    """Raised where a request does not get to the service; the others may be of this kind, too."""

    def client(self) -> Any:  # noqa: ANN401 - boto3 makes its clients while it runs
        """The same one at each call: it reads its configuration when it is made. Raises StoreError."""


@cache
def service() -> Service:
    """The one for s3:// addresses. Raises StoreError."""
    module = loaded(OBJECT_STORAGE["s3"])
    if module is None:
        raise StoreError("this pgdyno has no client of object storage: its package for Amazon is missing")
    made: Service = module.S3()
    return made
