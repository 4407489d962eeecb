"""Reports warnings of `pgdyno doctor` before the run."""

from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Subject
from pgdyno.messages import Message
from pgdyno.records import CheckVerdict

ELSEWHERE = ("clock.", "storage.file-system")
"""Checks that the rules `clock` and `durability` report."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if not subject.manifest.preflight:
        raise MissingError(Message("no-preflight", "the machine was not checked before the run"))
    for check in subject.manifest.preflight:
        if check.verdict in (CheckVerdict.WARNING, CheckVerdict.STOP) and not check.id.startswith(ELSEWHERE):
            yield RuleFinding(
                Severity.CAUTION,
                Message(
                    "preflight",
                    "{check}: {found}: {means}" if check.means else "{check}: {found}",
                    check=check.id,
                    found=check.state,
                    means=check.consequence,
                ),
                (),
                [Evidence(at="manifest, preflight", figures={check.id: check.found, **check.measured})],
                check.change or f"docs/reference/doctor.md explains {check.id}",
            )


RULE = Rule(
    "preflight",
    "checks of the machine before the run: each warning, and each failure that was overridden; the rules `clock` "
    "and `durability` report those of the clock and of the file system",
    Severity.CAUTION,
    "docs/reference/doctor.md",
    _check,
    place=100,
)
