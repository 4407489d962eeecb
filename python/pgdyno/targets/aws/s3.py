"""An S3 client for runs on object storage; see `pgdyno.store.object_storage.address`."""

from __future__ import annotations

from typing import Any

from pgdyno import __version__
from pgdyno.errors import StoreError

CONNECTIONS = 16


class S3:
    """boto3's S3 client, and the classes of its errors."""

    def __init__(self) -> None:
        """Raises StoreError if boto3 is not installed."""
        try:
            import boto3  # noqa: F401
            from botocore import exceptions
            from urllib3.exceptions import HTTPError
        except ImportError as error:
            raise StoreError(
                "object storage needs boto3, which is not installed", hint="pip install 'pgdyno[aws]'"
            ) from error
        self.refused: type[Exception] = exceptions.ClientError
        self.broken_off: tuple[type[Exception], ...] = (
            exceptions.ResponseStreamingError,
            exceptions.IncompleteReadError,
            exceptions.ReadTimeoutError,
            HTTPError,
        )
        self.not_asked: type[Exception] = exceptions.BotoCoreError
        self._client: Any = None

    def client(self) -> Any:  # noqa: ANN401 - boto3 makes its clients while it runs
        """Returns boto3's client, which the first call creates. Raises StoreError and boto3's errors."""
        if self._client is None:
            self._client = _new_client()
        return self._client


def _new_client() -> Any:  # noqa: ANN401 - as above
    import boto3
    from botocore.config import Config

    config = Config(
        retries={"mode": "standard"},
        connect_timeout=10,
        read_timeout=60,
        max_pool_connections=CONNECTIONS,
        user_agent_extra=f"pgdyno/{__version__}",
    )
    try:
        return boto3.client("s3", config=config)
    except ValueError as error:
        hint = "see AWS_ENDPOINT_URL_S3 and AWS_ENDPOINT_URL: https://host, with a port where it is another than 443"
        raise StoreError(f"boto3 cannot use its configuration: {error}", hint=hint) from error
