"""Object storage on the loopback address: moto's server, which answers as S3 does."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.request import Request, urlopen

import boto3
from moto import backends
from moto.server import ThreadedMotoServer

from pgdyno.store.object_storage.services import bucket_store

BUCKET = "bench"
REGION = "eu-central-1"
# each request would look at a hundred folders twice
backends.list_of_moto_modules = [*backends.list_of_moto_modules()].copy
KEYS = {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "no-secret", "AWS_REGION": REGION}


class Bucket:
    """Access to the bucket independent of pgdyno."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._client = boto3.client("s3", endpoint_url=url)
        # moto's memory is that of this process: another server of it may have had one
        if any(each["Name"] == BUCKET for each in self._client.list_buckets()["Buckets"]):
            self.empty()
        else:
            self._client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})

    def put(self, key: str, content: bytes = b"x") -> None:
        self._client.put_object(Bucket=BUCKET, Key=key, Body=content)

    def get(self, key: str) -> bytes:
        return bytes(self._client.get_object(Bucket=BUCKET, Key=key)["Body"].read())

    def delete(self, key: str) -> None:
        self._client.delete_object(Bucket=BUCKET, Key=key)

    def keys(self) -> list[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return [each["Key"] for page in pages for each in page.get("Contents", ())]

    def empty(self) -> None:
        if keys := self.keys():
            self._client.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key} for key in keys]})

    @contextmanager
    def closed(self) -> Iterator[None]:
        self._asks_from("0")
        try:
            yield
        finally:
            self._asks_from("inf")

    def _asks_from(self, requests: str) -> None:
        plain = {"Content-Type": "text/plain"}
        request = Request(f"{self.url}/moto-api/reset-auth", requests.encode(), plain, method="POST")
        urlopen(request).close()


@contextmanager
def object_storage() -> Iterator[Bucket]:
    """Creates an empty bucket, which pgdyno and boto3 find by environment variables."""
    # each request would be a line
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    try:
        with environment({**KEYS, "AWS_ENDPOINT_URL_S3": url, "AWS_EC2_METADATA_DISABLED": "true"}):
            yield Bucket(url)
    finally:
        server.stop()


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Sets `variables`, which pgdyno reads when it first uses a bucket."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    bucket_store.cache_clear()
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        bucket_store.cache_clear()
