"""How pgdyno reaches each service of object storage: its endpoint, its credentials, and the words of its errors.

Credentials, region and endpoint are those that the service's own tools find; pgdyno stores none of them.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import pgdyno
from pgdyno.errors import StoreError
from pgdyno.registry import STORAGE_CREDENTIALS, load_module

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

_RETRIES: RetryConfig = {"max_retries": 2, "retry_timeout": timedelta(minutes=1)}


@dataclass(frozen=True, slots=True)
class Service:
    title: str
    needed: Mapping[str, str]
    """The permissions for `list`, `read` and `write`."""
    credentials: str
    """Where credentials come from."""
    endpoint: str
    """What to check if the service does not answer, or has no such bucket."""
    endpoints: tuple[str, ...]
    """Variables with the URL of another service, the first of which counts."""
    open: Callable[[str, ClientConfig], ObjectStore]
    """Open a bucket. Raises StoreError and obstore's errors."""


class Found(Protocol):
    """What a provider's own library finds."""

    @property
    def config(self) -> Mapping[str, str]:
        """`region` and `endpoint`."""

    @property
    def credentials(self) -> Callable[[], Any] | None:
        """Return credentials when they are needed; None if the environment has them."""


def _s3(bucket: str, options: ClientConfig) -> ObjectStore:
    from obstore.store import S3Store

    module = load_module(STORAGE_CREDENTIALS["s3"])
    found: Found | None = None if module is None else module.find_profile(os.environ)
    config: dict[str, Any] = {} if found is None else dict(found.config)
    if "endpoint" in config:
        options = options | _plain_http(config["endpoint"], "endpoint_url of the profile")
    provider = None if found is None else found.credentials
    return S3Store(bucket, client_options=options, retry_config=_RETRIES, credential_provider=provider, **config)


def _gs(bucket: str, options: ClientConfig) -> ObjectStore:
    from obstore.store import GCSStore

    return GCSStore(bucket, client_options=options, retry_config=_RETRIES)


def _az(container: str, options: ClientConfig) -> ObjectStore:
    from obstore.store import AzureStore

    return AzureStore(container, client_options=options, retry_config=_RETRIES)


SERVICES = {
    "s3": Service(
        "S3",
        {"list": "s3:ListBucket", "read": "s3:GetObject", "write": "s3:PutObject"},
        "credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, from AWS_PROFILE and ~/.aws "
        "(pip install 'pgdyno[aws]'), or from the role of this host",
        "check the name, AWS_PROFILE, AWS_REGION, and the endpoint (AWS_ENDPOINT_URL_S3)",
        ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
        _s3,
    ),
    "gs": Service(
        "Google Cloud Storage",
        {"list": "storage.objects.list", "read": "storage.objects.get", "write": "storage.objects.create"},
        "credentials come from GOOGLE_APPLICATION_CREDENTIALS, from `gcloud auth application-default login`, "
        "or from the service account of this host",
        "check the name, and the endpoint (GOOGLE_BASE_URL)",
        ("GOOGLE_BASE_URL",),
        _gs,
    ),
    "az": Service(
        "Azure",
        {"list": "Storage Blob Data Reader", "read": "Storage Blob Data Reader",
         "write": "Storage Blob Data Contributor"},
        "set AZURE_STORAGE_ACCOUNT_NAME; credentials come from AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, "
        "AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, from `az login` with AZURE_USE_AZURE_CLI=true, or from the managed "
        "identity of this host",
        "check the names of the account (AZURE_STORAGE_ACCOUNT_NAME) and of the container, and AZURE_STORAGE_ENDPOINT",
        ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
        _az,
    ),
}  # fmt: skip
"""By scheme."""


@cache
def bucket_store(scheme: str, bucket: str) -> ObjectStore:
    """Return a client for a bucket, which reads its configuration when it is created. Raises StoreError."""
    from obstore.exceptions import BaseError

    service = SERVICES[scheme]
    # A request for a large object lasts as long as its bytes arrive, so only silence ends it.
    options: ClientConfig = {
        "connect_timeout": "10s",
        "read_timeout": "60s",
        "timeout": "1day",
        "user_agent": f"pgdyno/{pgdyno.__version__}",
    }
    for name in service.endpoints:
        if url := os.environ.get(name):
            options |= _plain_http(url, name)
            break
    try:
        return service.open(bucket, options)
    except (BaseError, ValueError) as error:
        what = str(error).strip().split("\n", 1)[0]
        raise StoreError(f"cannot use {scheme}://{bucket}: {what}", hint=service.credentials) from error


def _plain_http(url: str, name: str) -> ClientConfig:
    """Return the options for an endpoint: only loopback may be without TLS. Raises StoreError."""
    try:
        parts = urlsplit(url)
        scheme, host, _ = parts.scheme, parts.hostname, parts.port
    except ValueError:
        scheme, host = "", None
    if scheme not in ("http", "https") or not host:
        hint = "write https://host, with a port unless it is 443"
        raise StoreError(f"{name} is no endpoint of object storage: {url}", hint=hint)
    if scheme == "https":
        return {}
    if not _is_loopback(host):
        hint = f"set {name} to an https:// URL; http:// is for this machine only"
        raise StoreError(f"{name} would send runs and signatures unencrypted to {host}", hint=hint)
    return {"allow_http": True}


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
