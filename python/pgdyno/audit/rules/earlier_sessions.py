"""Reports sessions of earlier trials that pgdyno had to terminate before a trial."""

from collections.abc import Iterator

from pgdyno.audit.finding import MissingError, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.subject import Subject
from pgdyno.messages import Message


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if subject.imported:
        raise MissingError(Message("no-earlier-sessions", "the source does not report statements of earlier trials"))
    found = [
        (sample, left)
        for sample in subject.samples
        if (left := sample.trial.leftovers) is not None and (left.canceled or left.terminated)
    ]
    if found:
        yield RuleFinding(
            Severity.NOTE,
            Message(
                "earlier-sessions",
                "statements of earlier trials were still running in the server before {trials} of {all} trials; "
                "pgdyno terminated them first",
                trials=len(found),
                all=len(subject.samples),
            ),
            *evidence_of(
                {
                    sample: {
                        "sessions": left.sessions,
                        "canceled": left.canceled,
                        "terminated": left.terminated,
                        "waited_s": left.seconds,
                    }
                    for sample, left in found
                }
            ),
            "check how the preceding trial ended: its engine was killed, or disconnected from the server",
        )


RULE = Rule(
    "earlier-sessions",
    "sessions of earlier trials that were still active before a trial: a note if pgdyno terminated them",
    Severity.NOTE,
    "docs/reference/run-folder.md",
    _check,
    place=310,
)
