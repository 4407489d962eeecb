"""Requests to Amazon's services in one region, by boto3 with its own credentials."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from pgdyno import __version__
from pgdyno.targets.aws.faults import AwsError, explained

ATTEMPTS = 10
"""Of one request; boto3 waits between them, longer each time, where Amazon wants fewer or has a fault."""


class Cloud:
    """One region. Clients are made when they are first needed."""

    def __init__(self, region: str | None = None) -> None:
        """Of `region`, or of that which boto3's configuration says. Raises AwsError."""
        self._session = _session(region)
        self.region: str = self._session.region_name
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()

    @property
    def partition(self) -> str:
        """Of Amazon's, as names of things there have it: `aws`, `aws-cn`."""
        return str(self._session.get_partition_for_region(self.region))

    def call(self, service: str, operation: str, **asked: object) -> dict[str, Any]:
        """What `operation` (as boto3 calls it: create_db_instance) answers. Raises AwsError."""
        client = self._client(service)
        with explained(service, client.meta.method_to_api_mapping[operation]):
            answer: dict[str, Any] = getattr(client, operation)(**asked)
        return answer

    def each(self, service: str, operation: str, key: str, **asked: object) -> Iterator[dict[str, Any]]:
        """All elements of the list `key`, over all pages. Raises AwsError."""
        client = self._client(service)
        with explained(service, client.meta.method_to_api_mapping[operation]):
            for page in client.get_paginator(operation).paginate(**asked):
                found = page
                for part in key.split("."):
                    found = found.get(part, [])
                yield from found

    def account(self) -> str:
        """The account's number. Raises AwsError: this is how credentials are tried."""
        return str(self.call("sts", "get_caller_identity")["Account"])

    def in_region(self, region: str) -> Cloud:
        """The same of another region."""
        return self if region == self.region else Cloud(region)

    def _client(self, service: str) -> Any:  # noqa: ANN401 - boto3 makes its clients while it runs
        if service not in self._clients:
            from botocore.config import Config

            config = Config(
                retries={"mode": "standard", "max_attempts": ATTEMPTS},
                connect_timeout=10,
                read_timeout=60,
                user_agent_extra=f"pgdyno/{__version__}",
            )
            # a session makes one client at a time
            with _configured(), self._lock:
                self._clients[service] = self._session.client(service, config=config)
        return self._clients[service]


@cache
def _descriptions() -> Any:  # noqa: ANN401 - as above
    """Amazon's descriptions of its services, which are large: read once for all regions."""
    from botocore.loaders import create_loader

    return create_loader()


def _session(region: str | None) -> Any:  # noqa: ANN401 - as above
    try:
        import boto3
        from botocore.session import get_session
    except ImportError as error:
        message = "this needs boto3, which is not installed"
        raise AwsError(message, code="NoBoto3", hint="pip install 'pgdyno[aws]'") from error
    with _configured():
        core = get_session()
        core.register_component("data_loader", _descriptions())
        session = boto3.Session(botocore_session=core, region_name=region)
        found = session.region_name
    if found is None:
        hint = 'set AWS_DEFAULT_REGION, or name it: region = "eu-central-1" in a target, --region of reap and selftest'
        raise AwsError("nothing says in which region of Amazon", code="NoRegion", hint=hint)
    return session


@contextmanager
def _configured() -> Iterator[None]:
    """Of what boto3 reads before its first request: profiles, regions, endpoints."""
    from botocore.exceptions import BotoCoreError

    try:
        yield
    # an endpoint that is no address is a ValueError
    except (BotoCoreError, ValueError) as error:
        hint = "see AWS_PROFILE, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL and ~/.aws/config"
        raise AwsError(f"boto3 cannot use its configuration: {error}", code="Configuration", hint=hint) from error
