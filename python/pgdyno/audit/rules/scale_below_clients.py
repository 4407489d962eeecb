"""Reports more clients than branches, so that clients wait for each other's row locks."""

from collections.abc import Iterator

from pgdyno.audit.finding import MissingError, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message


def _check(subject: Subject) -> Iterator[RuleFinding]:
    updating = [sample for sample in subject.samples if _updates_branches(subject, sample)]
    if not updating:
        if subject.manifest.script_names is None:
            raise MissingError(Message("no-workload", "the workload is unknown"))
        return
    known = [(sample, scale) for sample in updating if (scale := _scale(subject, sample)) is not None]
    if not known:
        raise MissingError(Message("no-scale", "the scale is unknown"))
    under = [(sample, scale) for sample, scale in known if scale < sample.clients]
    if under:
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "scale-below-clients",
                "{trials} trial has more clients than pgbench_branches has rows: clients wait for each other's row "
                "locks",
                "{trials} trials have more clients than pgbench_branches has rows: clients wait for each other's "
                "row locks",
                trials=len(under),
            ),
            *evidence_of({sample: {"scale": scale, "clients": sample.clients} for sample, scale in under}, "scale"),
            "load a scale that is at least the largest number of clients",
        )


def _updates_branches(subject: Subject, sample: Sample) -> bool:
    names = [subject.manifest.workload]
    if sample.trial.imported is not None:
        names = [sample.trial.imported.words.get("workload", "")]
    if "tpcb-like" in names:
        return True
    return any("UPDATE pgbench_branches" in row.text for row in subject.statements(sample.number))


def _scale(subject: Subject, sample: Sample) -> int | None:
    if sample.trial.point.scale is not None:
        return sample.trial.point.scale
    planned = subject.manifest.plan.get("workload", {}).get("scale")
    return planned if isinstance(planned, int) else None


RULE = Rule(
    "scale-below-clients",
    "scripts that update pgbench_branches: the scale compared with the clients",
    Severity.CAUTION,
    "https://www.postgresql.org/docs/current/pgbench.html, Good Practices",
    _check,
    place=400,
)
