"""Reports trials that ran in pairs: their absolute figures hold for nothing else."""

from collections.abc import Iterator

from pgdyno.audit.finding import Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message


def _check(subject: Subject) -> Iterator[RuleFinding]:
    duets = [sample for sample in subject.samples if sample.trial.duet is not None]
    if duets:
        yield RuleFinding(
            Severity.NOTE,
            Message(
                "duet",
                "{trials} of {all} trials ran in pairs, each on half of the processors while the other half was "
                "loaded: their throughput and latency are valid only as ratios of the two targets",
                trials=len(duets),
                all=len(subject.samples),
            ),
            *evidence_of({sample: _figures(sample) for sample in duets}, "tps"),
            'for absolute figures, set trial.order = "interleaved"',
        )


def _figures(sample: Sample) -> dict[str, float | str]:
    duet = sample.trial.duet
    assert duet is not None
    ratio = {} if duet.tps_ratio is None else {"tps_ratio": round(duet.tps_ratio, 6)}
    return {
        "tps": sample.summary.tps,
        "partner": float(duet.partner),
        "processors": ", ".join(map(str, duet.processors)),
        **ratio,
    }


RULE = Rule(
    "duet",
    "whether trials ran at the same time as others, each on half of the processors, so that only their ratio is valid",
    Severity.NOTE,
    "docs/design/duet.md",
    _check,
    place=295,
)
