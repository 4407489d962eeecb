"""Reports dips with which nothing coincides."""

from collections.abc import Iterator

from pgdyno.analyse.over_time.dips import ExplainedDip
from pgdyno.analyse.over_time.timeline import Timeline
from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message

LEAST_LOSS = 0.01
"""Share of a trial's transactions; a smaller loss is a note."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if (changing := subject.changing_load) is not None:
        raise MissingError(changing)
    if not any(len(timeline.measured_part) for timeline in subject.timelines.values()):
        raise MissingError(Message("no-intervals", "no trial has figures by second"))
    dipping = {each: subject.timelines[each.number] for each in subject.samples if subject.dips[each.number]}
    seen = {sample: subject.explained.get(sample.number) for sample in dipping}
    left_over = {
        sample: left
        for sample, found in seen.items()
        if (left := [each for each in found or [] if not each.coincidences])
    }
    blind = [sample.number for sample, found in seen.items() if found is None]
    if blind and not left_over:
        numbers = ", ".join(map(str, blind[:10])) + (" and more" if len(blind) > 10 else "")
        raise MissingError(
            Message(
                "dips-without-probe",
                "throughput dips in {trials} trial ({numbers}), which had no probe of the server",
                "throughput dips in {trials} trials ({numbers}), which had no probe of the server",
                trials=len(blind),
                numbers=numbers,
            )
        )
    for severity in (Severity.CAUTION, Severity.NOTE):
        of_it = [
            (sample, left)
            for sample, left in left_over.items()
            if (_loss(left, dipping[sample]) >= LEAST_LOSS) == (severity is Severity.CAUTION)
        ]
        if of_it:
            yield _finding(severity, of_it, dipping)


def _finding(
    severity: Severity, of_it: list[tuple[Sample, list[ExplainedDip]]], timelines: dict[Sample, Timeline]
) -> RuleFinding:
    most = max(_loss(left, timelines[sample]) for sample, left in of_it)
    return RuleFinding(
        severity,
        Message(
            "dips-unexplained",
            "nothing in the probe's data coincides with the dips in {trials} trial ({dips} in all); they cost "
            "{share:.2%} of its transactions",
            "nothing in the probe's data coincides with the dips in {trials} trials ({dips} in all); they cost up to "
            "{share:.2%} of a trial's transactions",
            dips=sum(len(left) for _, left in of_it),
            trials=len(of_it),
            share=most,
        ),
        [sample.number for sample, _ in of_it],
        [
            Evidence(
                at=sample.figure_location(),
                figures={
                    "from_s": each.dip.from_s, "to_s": each.dip.to_s, "depth": round(each.dip.depth, 3),
                    "lost_transactions": round(each.dip.loss),
                },
            )
            for sample, left in of_it
            for each in left
        ],
        "look for other load on the machine and its storage, and check the server's log of the trial",
    )  # fmt: skip


def _loss(left: list[ExplainedDip], timeline: Timeline) -> float:
    measured = timeline.measured_part
    done = float(measured.tps @ (measured.to_s - measured.from_s))
    return sum(each.dip.loss for each in left) / done if done else 1.0


RULE = Rule(
    "dips-unexplained",
    "dips of throughput with which no wait, checkpoint, vacuum, steal, event or limit of the generator coincides: a "
    "note; caution if a trial lost 1 % of its transactions in them",
    Severity.CAUTION,
    "docs/design/method.md, Dips",
    _check,
    place=250,
    needs_rate=True,
)
