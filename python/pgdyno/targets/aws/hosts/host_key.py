"""The SSH host key of a new host, which the host generates, and prints on its console.

Only the instance writes on its console, and only Amazon shows it, to whoever has the account's credentials: so the key
is authentic, without a secret in the user data. The line contains a nonce of the user data, so that nothing that an
image or an earlier boot has left there is taken for it.
"""

from __future__ import annotations

import re
import secrets

from pgdyno.errors import TargetError
from pgdyno.targets.aws.boto3_clients import AwsError, NotThereError, Patience
from pgdyno.targets.aws.inventory import Maker

REACHED_WITHIN_S = 600.0
"""The time limit for a running instance to boot until it has printed its key, and again until SSH answers."""
_SHOWN = 5
"""Lines of the console in an error message."""
_KEY = "ssh-ed25519 [A-Za-z0-9+/=]{68}"


def new_nonce() -> str:
    """Returns a text that no other host's console contains."""
    return secrets.token_hex(16)


def public_host_key(maker: Maker, instance: str, nonce: str) -> str:
    """Returns the public key that `instance` has printed after `nonce`. Raises TargetError.

    The console of instances on the Nitro system is read as it is; that of others arrives minutes late.
    """
    patience, latest, said = Patience(REACHED_WITHIN_S), True, False
    console = ""
    while True:
        maker.stop.check()
        try:
            asked = {"Latest": True} if latest else {}
            answer = maker.cloud.call("ec2", "get_console_output", InstanceId=instance, **asked)
            console = str(answer.get("Output", ""))
        except NotThereError:
            # The instance is new: see `pgdyno.targets.aws.retries`.
            if patience.over():
                raise
        except AwsError as error:
            if not latest or not error.code.startswith(("Unsupported", "InvalidParameter")):
                raise
            # Only the Nitro system has the latest console.
            latest = False
            continue
        found = re.search(rf"pgdyno host key {nonce} ({_KEY})\s", console)
        if found is not None:
            return found[1]
        if patience.over():
            raise _silent(instance, console)
        if not said:
            maker.say(f"{maker.name}: waiting for its SSH key on its console")
            said = True
        patience.pause()


def _silent(instance: str, console: str) -> TargetError:
    last = [line for line in console.replace("\r", "").splitlines() if line.strip()][-_SHOWN:]
    shown = "".join(f"\n  {line[:200]}" for line in last) or " (Amazon shows no console output)"
    message = f"the instance {instance} has not printed its SSH key on its console:{shown}"
    return TargetError(message, hint="it failed to boot, or takes too long: try again, or choose another type")
