"""Requests to Amazon's services with boto3: clients, error messages, and waiting."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from pgdyno import __version__
from pgdyno.errors import TargetError

SETTLES_S = 120.0
"""Seconds after its creation in which another request may not find a resource yet, or may find it in another state."""
T = TypeVar("T")


def retry_until_settled(check: Callable[[], None], ask: Callable[[], T], within_s: float = SETTLES_S) -> T:
    """Return the result of `ask`, which is repeated while Amazon does not find what it names, or is changing it.

    Amazon's services are eventually consistent: for some seconds after a create request, others may not know the new
    resource. `check` is called before each attempt, and raises if the result is no longer needed. Raises AwsError.
    """
    patience = Patience(within_s)
    while True:
        check()
        try:
            return ask()
        except (NotThereError, InUseError, RoleMissingError):
            if patience.is_over():
                raise
        patience.pause()


class Appearing:
    """Tells a new resource that is not visible yet from one that has vanished."""

    def __init__(self) -> None:
        """Start when the resource has been requested."""
        self._patience = Patience(SETTLES_S)
        self._seen = False

    def look(self, look: Callable[[], tuple[str, T]]) -> tuple[str, T | None]:
        """Return the state and description that `look` returns; "not visible yet" and None before it finds it.

        Raises NotThereError if it is gone, or has not appeared within `SETTLES_S`.
        """
        try:
            found = look()
        except NotThereError:
            if self._seen or self._patience.is_over():
                raise
            return "not visible yet", None
        self._seen = True
        return found


class AwsError(TargetError):
    """Amazon refused a request, or the request did not reach Amazon."""

    def __init__(self, message: str, *, code: str = "", hint: str | None = None) -> None:
        """`code` is Amazon's error code, or pgdyno's own for errors that Amazon did not report."""
        super().__init__(message, hint=hint)
        self.code = code


class DeniedError(AwsError):
    """The identity does not have the permission."""


class CapacityError(AwsError):
    """Amazon has no capacity for this instance type in this zone now; another zone or type may have some."""


class CredentialsError(AwsError):
    """Amazon does not accept the credentials, or there are none: they may have expired."""


class NotThereError(AwsError):
    """The resource does not exist."""


class ThereAlreadyError(AwsError):
    """A resource of this name already exists."""


class RoleMissingError(AwsError):
    """The account does not have the service-linked role of RDS yet, or this identity must not create it."""


class InUseError(AwsError):
    """The resource cannot be removed or changed while another resource uses it, or while it is being changed."""


ROLE_HINT = (
    "allow iam:CreateServiceLinkedRole to this identity, or create the role once: "
    "aws iam create-service-linked-role --aws-service-name rds.amazonaws.com"
)
SETUP = "see `aws configure`, or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_DENIED = {
    "AccessDenied", "AccessDeniedException", "NotAuthorizedException", "UnauthorizedOperation",
    "Client.UnauthorizedOperation", "OptInRequired",
}  # fmt: skip
_STRANGER = {
    "AuthFailure", "ExpiredToken", "ExpiredTokenException", "IncompleteSignature", "InvalidAccessKeyId",
    "InvalidClientTokenId", "RequestExpired", "SignatureDoesNotMatch", "UnrecognizedClientException",
}  # fmt: skip
_THROTTLED = {"Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestThrottled", "TooManyRequests"}
_NOT_THERE = (
    "NotFound", "NotFoundFault", "NoSuchEntity", "InvalidGroupId.Malformed", "InvalidPlacementGroup.Unknown",
    "ResourceNotFoundException",
)  # fmt: skip
_THERE_ALREADY = ("AlreadyExists", "AlreadyExistsFault", ".Duplicate")
_IN_USE = {
    "DependencyViolation", "InvalidDBParameterGroupState", "InvalidDBParameterGroupStateFault",
    "InvalidDBClusterSnapshotStateFault", "InvalidDBClusterStateFault", "InvalidDBInstanceState",
    "InvalidDBInstanceStateFault", "InvalidDBSnapshotState", "InvalidDBSnapshotStateFault", "IncorrectInstanceState",
    "InvalidPlacementGroup.InUse", "VolumeInUse",
}  # fmt: skip


def error_of_response(action: str, response: dict[str, Any]) -> AwsError:
    """Return the error for Amazon's `response` to `action`, such as rds:CreateDBInstance."""
    detail = response.get("Error", {})
    code, said = str(detail.get("Code", "")), str(detail.get("Message", "")).strip()
    kind, hint = AwsError, None
    message = f"Amazon refuses {action} ({code}): {said}"
    if code in _DENIED:
        kind, message = DeniedError, f"the permission {action} is missing: {said}"
        hint = f"allow {action} to this identity; `pgdyno target policy` prints all permissions that pgdyno needs"
    elif code in _STRANGER:
        kind, message, hint = CredentialsError, f"Amazon rejects the credentials: {said}", SETUP
    elif code in _THROTTLED:
        message = f"Amazon still throttles {action} after many attempts: {said}"
        hint = "wait a while, and try again; `pgdyno reap` finds what was created"
    elif "Quota" in code or code.endswith("LimitExceeded"):
        message = f"a quota of the account is used up ({code}, {action}): {said}"
        hint = "remove what you do not need, or request a higher quota in the console, under Service Quotas"
    elif _is_capacity(code) or (code == "Unsupported" and "Availability Zone" in said):
        kind, message = CapacityError, f"Amazon has no capacity for it at present ({code}): {said}"
        hint = "name more zones, or more instance types: instead = [...]"
    elif "service linked role" in said:
        message = f"the account has no role for RDS, and this identity cannot create it: {said}"
        kind, hint = RoleMissingError, ROLE_HINT
    elif "Performance Insights" in said:
        hint = "leave it out: insights = false"
    else:
        kind = _kind_of_state(code, said)
        message = message if kind is AwsError else f"{action}: {said}"
    return kind(message, code=code, hint=hint)


