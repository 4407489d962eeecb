"""Checks that commits were durable when acknowledged, and equally so at all targets."""

from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.setting_values import is_off
from pgdyno.audit.subject import Subject
from pgdyno.messages import Message
from pgdyno.records import CheckVerdict

SAFE = {
    "fsync": frozenset(["on"]),
    "full_page_writes": frozenset(["on"]),
    "synchronous_commit": frozenset(["on", "local", "remote_write", "remote_apply"]),
}
"""Values with which a commit survives a crash of the server."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if subject.imported:
        yield from _find_reported(subject)
        return
    known = {number: settings for number, settings in subject.settings.items() if "fsync" in settings}
    if not known:
        raise MissingError(Message("no-settings", "the server's settings were not recorded"))
    for name, safe in SAFE.items():
        unsafe = {number: each[name] for number, each in known.items() if name in each and each[name] not in safe}
        if unsafe:
            yield _unsafe(subject, name, unsafe, known=len(known))
    for check in subject.manifest.preflight:
        if check.id == "storage.file-system" and check.verdict in (CheckVerdict.WARNING, CheckVerdict.STOP):
            evidence = [Evidence(at="manifest, preflight", figures={"storage.file-system": check.found})]
            yield RuleFinding(
                Severity.CAUTION,
                Message(
                    "durability-check", "{found}: {means}", check=check.id, found=check.state, means=check.consequence
                ),
                (),
                evidence,
                check.change,
            )


def _unsafe(subject: Subject, name: str, unsafe: dict[int, str], *, known: int) -> RuleFinding:
    differs = len(unsafe) < known
    value = next(iter(unsafe.values()))
    swept = {sample.number for sample in subject.samples if name in sample.trial.point.settings}
    if differs and swept >= unsafe.keys():
        severity = Severity.CAUTION
        message = Message(
            "durability-swept",
            "{setting} is swept, and {value} in {trials} trial: its values are what the run compares",
            "{setting} is swept, and {value} in {trials} trials: its values are what the run compares",
            setting=name,
            value=value,
            trials=len(unsafe),
        )
    elif differs:
        severity = Severity.INVALID
        message = Message(
            "durability-differs",
            "{setting} is {value} in only {trials} of {all} trials",
            setting=name,
            value=value,
            trials=len(unsafe),
            all=known,
        )
    elif subject.only_reads:
        severity = Severity.NOTE
        message = Message(
            "durability-read-only", "{setting} is {value}; the workload only reads", setting=name, value=value
        )
    else:
        severity = Severity.CAUTION
        message = Message(
            "durability-loss", "{setting} is {value}: acknowledged transactions may be lost", setting=name, value=value
        )
    return RuleFinding(
        severity,
        message,
        list(unsafe),
        [Evidence(at=f"trial {number}", figures={name: setting}) for number, setting in unsafe.items()],
        f"set {name} = on, or state with every figure that it was not",
    )


def _find_reported(subject: Subject) -> Iterator[RuleFinding]:
    lines = [(name, line) for name in (*SAFE, "tmpfs") for line in subject.facts(name)]
    if not lines:
        raise MissingError(
            Message("no-durability", "neither fsync, synchronous_commit, full_page_writes nor the storage is known")
        )
    for name, line in lines:
        if name == "tmpfs" or is_off(line.text):
            memory = name == "tmpfs"
            yield RuleFinding(
                Severity.CAUTION,
                Message(
                    "durability-memory",
                    "the data directory is in memory, and no commit reaches a disk: {text}",
                    text=line.text,
                )
                if memory
                else Message("durability-off", "{setting} is off: {text}", setting=name, text=line.text),
                (),
                [Evidence(at=f"{line.file}:{line.line}", figures={"text": line.text})],
                "do not compare with a server whose commits are durable",
            )


RULE = Rule(
    "durability",
    "fsync, full_page_writes, synchronous_commit, and data in memory: invalid if they differ between trials of a "
    "run and are not swept, caution if transactions may be lost, a note if the workload only reads",
    Severity.INVALID,
    "https://www.postgresql.org/docs/current/non-durability.html",
    _check,
    place=160,
    topic="setting",
)
