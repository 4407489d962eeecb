"""Checks clients against throughput times latency (Little's law)."""

import re
from collections.abc import Iterator, Sequence

from pgdyno.audit.finding import MissingError, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.subject import LOAD_BY_PHASE, Sample, Subject
from pgdyno.messages import Message

TOLERANCE = 0.02
FAR = 0.10
"""Beyond this deviation, one of the three figures is wrong."""
LEFT_OUT = 0.30
"""Share of the clients' time that no latency of pgbench contains: its threads serve other clients between a client's
transactions. With 64 clients near saturation it was 22 to 28 % (docs/reference/pgdrive.md, What differs). A table does
not say which program measured it, and gets the same allowance.
"""
_LEAVES_OUT = frozenset(["pgbench", "pgbench-log", "table", "csv"])
_CONNECTS = re.compile(r"\s-[A-Za-z]*C(?:\s|$)|\s--connect(?:\s|$)")
"""pgbench -C: a transaction's latency begins after its connection is established. A log does not show -C."""
FAILED_SHARE = 0.01
"""From this share of failed transactions on, the time of clients that no latency contains has no known limit."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if (changing := subject.changing_load) is not None:
        raise MissingError(changing)
    if subject.manifest.plan.get("phase"):
        raise MissingError(LOAD_BY_PHASE)
    ratios = [(sample, ratio) for sample in subject.samples if (ratio := _ratio(sample)) is not None]
    if not ratios and any(sample.is_undecided for sample in subject.samples):
        raise MissingError(Message("log-loop-unknown", "a log does not show whether a rate (-R) limited its load"))
    if not ratios:
        raise MissingError(
            Message("no-clients-throughput-latency", "clients, throughput and mean latency are not all reported")
        )
    for severity in (Severity.INVALID, Severity.CAUTION):
        off = [(sample, ratio) for sample, ratio in ratios if _severity(sample, ratio) is severity]
        if off:
            yield RuleFinding(
                severity,
                Message(
                    "littles-law",
                    "throughput x mean latency is {ratio} times the clients in {trials} of {all} trials: clients, "
                    "throughput and latency are not from the same load",
                    ratio=_spread(off),
                    trials=len(off),
                    all=len(ratios),
                ),
                *evidence_of({sample: _figures(sample, ratio) for sample, ratio in off}, "tps"),
                "find out which figure is from another trial, or what clients wait for outside of a transaction",
            )
    outside = [(sample, ratio) for sample, ratio in ratios if _severity(sample, ratio) is Severity.NOTE]
    if outside:
        yield RuleFinding(
            Severity.NOTE,
            Message(
                "littles-law-left-out",
                "throughput x mean latency is {ratio} times the clients in {trials} of {all} trials: no latency "
                "contains the rest of the clients' time, as is usual for pgbench",
                ratio=_spread(outside),
                trials=len(outside),
                all=len(ratios),
            ),
            *evidence_of({sample: _figures(sample, ratio) for sample, ratio in outside}, "tps"),
            "compare these latencies only with those of the same program",
        )


def _spread(ratios: Sequence[tuple[Sample, float]]) -> str:
    low, high = (f"{end(ratio for _, ratio in ratios):.2f}" for end in (min, max))
    return low if low == high else f"{low} to {high}"


def _ratio(sample: Sample) -> float | None:
    mean_ms = sample.figures.get(_mean(sample))
    if (
        not sample.clients
        or sample.is_open
        or sample.is_undecided
        or sample.figures.keys() & {"think_time_ms", "keying_time_ms"}
        or mean_ms is None
        or mean_ms <= 0
        or sample.summary.tps <= 0
    ):
        return None
    connect = sample.summary.connect
    if connect is not None and connect.total is not None:
        # in a closed loop, no latency contains the time to connect
        mean_ms += (connect.total.mean or 0.0) / 1e6
    return _completed_per_s(sample) * mean_ms / 1000 / sample.clients


def _mean(sample: Sample) -> str:
    """Return the name of the mean latency: that of succeeded transactions, if it was printed."""
    return "latency_mean_ms" if "latency_mean_ms" in sample.figures else "latency_with_failures_ms"


def _completed_per_s(sample: Sample) -> float:
    """Return the rate of the transactions that the mean latency covers: BenchBase's, and pgbench's without a mean of
    those that succeeded, covers failed ones, too.
    """
    summary = sample.summary
    if _mean(sample) == "latency_with_failures_ms" and summary.succeeded:
        return summary.tps * (summary.succeeded + (summary.failed or 0)) / summary.succeeded
    if "latency_stddev_ms" not in sample.figures and "tps_including_connections" in sample.figures:
        # up to 13, pgbench divides the whole time by the transactions if it measured no latencies
        return sample.figures["tps_including_connections"]
    return sample.figures.get("requests_per_s", summary.tps)


def _severity(sample: Sample, ratio: float) -> Severity | None:
    off = abs(ratio - 1)
    mean_ms = sample.figures[_mean(sample)]
    # rounding, and transactions that the ends of the trial cut off
    rounding = sample.rounding_error(_mean(sample)) / mean_ms + sample.rounding_error("tps") / sample.summary.tps
    waited_s = _drain_s(sample) + _outage_s(sample) if ratio < 1 else 0.0
    cut = (mean_ms / 1000 + waited_s) / sample.length_s if sample.length_s else 0.0
    if off <= TOLERANCE + rounding + cut:
        return None
    if ratio < 1 and sample.tool is None and _failed_share(sample) > FAILED_SHARE:
        # the rule `errors` reports the failures
        return None
    if ratio < 1 and sample.trial.imported is None and sample.trial.duration_s is None:
        # clients that have sent their number of transactions wait for the last one
        return None
    if ratio < 1 and (off <= _left_out(sample) + rounding + cut):
        return Severity.NOTE
    return Severity.INVALID if off > FAR + rounding + cut else Severity.CAUTION


def _drain_s(sample: Sample) -> float:
    """Return the longest wait of finished clients for the last transaction, which pgdrive's measured time contains."""
    planned = sample.trial.duration_s
    if sample.trial.imported is not None or planned is None or sample.length_s is None:
        return 0.0
    return max(0.0, sample.length_s - planned)