def _kind_of_state(code: str, said: str) -> type[AwsError]:
    # RDS has no code of its own for a security group that it does not find.
    if code.endswith(_NOT_THERE) or said.startswith("Invalid security group"):
        return NotThereError
    if code.endswith(_THERE_ALREADY):
        return ThereAlreadyError
    return InUseError if code in _IN_USE else AwsError


_IN_POLICIES = {"service-quotas": "servicequotas"}
"""Names of services in IAM policies, where boto3 has others."""


@contextmanager
def explain_errors(service: str, operation: str) -> Iterator[None]:
    """Turn what boto3 raises into an AwsError. `operation` is Amazon's name, such as CreateDBInstance."""
    from botocore import exceptions

    action = f"{_IN_POLICIES.get(service, service)}:{operation}"
    try:
        yield
    except exceptions.ClientError as error:
        raise error_of_response(action, error.response) from error
    except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError) as error:
        raise CredentialsError("boto3 finds no credentials for Amazon", code="NoCredentials", hint=SETUP) from error
    except (exceptions.TokenRetrievalError, exceptions.SSOError, exceptions.CredentialRetrievalError) as error:
        message = f"boto3 cannot get credentials for Amazon: {_one_line(error)}"
        raise CredentialsError(message, code="NoCredentials", hint="log in again: aws sso login") from error
    except exceptions.ParamValidationError as error:
        raise AwsError(f"cannot call {action}: {_one_line(error)}", code="ParamValidation") from error
    except (exceptions.HTTPClientError, exceptions.ConnectionError) as error:
        message = f"{action} does not reach Amazon: {_one_line(error)}"
        raise AwsError(message, code="Unreachable", hint="check the network and its proxy, and the region") from error
    except exceptions.BotoCoreError as error:
        raise AwsError(f"{action} fails: {_one_line(error)}", code=type(error).__name__) from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity to which credentials belong."""

    account: str
    arn: str

    @property
    def owner(self) -> str:
        """Its name within the account, as a tag can hold it: `user/alice`, `assumed-role/Benchmarks/alice`."""
        return re.sub(r"[^\w .:/=+@-]", "_", self.arn.split(":", 5)[-1])[:_LONGEST_TAG]


_LONGEST_TAG = 256
ATTEMPTS = 10
"""Attempts for one request: boto3 repeats it, with growing pauses, if Amazon throttles it or has an error."""


class Cloud:
    """The services of one region. Clients are created on first use."""

    def __init__(self, region: str | None = None) -> None:
        """Open `region`, or the region of boto3's configuration if None. Raises AwsError."""
        self._session = _session(region)
        self.region: str = self._session.region_name
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()

    @property
    def partition(self) -> str:
        """The partition of Amazon as it appears in ARNs: `aws`, `aws-cn`."""
        return str(self._session.get_partition_for_region(self.region))

    def call(self, service: str, operation: str, **asked: object) -> dict[str, Any]:
        """Return the response to `operation`, which has boto3's name (create_db_instance). Raises AwsError."""
        client = self._client(service)
        with explain_errors(service, client.meta.method_to_api_mapping[operation]):
            answer: dict[str, Any] = getattr(client, operation)(**asked)
        return answer

    def list_elements(self, service: str, operation: str, key: str, **asked: object) -> Iterator[dict[str, Any]]:
        """Yield all elements of the list `key`, a JMESPath expression, from all pages. Raises AwsError."""
        client = self._client(service)
        with explain_errors(service, client.meta.method_to_api_mapping[operation]):
            if client.can_paginate(operation):
                found = client.get_paginator(operation).paginate(**asked).search(f"{key}[]")
            else:
                found = getattr(client, operation)(**asked)[key]
            # a page without the list yields None
            yield from (each for each in found if each is not None)

    def identity(self) -> Identity:
        """Return whose credentials these are. Raises AwsError: this request shows whether they are valid."""
        found = self.call("sts", "get_caller_identity")
        return Identity(str(found["Account"]), str(found["Arn"]))

    @property
    def has_fixed_credentials(self) -> bool:
        """Whether the credentials come from environment variables, which nobody can change from outside."""
        found = self._session.get_credentials()
        return found is not None and found.method == "env"

    def renew(self) -> None:
        """Read the credentials again from where boto3 finds them. Raises AwsError."""
        with self._lock:
            self._session = _session(self.region)
            self._clients = {}

    def expires_within(self, length_s: float) -> bool:
        """Return whether the credentials were lent until some time that is less than `length_s` away.

        Credentials that boto3 renews by itself (roles, SSO, programs) do not count.
        """
        found = self._session.get_credentials()
        ends = getattr(found, "refresh_needed", None)
        return found is not None and found.method == "env" and ends is not None and bool(ends(refresh_in=length_s))

    def ends_unknown(self) -> bool:
        """Return whether the credentials are temporary, and nothing says until when."""
        found = self._session.get_credentials()
        return found is not None and found.token is not None and not hasattr(found, "refresh_needed")

    def in_region(self, region: str) -> Cloud:
        """Return the same services in `region`. Raises AwsError."""
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
            # A session is not thread-safe while it creates a client.
            with _explain_configuration(), self._lock:
                client = self._session.client(service, config=config)
                _report_missing_capacity_at_once(client)
                self._clients[service] = client
        return self._clients[service]


