"""What a rule says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pydantic import Field

from pgdyno.audit.subject import Subject
from pgdyno.messages import Message, Parameter
from pgdyno.records import Record


class Severity(StrEnum):
    """What a finding does to a claim, the lightest first."""

    NOTE = "note"
    """A reader should know it."""
    CAUTION = "caution"
    """It may move figures by more than noise, or they say less than they seem to."""
    INVALID = "invalid"
    """The figures cannot be what they are said to be, or do not measure what is compared."""


class Evidence(Record):
    """Figures, and where they stand."""

    at: str
    """`report.txt:42` of an import, else `trial 3` or a part of the manifest."""
    figures: dict[str, float | str] = Field(default_factory=dict)
    """With the unit at the end of each name."""


class Finding(Record):
    """One thing that a rule found, or why it could not look."""

    rule: str
    id: str = ""
    """Of the message: the rule's, or one that begins with it where the rule has several. Stable, for programs."""
    severity: Severity
    trials: list[int]
    """Numbers of the trials that it is about; empty when it is about the run."""
    message: str
    """In English; `not checked: why` where the rule lacks its input."""
    parameters: dict[str, Parameter] = Field(default_factory=dict)
    """What the message is filled with."""
    evidence: list[Evidence]
    advice: str
    source: str
    """Where the rule is from."""

    @property
    def checked(self) -> bool:
        """Whether the rule had its input."""
        return self.id != f"{self.rule}{NOT_CHECKED}"


NOT_CHECKED = "-not-checked"
"""After the rule's id: the id of the message of a rule that lacks its input."""


class MissingError(Exception):
    """A rule lacks its input: the message says what."""


@dataclass(frozen=True, slots=True)
class Said:
    """A finding without what the rule says of itself."""

    severity: Severity
    message: Message
    """Its id is the rule's, or begins with it."""
    trials: Sequence[int] = ()
    evidence: Sequence[Evidence] = ()
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: `check` gives what it finds, nothing where all is well, and raises MissingError without its input."""

    id: str
    looks_at: str
    """In words, for the reference."""
    worst: Severity
    """The heaviest finding that it makes."""
    source: str
    check: Callable[[Subject], Iterable[Said]]

    def findings(self, subject: Subject) -> list[Finding]:
        """What it says of `subject`."""
        try:
            said = list(self.check(subject))
        except MissingError as missing:
            unchecked = Message(f"{self.id}{NOT_CHECKED}", "not checked: {reason}", reason=str(missing))
            said = [Said(Severity.NOTE, unchecked)]
        for each in said:
            if not each.message.id.startswith(self.id):
                raise ValueError(f"rule {self.id}: the id {each.message.id} does not begin with the rule's")
        return [
            Finding(
                rule=self.id,
                id=each.message.id,
                severity=each.severity,
                trials=list(each.trials),
                message=str(each.message),
                parameters=each.message.parameters,
                evidence=list(each.evidence),
                advice=each.advice,
                source=self.source,
            )
            for each in said
        ]


def worst(findings: Iterable[Finding]) -> Severity | None:
    """The heaviest severity; None without findings."""
    order = list(Severity)
    return max((finding.severity for finding in findings), key=order.index, default=None)
