"""What Amazon's services refuse, in words for the people who asked for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pgdyno.errors import TargetError

SETUP = "see `aws configure`, or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_DENIED = {
    "AccessDenied",
    "AccessDeniedException",
    "NotAuthorizedException",
    "UnauthorizedOperation",
    "Client.UnauthorizedOperation",
    "OptInRequired",
}
_STRANGER = {
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
_THROTTLED = {"Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestThrottled", "TooManyRequests"}
_NOT_THERE = (
    "NotFound",
    "NotFoundFault",
    "InvalidGroup.NotFound",
    "InvalidInstanceID.NotFound",
    "InvalidVolume.NotFound",
    "InvalidSnapshot.NotFound",
    "InvalidGroupId.Malformed",
)
_THERE_ALREADY = ("AlreadyExists", "AlreadyExistsFault", "InvalidGroup.Duplicate", "InvalidPermission.Duplicate")
_IN_USE = {
    "DependencyViolation",
    "InvalidDBParameterGroupState",
    "InvalidDBParameterGroupStateFault",
    "InvalidDBClusterStateFault",
    "InvalidDBInstanceState",
    "InvalidDBInstanceStateFault",
    "IncorrectInstanceState",
    "VolumeInUse",
}


class AwsError(TargetError):
    """A request that Amazon refused, or that did not get there."""

    def __init__(self, message: str, *, code: str = "", hint: str | None = None) -> None:
        """`code` is Amazon's own word for it."""
        super().__init__(message, hint=hint)
        self.code = code


class CapacityError(AwsError):
    """There is no room for such an instance now; elsewhere, or for another class, there may be."""


class NotThereError(AwsError):
    """What was asked for is not there."""


class ThereAlreadyError(AwsError):
    """There is one of that name."""


class InUseError(AwsError):
    """It cannot be removed or changed while something else uses it, or while it changes itself."""


@contextmanager
def explained(service: str, operation: str) -> Iterator[None]:
    """Turns what boto3 raises within the block into an AwsError. `operation` is Amazon's name: CreateDBInstance."""
    from botocore import exceptions

    action = f"{service}:{operation}"
    try:
        yield
    except exceptions.ClientError as error:
        raise refused(action, error.response) from error
    except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError) as error:
        raise AwsError("boto3 finds no credentials for Amazon", code="NoCredentials", hint=SETUP) from error
    except (exceptions.TokenRetrievalError, exceptions.SSOError, exceptions.CredentialRetrievalError) as error:
        message = f"boto3 gets no credentials for Amazon: {_said(error)}"
        raise AwsError(message, code="NoCredentials", hint="log in again: aws sso login") from error
    except exceptions.ParamValidationError as error:
        raise AwsError(f"{action} cannot be asked: {_said(error)}", code="ParamValidation") from error
    except (exceptions.HTTPClientError, exceptions.ConnectionError) as error:
        message = f"{action} does not get to Amazon: {_said(error)}"
        raise AwsError(message, code="Unreachable", hint="check the network and its proxy, and the region") from error
    except exceptions.BotoCoreError as error:
        raise AwsError(f"{action} fails: {_said(error)}", code=type(error).__name__) from error


def refused(action: str, response: dict[str, Any]) -> AwsError:
    """The error for Amazon's `response` to `action`, such as rds:CreateDBInstance."""
    detail = response.get("Error", {})
    code, said = str(detail.get("Code", "")), str(detail.get("Message", "")).strip()
    if code in _DENIED:
        hint = f"allow {action} to this identity; `pgdyno target policy` prints all that is needed"
        return AwsError(f"the permission {action} is missing: {said}", code=code, hint=hint)
    if code in _STRANGER:
        return AwsError(f"Amazon does not take the credentials: {said}", code=code, hint=SETUP)
    if code in _THROTTLED:
        hint = "wait a while; what was made is noted, and `pgdyno reap` finds it"
        return AwsError(
            f"Amazon takes no more requests now, after many attempts ({action}): {said}", code=code, hint=hint
        )
    if "Quota" in code or code.endswith("LimitExceeded"):
        hint = "remove what is not needed, or ask Amazon for more in the console under Service Quotas"
        return AwsError(f"a quota of the account is used up ({code}, {action}): {said}", code=code, hint=hint)
    elsewhere = code == "Unsupported" and "Availability Zone" in said
    if elsewhere or (code.startswith("Insufficient") and "Capacity" in code):
        hint = "name further zones, or further instance types by instead = [...]"
        return CapacityError(f"Amazon has no capacity for it now ({code}): {said}", code=code, hint=hint)
    for kind, words in ((ThereAlreadyError, _THERE_ALREADY), (NotThereError, _NOT_THERE)):
        if code.endswith(words):
            return kind(f"{action}: {said}", code=code)
    if "Performance Insights" in said:
        hint = "leave it out: insights = false"
        return AwsError(f"Amazon refuses {action} ({code}): {said}", code=code, hint=hint)
    if code in _IN_USE:
        return InUseError(f"{action}: {said}", code=code)
    return AwsError(f"Amazon refuses {action} ({code}): {said}", code=code)


def _said(error: Exception) -> str:
    return " ".join(str(error).split())