def _report_missing_capacity_at_once(client: Any) -> None:  # noqa: ANN401 - boto3 makes its clients while it runs
    """Keep boto3 from repeating requests of `client` for which Amazon has no capacity.

    EC2 reports missing capacity with HTTP 500, which boto3 takes for a passing fault of the service: ten attempts
    would delay the next choice by minutes.
    """

    def not_passing(response: tuple[Any, dict[str, Any]] | None, **_: object) -> None:
        if response is not None and _is_capacity(str(response[1].get("Error", {}).get("Code", ""))):
            response[0].status_code = 400

    client.meta.events.register_first(f"needs-retry.{client.meta.service_model.service_id.hyphenize()}", not_passing)


def _is_capacity(code: str) -> bool:
    return code.startswith("Insufficient") and "Capacity" in code


@cache
def _descriptions() -> Any:  # noqa: ANN401 - as above
    from botocore.loaders import create_loader

    return create_loader()


def _session(region: str | None) -> Any:  # noqa: ANN401 - as above
    try:
        import boto3
        from botocore.session import get_session
    except ImportError as error:
        message = "this needs boto3, which is not installed"
        raise AwsError(message, code="NoBoto3", hint="pip install 'pgdyno[aws]'") from error
    with _explain_configuration():
        core = get_session()
        core.register_component("data_loader", _descriptions())
        session = boto3.Session(botocore_session=core, region_name=region)
        found = session.region_name
    if found is None:
        hint = 'set AWS_DEFAULT_REGION, or name it: region = "eu-central-1" in a target, --region of reap and selftest'
        raise AwsError("no AWS region is set", code="NoRegion", hint=hint)
    return session


@contextmanager
def _explain_configuration() -> Iterator[None]:
    """Turn errors in boto3's configuration (profiles, regions, endpoints) into an AwsError."""
    from botocore.exceptions import BotoCoreError

    try:
        yield
    # boto3 raises ValueError for an invalid endpoint URL.
    except (BotoCoreError, ValueError) as error:
        hint = "check AWS_PROFILE, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL and ~/.aws/config"
        raise AwsError(f"boto3 cannot use its configuration: {error}", code="Configuration", hint=hint) from error


FIRST_S = 0.25
LONGEST_S = 15.0
GROWTH = 1.5


class Patience:
    """A deadline, with pauses before it that grow."""

    def __init__(self, within_s: float) -> None:
        """Set the deadline to `within_s` from now."""
        self._end = time.monotonic() + within_s
        self._next_s = FIRST_S

    def is_over(self) -> bool:
        return time.monotonic() >= self._end

    def pause(self) -> None:
        """Sleeps, longer each time, and never past the deadline."""
        left_s = self._end - time.monotonic()
        time.sleep(max(0.0, min(self._next_s, left_s)))
        self._next_s = min(self._next_s * GROWTH, LONGEST_S)
