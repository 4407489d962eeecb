"""Object storage, supplied by the package of a cloud provider."""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol

from pgdyno.errors import StoreError
from pgdyno.registry import OBJECT_STORAGE, loaded


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
