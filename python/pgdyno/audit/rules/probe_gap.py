"""Reports periods that the probe missed."""

from collections.abc import Iterator

from pgdyno.audit.finding import MissingError, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message

LATE_SHARE = 0.05
"""Share of the due samples that the probe skipped; more are reported."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    watched = [sample for sample in subject.samples if sample.trial.probe is not None]
    if not watched:
        raise MissingError(Message("no-probe", "no probe ran during the trials"))
    broken = [sample for sample in watched if sample.trial.probe is not None and sample.trial.probe.message is not None]
    if broken:
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "probe-gap-failed",
                "the probe failed during {trials} of {all} trials: their waits are unknown",
                trials=len(broken),
                all=len(watched),
            ),
            *evidence_of({sample: {"message": _message(sample)} for sample in broken}),
            "see log/probe.log of the trial",
        )
    gaps = [sample for sample in watched if sample not in broken and _gap_figures(sample)]
    if gaps:
        yield RuleFinding(
            Severity.NOTE,
            Message(
                "probe-gap", "the probe missed parts of {trials} of {all} trials", trials=len(gaps), all=len(watched)
            ),
            *evidence_of({sample: _gap_figures(sample) for sample in gaps}),
            "the table events lists them (probe_gap); give the probe a core of its own, or sample less often: "
            "probe.waits_hz",
        )


def _message(sample: Sample) -> str:
    return (sample.trial.probe.message if sample.trial.probe is not None else None) or ""


def _gap_figures(sample: Sample) -> dict[str, float | str]:
    probe = sample.trial.probe
    if probe is None:
        return {}
    due = (probe.waits_hz or 0) * (sample.trial.warmup_s + (sample.length_s or 0.0))
    late = probe.late or 0
    found: dict[str, float | str] = {"gaps": probe.gaps} if probe.gaps else {}
    return found | ({"late": late, "due": round(due)} if due and late > LATE_SHARE * due else {})


RULE = Rule(
    "probe-gap",
    "the probe's own problems: caution if it failed, a note if it has gaps or skipped over 5 % of its samples",
    Severity.CAUTION,
    "docs/reference/probe.md, Lines",
    _check,
    place=420,
)
