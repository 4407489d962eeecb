"""Reports points outside the sweep that a document declares."""

from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Subject
from pgdyno.messages import Message


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if not subject.imported:
        return
    from pgdyno.importers.documents.prose import swept_clients

    ranges = [(line, found) for line in subject.facts("sweep") if (found := swept_clients(line.text)) is not None]
    if not ranges:
        raise MissingError(Message("no-swept-clients", "the document does not report which clients it swept"))
    least, most = min(first for _, (first, _) in ranges), max(last for _, (_, last) in ranges)
    outside = [sample for sample in subject.samples if sample.clients and not least <= sample.clients <= most]
    if outside:
        clients = ", ".join(str(sample.clients) for sample in outside)
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "outside-plan",
                "{trials} trial (clients: {clients}) lies outside the swept range of {least} to {most}",
                "{trials} trials (clients: {clients}) lie outside the swept range of {least} to {most}",
                trials=len(outside),
                clients=clients,
                least=least,
                most=most,
            ),
            [sample.number for sample in outside],
            [
                *(Evidence(at=f"{line.file}:{line.line}", figures={"text": line.text}) for line, _ in ranges),
                *(
                    Evidence(at=sample.figure_location("clients"), figures=sample.some("clients", "tps"))
                    for sample in outside
                ),
            ],
            "find out where these come from; leave them out of a comparison",
        )


RULE = Rule(
    "outside-plan",
    "clients of imported trials compared with the sweep that the document reports; pgdyno's own trials follow the plan",
    Severity.CAUTION,
    "docs/design/method.md, Order",
    _check,
    place=380,
)
