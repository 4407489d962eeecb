"""Reports a generator worker at its limit while others have capacity, and clients that were served unequally."""

from collections.abc import Iterator, Mapping
from statistics import fmean

from pgdyno.audit.finding import MissingError, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.rules.generator_limited import NEAR
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message

APART = 0.7
"""If the mean of all workers is below this share of the busiest one's, the load is imbalanced."""
LATE_S = 2.0
"""Allowed delay from the end of a second until the figures of all generators have arrived."""
UNFAIR = 0.25
"""Standard deviation of transactions per client over their mean."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    workers = {sample: found for sample in subject.samples if (found := subject.cpu_shares(sample.number))}
    by_host = {sample: hosts for sample in subject.samples if (hosts := _hosts(sample))}
    fairness = {sample: each for sample in subject.samples if (each := _fairness(subject, sample)) is not None}
    if not workers and not fairness:
        raise MissingError(Message("no-load-shares", "the distribution of the load over workers or clients is unknown"))
    uneven = {sample: found for sample, found in workers.items() if _is_uneven(found)}
    if uneven:
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "load-imbalance-workers",
                "one worker of the generator uses up to {share:.0%} of a core while others have capacity, in "
                "{trials} trial: its clients wait for it",
                "one worker of the generator uses up to {share:.0%} of a core while others have capacity, in "
                "{trials} trials: its clients wait for it",
                share=max(map(max, uneven.values())),
                trials=len(uneven),
            ),
            *evidence_of(
                {
                    sample: {"busiest_cpu_share": round(max(found), 3), "mean_cpu_share": round(fmean(found), 3)}
                    for sample, found in uneven.items()
                }
            ),
            "choose a number of clients that is a multiple of the workers, or more workers",
        )
    # a generator that does nothing at all is disconnected from the server
    apart = {sample: hosts for sample, hosts in by_host.items() if min(hosts.values()) < APART * max(hosts.values())}
    if apart:
        worst, hosts = min(apart.items(), key=lambda each: _lowest_share(each[1]))
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "load-imbalance-generators",
                "generators serve their clients unequally in {trials} trial: a client of {slowest} completes "
                "{share:.0%} of the transactions of one of the fastest",
                "generators serve their clients unequally in {trials} trials: a client of {slowest} completes "
                "{share:.0%} of the transactions of one of the fastest",
                trials=len(apart),
                slowest=_host_words(worst, hosts),
                share=_lowest_share(hosts),
            ),
            *evidence_of(apart),
            "compare the hosts and their network paths to the server: the slowest has less CPU, or is further away",
        )
    late = {
        sample: latest for sample in subject.samples if (latest := _latest_s(sample)) and max(latest.values()) > LATE_S
    }
    if late:
        yield RuleFinding(
            Severity.NOTE,
            Message(
                "load-imbalance-late",
                "figures by second from generators arrived up to {late_s:.1f} s late in {trials} trial: the figures "
                "are complete, but the live view and decisions during the trial used outdated ones",
                "figures by second from generators arrived up to {late_s:.1f} s late in {trials} trials: the figures "
                "are complete, but the live view and decisions during the trial used outdated ones",
                late_s=max(max(latest.values()) for latest in late.values()),
                trials=len(late),
            ),
            *evidence_of(late),
            "give the driver its own processor, and check the network path to the slowest generator",
        )
    unfair = {sample: each for sample, each in fairness.items() if each > UNFAIR}
    if unfair:
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "load-imbalance-clients",
                "clients were served unequally in {trials} trial: the standard deviation of their transactions is up "
                "to {share:.0%} of the mean",
                "clients were served unequally in {trials} trials: the standard deviation of their transactions is "
                "up to {share:.0%} of the mean",
                trials=len(unfair),
                share=max(unfair.values()),
            ),
            *evidence_of({sample: {"spread_by_client": round(each, 3)} for sample, each in unfair.items()}),
            "look for clients that wait for locks or for a processor; a mean latency hides them",
        )


def _hosts(sample: Sample) -> Mapping[str, float]:
    """Return transactions per second and client of each of several generators, in a closed loop with a duration."""
    trial = sample.trial
    if len(sample.hosts) < 2 or trial.point.rate is not None or trial.transactions is not None:
        return {}
    return {
        host.name: round(host.tps / host.clients, 3) for host in sample.hosts if host.tps is not None and host.clients
    }


def _lowest_share(hosts: Mapping[str, float]) -> float:
    return min(hosts.values()) / max(hosts.values())


def _host_words(sample: Sample, hosts: Mapping[str, float]) -> str:
    slowest = min(hosts, key=lambda name: hosts[name])
    return next(host.called for host in sample.hosts if host.name == slowest)


def _latest_s(sample: Sample) -> Mapping[str, float]:
    return {f"{host.name}_late_s": round(host.report_delay_us / 1e6, 3) for host in sample.hosts}


def _fairness(subject: Subject, sample: Sample) -> float | None:
    if subject.changing_load is not None:
        return None
    imported = sample.trial.imported
    if imported is not None:
        mean, spread = (imported.figures.get(f"client_transactions_{name}") for name in ("mean", "stddev"))
    else:
        said = (subject.end_event(sample.number).get("statements") or {}).get("fairness") or {}
        mean, spread = said.get("mean"), said.get("stddev")
    return spread / mean if mean and spread is not None else None


def _is_uneven(shares: list[float]) -> bool:
    return len(shares) > 1 and max(shares) > NEAR and fmean(shares) < APART * max(shares)


RULE = Rule(
    "load-imbalance",
    "CPU time by worker of the generator: one over 70 % of a core, the mean under 70 % of it; transactions by "
    "client: a standard deviation over 25 % of the mean; transactions per client by generator, if there are "
    "several: the slowest under 70 % of the fastest; a note if their seconds arrived more than 2 s late",
    Severity.CAUTION,
    "docs/reference/events.md, A worker",
    _check,
    place=80,
)
