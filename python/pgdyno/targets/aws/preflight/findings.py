"""What the checks find: problems, which keep pgdyno from renting, and notes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pgdyno.errors import TargetError
from pgdyno.messages import Message
from pgdyno.targets.aws.boto3_clients import AwsError, DeniedError
from pgdyno.targets.rental import is_generator

ABORT = {"NoCredentials", "NoRegion", "Configuration", "Unreachable", "NoBoto3"}
"""Codes of errors that every further request would have as well."""


def in_words(name: str) -> str:
    """Returns the name of a target or generator in a message."""
    return "the generator" if is_generator(name) else f"target {name}"


@dataclass(slots=True)
class Findings:
    """All results of the checks of one rental."""

    problems: list[TargetError] = field(default_factory=list)
    notes: list[Message] = field(default_factory=list)

    def problem(self, message: str, hint: str) -> None:
        self.problems.append(AwsError(message, code="Preflight", hint=hint))

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Makes an error in the block a problem of the target or generator `name`."""
        try:
            yield
        except TargetError as error:
            if isinstance(error, AwsError) and error.code in ABORT:
                raise
            error.message = f"{in_words(name)}: {error.message}"
            self.problems.append(error)

    @contextmanager
    def optional(self, what: Message) -> Iterator[None]:
        """Makes a missing permission in the block a note that `what` was not checked."""
        try:
            yield
        except DeniedError as error:
            self.notes.append(
                Message(
                    "not-checked-before-renting",
                    "not checked before renting: {what}: {error}",
                    what=what,
                    error=error.message,
                )
            )

    def report(self) -> None:
        """Raises the problem, or one AwsError for all problems."""
        if len(self.problems) == 1:
            raise self.problems[0]
        if self.problems:
            lines = ["\n    ".join(filter(None, (f"  {each.message}", each.hint))) for each in self.problems]
            head = f"Amazon would refuse this plan, {len(lines)} problems; nothing was created"
            raise AwsError("\n".join([head, *lines]), code="Preflight")
