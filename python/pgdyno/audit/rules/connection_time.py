"""Reports implausible rates without connection time."""

from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message

CAUTION_SHARE, INVALID_SHARE = 0.05, 0.25
"""Share of a trial's time that connecting would have taken."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if not subject.imported:
        return
    pairs = [*_in_one(subject), *_in_tables(subject)]
    if not pairs:
        raise MissingError(
            Message("no-connection-time", "no trial has rates both including and excluding connection time")
        )
    for severity, low, high in (
        (Severity.INVALID, INVALID_SHARE, 1.0),
        (Severity.CAUTION, CAUTION_SHARE, INVALID_SHARE),
    ):
        off = [pair for pair in pairs if low < _share(pair[1], pair[3]) <= high]
        if off:
            most = max(_share(pair[1], pair[3]) for pair in off)
            yield RuleFinding(
                severity,
                Message(
                    "connection-time",
                    "{rates} of {all} rates excluding connection time imply that connecting took up to {share:.0%} "
                    "of the trial",
                    rates=len(off),
                    all=len(pairs),
                    share=most,
                ),
                sorted({sample.number for including, _, excluding, _ in off for sample in (including, excluding)}),
                [
                    Evidence(
                        at=excluding.figure_location("tps"),
                        figures={
                            "including_tps": with_tps,
                            "including_at": including.figure_location("tps"),
                            "excluding_tps": without_tps,
                            "clients": f"{including.clients} and {excluding.clients}",
                        },
                    )
                    for including, with_tps, excluding, without_tps in off
                ],
                "use the rates that include connection time; PostgreSQL 14 and later report the initial connection "
                "time separately",
            )


Pair = tuple[Sample, float, Sample, float]
"""A trial and its rate including connection time, a trial and its rate excluding it."""


def _in_one(subject: Subject) -> Iterator[Pair]:
    for sample in subject.samples:
        figures = sample.figures
        # runs that earlier versions imported have the rate including it as `tps`
        including = figures.get("tps_including_connections", figures.get("tps"))
        if including is not None and "tps_excluding_connections" in figures:
            yield sample, including, sample, figures["tps_excluding_connections"]


def _in_tables(subject: Subject) -> Iterator[Pair]:
    rows: dict[tuple[object, ...], dict[str, Sample]] = {}
    for sample in subject.samples:
        words = sample.trial.imported.words if sample.trial.imported is not None else {}
        kind = words.get("rows", "").lower()[:4]
        if kind in ("incl", "excl"):
            base = sample.target.replace(words["rows"], "")
            rows.setdefault((base, sample.trial.point.scale, words.get("ratio")), {})[kind] = sample
    for found in rows.values():
        if len(found) == 2:
            yield found["incl"], found["incl"].summary.tps, found["excl"], found["excl"].summary.tps


def _share(including: float, excluding: float) -> float:
    return 1 - including / excluding if excluding > 0 else 0.0


RULE = Rule(
    "connection-time",
    "rates including and excluding connection time: the share of the trial that connecting must have taken; caution "
    "over 5 %, invalid over 25 %",
    Severity.INVALID,
    "https://www.postgresql.org/docs/release/14.0/, pgbench",
    _check,
    place=370,
)
