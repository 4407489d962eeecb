"""Reports checkpoints, vacuums and analyzes that occurred in one arm only."""

from collections.abc import Iterator, Mapping, Sequence

from pgdyno.audit.arms import compared_arms
from pgdyno.audit.finding import MissingError, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message
from pgdyno.store.probe_tables import Metric

KINDS: Mapping[str, tuple[Metric, ...]] = {
    "a checkpoint": (("checkpoints", "timed"), ("checkpoints", "requested"), ("checkpoints", "done")),
    "a vacuum": (("tables", "vacuums"), ("tables", "autovacuums"), ("vacuum", "blocks")),
    "an analyze": (("tables", "analyzes"), ("tables", "autoanalyzes")),
}
BY = {
    "tables_vacuums": "by command",
    "tables_analyzes": "by command",
    "tables_autovacuums": "by autovacuum",
    "tables_autoanalyzes": "by autovacuum",
}
"""Who started it, by the figure of the evidence; the progress of a vacuum does not say."""
MANY = 0.5
"""Share of an arm's trials. Fewer occur by chance: if three events fall on six trials of each of two arms at random,
they all fall on the same arm in 2 of 11 cases; and they change the mean of the arm by less than half of what they cost
a trial.
"""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if subject.imported:
        raise MissingError(Message("no-maintenance", "the source does not report checkpoints and vacuums"))
    arms = compared_arms(subject)
    seen = {
        name: [sample for sample in samples if ("checkpoints", "timed") in subject.amounts.get(sample.number, {})]
        for name, samples in arms.items()
    }
    if arms and not all(seen.values()):
        raise MissingError(Message("no-probe-in-every-arm", "no probe sampled the server in every arm"))
    for kind, metrics in KINDS.items():
        hit = {
            name: [sample for sample in samples if _gained_figures(subject.amounts[sample.number], metrics)]
            for name, samples in seen.items()
        }
        without = [name for name, samples in hit.items() if not samples]
        for name, samples in hit.items() if without else ():
            if samples:
                many = len(samples) >= MANY * len(seen[name])
                which = kind + _counts_text(subject, samples, metrics)
                yield RuleFinding(
                    Severity.CAUTION if many else Severity.NOTE,
                    Message(
                        "maintenance-one-arm",
                        "{what} ran in {trials} of {all} trials of {at}, and in none of {others}",
                        what=which,
                        trials=len(samples),
                        all=len(seen[name]),
                        at=name,
                        others=", ".join(without),
                    ),
                    *evidence_of(
                        {sample: _gained_figures(subject.amounts[sample.number], metrics) for sample in samples}
                    ),
                    "run trials that are long enough for it to occur in each, or repeat these trials",
                )


def _counts_text(subject: Subject, samples: Sequence[Sample], metrics: tuple[Metric, ...]) -> str:
    seen = {name for sample in samples for name in _gained_figures(subject.amounts[sample.number], metrics)}
    who = list(dict.fromkeys(BY[name] for name in BY if name in seen))
    return f" {' and '.join(who)}" if who else ""


def _gained_figures(amounts: Mapping[Metric, float], metrics: tuple[Metric, ...]) -> dict[str, float | str]:
    return {f"{source}_{name}": amounts[source, name] for source, name in metrics if amounts.get((source, name))}


RULE = Rule(
    "maintenance-one-arm",
    "checkpoints, vacuums and analyzes in the measured part, by command and by autovacuum, by arm: a note if one "
    "arm had some and another none, caution if they occurred in half of its trials",
    Severity.CAUTION,
    "docs/reference/probe.md, checkpoints; tables",
    _check,
    place=230,
    topic="maintenance",
)
