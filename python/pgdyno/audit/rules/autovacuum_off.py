"""Reports that autovacuum was off during the benchmark."""

from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.setting_values import is_off
from pgdyno.audit.subject import Subject
from pgdyno.messages import Message

ADVICE = "leave it on: production servers have it on, and tables bloat without it"


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if subject.manifest.counts_instructions:
        # one process is counted, and autovacuum is another
        return
    severity = Severity.NOTE if subject.only_reads else Severity.CAUTION
    if subject.imported:
        lines = subject.facts("autovacuum")
        if not lines:
            raise MissingError(Message("no-autovacuum", "the setting autovacuum is unknown"))
        off = [line for line in lines if is_off(line.text)]
        if off:
            evidence = [Evidence(at=f"{line.file}:{line.line}", figures={"text": line.text}) for line in off]
            yield RuleFinding(severity, Message("autovacuum-off", "autovacuum is off"), (), evidence, ADVICE)
        return
    known = {
        number: settings["autovacuum"] for number, settings in subject.settings.items() if "autovacuum" in settings
    }
    if not known:
        raise MissingError(Message("no-settings", "the server's settings were not recorded"))
    trials = [number for number, value in known.items() if value == "off"]
    if trials:
        evidence = [Evidence(at=f"trial {number}", figures={"autovacuum": "off"}) for number in trials]
        message = Message(
            "autovacuum-off-in-trials",
            "autovacuum is off in {trials} trial",
            "autovacuum is off in {trials} trials",
            trials=len(trials),
        )
        yield RuleFinding(severity, message, trials, evidence, ADVICE)


RULE = Rule(
    "autovacuum-off",
    "the setting autovacuum: caution if it is off, or a note if the workload only reads",
    Severity.CAUTION,
    "https://www.postgresql.org/docs/current/routine-vacuuming.html",
    _check,
    place=210,
)
