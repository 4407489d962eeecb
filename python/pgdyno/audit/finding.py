"""Types of the audit's results, and the base class of its rules."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pydantic import Field

from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message, Parameter
from pgdyno.records import Record


class Severity(StrEnum):
    """The effect of a finding on a claim, in ascending order."""

    NOTE = "note"
    """A reader should know it."""
    CAUTION = "caution"
    """The figures may be off by more than noise, or say less than they seem to."""
    INVALID = "invalid"
    """The figures are wrong, or do not measure what is compared."""


class Evidence(Record):
    at: str
    """`report.txt:42` for an import, otherwise `trial 3` or a part of the manifest."""
    figures: dict[str, float | str] = {}
    """The unit is at the end of each name."""


class Finding(Record):
    rule: str
    id: str = ""
    """Id of the message: the rule's id, or one that begins with it if the rule has several. Stable, for programs."""
    severity: Severity
    trials: list[int]
    """Numbers of the trials concerned; empty if the finding concerns the whole run."""
    message: str
    """In English; `not checked: reason` if the rule lacks its input."""
    parameters: dict[str, Parameter] = {}
    """The values in the message."""
    text: Message | None = Field(default=None, exclude=True, repr=False)
    """The message as a value; None of a finding that was read from JSON. See `translatable_message`."""
    evidence: list[Evidence]
    advice: str
    source: str
    """The document that the rule is based on."""

    @property
    def translatable_message(self) -> Message:
        """The message as a value, which reports translate."""
        return self.text or Message(self.id, "{message}", message=self.message)

    @property
    def checked(self) -> bool:
        return self.id != f"{self.rule}{NOT_CHECKED}"


def evidence_of(
    figures: Mapping[Sample, Mapping[str, float | str]], name: str | None = None
) -> tuple[list[int], list[Evidence]]:
    """Return the numbers of the trials, and the figures of each as evidence: at the trial, or at its figure `name`."""
    evidence = [Evidence(at=sample.figure_location(name), figures=dict(each)) for sample, each in figures.items()]
    return [sample.number for sample in figures], evidence


NOT_CHECKED = "-not-checked"
"""Suffix of a rule's id: the message of a rule that lacks its input."""


COUNTS = Message("counts-instructions", "the trials count instructions")
"""Why a rule of rates or times has no input."""


class MissingError(Exception):
    """Raised by a rule that lacks its input."""

    def __init__(self, reason: Message) -> None:
        super().__init__(str(reason))
        self.reason = reason


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """What a rule's check yields: a finding without the attributes of its rule."""

    severity: Severity
    message: Message
    """Its `id` is the rule's id, or begins with that."""
    trials: Sequence[int] = ()
    evidence: Sequence[Evidence] = ()
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: `check` yields its findings, none if all is well, and raises MissingError without its input."""

    id: str
    looks_at: str
    """What the rule examines, for the reference (docs/reference/audit.md)."""
    worst: Severity
    """The highest severity that it reports."""
    source: str
    check: Callable[[Subject], Iterable[RuleFinding]]
    place: int = 1_000
    """Where reports show it: rules with a lower number come first."""
    needs_rate: bool = False
    """Whether it judges a stream of many transactions, as tpch has none."""
    topic: str = ""
    """What may confound a comparison, in a word or two, if the rule compares arms: `compare` applies it to two runs."""

    def findings(self, subject: Subject) -> list[Finding]:
        try:
            if self.needs_rate and subject.manifest.is_untimed:
                queries = Message("runs-queries", "the trials run each query to its end")
                raise MissingError(COUNTS if subject.manifest.counts_instructions else queries)
            found = list(self.check(subject))
        except MissingError as missing:
            unchecked = Message(f"{self.id}{NOT_CHECKED}", "not checked: {reason}", reason=missing.reason)
            found = [RuleFinding(Severity.NOTE, unchecked)]
        for each in found:
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
                text=each.message,
                evidence=list(each.evidence),
                advice=each.advice,
                source=self.source,
            )
            for each in found
        ]


def worst(findings: Iterable[Finding]) -> Severity | None:
    """The highest severity in `findings`; None if there are none."""
    order = list(Severity)
    return max((finding.severity for finding in findings), key=order.index, default=None)
