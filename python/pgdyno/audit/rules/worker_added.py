"""Reports a generator that changed during the measurement."""

from collections.abc import Iterator

from pgdyno.audit.finding import MissingError, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.subject import Subject
from pgdyno.messages import Message


def _check(subject: Subject) -> Iterator[RuleFinding]:
    known = [(sample, sample.trial.generator) for sample in subject.samples if sample.trial.generator is not None]
    if not known:
        raise MissingError(Message("no-generator-threads", "generator threads unknown"))
    changed = [(sample, generator.worker_added) for sample, generator in known if generator.worker_added]
    if changed:
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "worker-added",
                "the generator added threads during the measurement in {count} trial: its first seconds were "
                "measured with fewer threads",
                "the generator added threads during the measurement in {count} trials: their first seconds were "
                "measured with fewer threads",
                count=len(changed),
            ),
            *evidence_of({sample: {"worker_added": added} for sample, added in changed}),
            "measure again: the number of threads no longer changes during a load",
        )


RULE = Rule(
    "worker-added",
    "generator threads that were added during the measurement, because others were too busy",
    Severity.CAUTION,
    "docs/reference/pgdrive.md, Threads",
    _check,
    place=70,
)
