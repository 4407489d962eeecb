"""Errors of object storage in pgdyno's terms, with the address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pgdyno.errors import StoreError
from pgdyno.store.remote.address import Address
from pgdyno.store.remote.service import service

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
