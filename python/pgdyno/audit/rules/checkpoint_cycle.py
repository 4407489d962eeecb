"""Compares the length of the measured part with the interval between checkpoints."""

from collections.abc import Iterator

from pgdyno.audit.finding import MissingError, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message

CYCLES = 2
"""Complete cycles that the measured part should cover."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if subject.only_reads:
        return
    cycles = [(sample, cycle) for sample in subject.samples if (cycle := _cycle_s(subject, sample)) is not None]
    if not cycles:
        raise MissingError(Message("no-checkpoint-cycle", "the length of the trials or checkpoint_timeout is unknown"))
    short = [(sample, cycle) for sample, cycle in cycles if (sample.length_s or 0) < CYCLES * cycle]
    if short:
        sample, cycle = short[0]
        yield RuleFinding(
            Severity.NOTE,
            Message(
                "checkpoint-cycle",
                "{trials} of {all} trials measure less than {cycles} checkpoint cycles: {length_s:.0f} s vs "
                "{cycles} x {cycle_s:.0f} s",
                trials=len(short),
                all=len(cycles),
                cycles=CYCLES,
                length_s=sample.length_s or 0.0,
                cycle_s=cycle,
            ),
            *evidence_of(
                {each: {"length_s": each.length_s or 0.0, "checkpoint_timeout_s": timeout} for each, timeout in short}
            ),
            "measure at least two cycles, or state that the figure excludes checkpoints and full-page writes",
        )


def _cycle_s(subject: Subject, sample: Sample) -> float | None:
    setting = subject.settings.get(sample.number, {}).get("checkpoint_timeout") if not subject.imported else None
    return float(setting) if setting is not None and setting.isdigit() and sample.length_s is not None else None


RULE = Rule(
    "checkpoint-cycle",
    "workloads that write: the measured part covers at least two intervals of checkpoint_timeout",
    Severity.NOTE,
    "docs/design/method.md, Warm-up and steady state",
    _check,
    place=220,
    needs_rate=True,
)