def _outage_s(sample: Sample) -> float:
    return sum(event.effect.nobody_served_s for event in sample.trial.events if event.effect is not None)


def _left_out(sample: Sample) -> float:
    imported = sample.trial.imported
    if imported is None or imported.tool not in _LEAVES_OUT:
        return 0.0
    printed = imported.printed.get("tps")
    reconnects = printed is not None and "reconnection" in printed.text
    may_reconnect = sample.is_log or reconnects or _CONNECTS.search(imported.command or "")
    return 1.0 if may_reconnect or _failed_share(sample) > FAILED_SHARE else LEFT_OUT


def _failed_share(sample: Sample) -> float:
    failed, succeeded = sample.summary.failed or 0, sample.summary.succeeded
    return failed / (succeeded + failed) if succeeded and "latency_mean_ms" in sample.figures else 0.0


def _figures(sample: Sample, ratio: float) -> dict[str, float | str]:
    known = sample.some("tps", "tps_including_connections", _mean(sample))
    return known | {"clients": sample.clients, "busy_clients": round(ratio * sample.clients, 2)}


RULE = Rule(
    "littles-law",
    "closed loop: throughput x mean latency = clients, within 2 % and an allowance for rounding and the ends of a "
    "trial; invalid from 10 %. A note if up to 30 % is missing from figures of pgbench or from tables: pgbench "
    "counts that time in no latency (22 to 28 % near saturation); if more is missing, where pgbench connects for each "
    "transaction (-C), in logs, which do not show -C, and if more than 1 % of the transactions failed: their time, "
    "too, is in no latency, unless pgbench says that its mean includes failures",
    Severity.INVALID,
    "J. D. C. Little, A Proof for the Queuing Formula L = λW, Operations Research 9 (1961); docs/design/method.md",
    _check,
    place=10,
    needs_rate=True,
)
