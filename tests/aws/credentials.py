"""Credentials of the simulated account: keys that expire at any call, and keys that replace them.

An expired session token is refused by the services with different codes: EC2 says RequestExpired, services that speak
JSON say ExpiredTokenException, all others ExpiredToken. Sources: "Common Errors" in the API references of EC2, RDS and
CloudWatch, and boto3's own list of codes of expired tokens.
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.aws.shapes import RefusedError, is_json

KEY_ID, KEY = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
"""The first key of an account, which never expires by itself."""
SAID = "The security token included in the request is expired"


@dataclass
class Credentials:
    """All keys that the account has issued."""

    now: str = KEY_ID
    """The id of the newest key."""
    expired: set[str] = field(default_factory=set)
    """Ids of keys that the services no longer accept."""
    _at: str = ""

    def expire(self) -> None:
        self.expired.add(self.now)

    def expire_at(self, action: str) -> None:
        """Makes the newest key expire just before the next request for `action`, such as `rds:DeleteDBInstance`."""
        self._at = action

    def renew(self) -> dict[str, str]:
        self.now = f"AKIA{len(self.expired):016d}"
        return self.environment

    @property
    def environment(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": self.now, "AWS_SECRET_ACCESS_KEY": KEY}

    def check(self, service: str, operation: str, key_id: str) -> None:
        """Raises RefusedError if the key of a request is unknown or has expired."""
        if f"{service}:{operation}" == self._at:
            self.expire()
            self._at = ""
        if key_id in self.expired:
            raise RefusedError(expired_code(service), SAID)
        if key_id != self.now:
            raise RefusedError("InvalidClientTokenId", "The security token included in the request is invalid.")

    def profile(self, folder: Path, lasts: timedelta) -> dict[str, str]:
        """Writes a profile whose credentials come from a program and expire in `lasts`; returns the environment
        variables that select it, where none has a key.

        boto3 runs the program again when they are about to expire, so that another call of this method renews them.
        """
        folder.mkdir(exist_ok=True)
        until = (datetime.now(UTC) + lasts).isoformat(timespec="seconds")
        told = {"Version": 1, "AccessKeyId": self.now, "SecretAccessKey": KEY, "SessionToken": "a", "Expiration": until}
        (folder / "credentials.json").write_text(json.dumps(told))
        (folder / "config").write_text(f"[profile lasting]\ncredential_process = cat {folder / 'credentials.json'}\n")
        return {"AWS_PROFILE": "lasting", "AWS_CONFIG_FILE": str(folder / "config")}


def expired_code(service: str) -> str:
    if service == "ec2":
        return "RequestExpired"
    return "ExpiredTokenException" if is_json(service) else "ExpiredToken"
