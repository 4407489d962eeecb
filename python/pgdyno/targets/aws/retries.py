"""Repetition of requests about a resource that was created just before, which Amazon may not know yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pgdyno.targets.aws.boto3_clients import InUseError, NotThereError, Patience, RoleMissingError

SETTLES_S = 120.0
"""Seconds after its creation in which another request may not find a resource yet, or may find it in another state."""
T = TypeVar("T")


def settled(check: Callable[[], None], ask: Callable[[], T], within_s: float = SETTLES_S) -> T:
    """Returns the result of `ask`, which is repeated while Amazon does not find what it names, or is changing it.

    Amazon's services are eventually consistent: for some seconds after a create request, others may not know the new
    resource. `check` is called before each attempt, and raises if the result is no longer needed. Raises AwsError.
    """
    patience = Patience(within_s)
    while True:
        check()
        try:
            return ask()
        except (NotThereError, InUseError, RoleMissingError):
            if patience.over():
                raise
        patience.pause()


class Appearing:
    """Tells a new resource that is not visible yet from one that has vanished."""

    def __init__(self) -> None:
        """Starts when the resource has been requested."""
        self._patience = Patience(SETTLES_S)
        self._seen = False

    def look(self, look: Callable[[], tuple[str, T]]) -> tuple[str, T | None]:
        """Returns the state and description that `look` returns; "not visible yet" and None before it finds it.

        Raises NotThereError if it is gone, or has not appeared within `SETTLES_S`.
        """
        try:
            found = look()
        except NotThereError:
            if self._seen or self._patience.over():
                raise
            return "not visible yet", None
        self._seen = True
        return found
