"""Amazon's credentials for runs on S3, where the environment alone does not have them: profiles, single sign-on, roles.

`pgdyno.store.object_storage.services` uses it if this package is there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pgdyno.errors import StoreError

_ANSWERS_COUNT_FOR = timedelta(minutes=10)
"""boto3 renews what expires; it is asked again after this time."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What boto3 finds: see `pgdyno.store.object_storage.services.Found`."""

    config: Mapping[str, str]
    credentials: Callable[[], dict[str, Any]] | None


def find_profile(environ: Mapping[str, str]) -> Profile | None:
    """Return what boto3 finds; None if the environment is sufficient, or boto3 is not installed. Raises StoreError."""
    has_keys = "AWS_ACCESS_KEY_ID" in environ
    has_region = "AWS_REGION" in environ or "AWS_DEFAULT_REGION" in environ
    if environ.get("AWS_SKIP_SIGNATURE") or (has_keys and has_region):
        return None
    try:
        import boto3
        from botocore.exceptions import BotoCoreError
    except ImportError as error:
        if has_keys or "AWS_PROFILE" not in environ:
            return None
        hint = "pip install 'pgdyno[aws]'"
        raise StoreError("AWS_PROFILE needs boto3, which is not installed", hint=hint) from error
    try:
        session = boto3.Session()
        # creating a client is how boto3 resolves all sources of the endpoint
        meta = session.client("s3").meta
        credentials = session.get_credentials()
        if credentials is not None:
            credentials.get_frozen_credentials()
    except (BotoCoreError, ValueError) as error:
        hint = "see AWS_PROFILE and ~/.aws/config; for single sign-on: aws sso login"
        raise StoreError(f"boto3 cannot use its configuration: {error}", hint=hint) from error
    if credentials is None:
        hint = "see `aws configure`, or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        raise StoreError("there are no credentials for S3", hint=hint)

    def renewed() -> dict[str, Any]:
        frozen = credentials.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + _ANSWERS_COUNT_FOR,
        }

    config = {"endpoint": meta.endpoint_url, "region": meta.region_name}
    return Profile({name: value for name, value in config.items() if value}, renewed)
