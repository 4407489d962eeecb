"""Reports CPU time used by other processes than server, generator and probe, and CPU time that the hypervisor took."""

import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pgdyno.audit.arms import compared_arms
from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.rules.generator_on_server import HERE
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message
from pgdyno.store.probe_tables import Metric

OTHERS = 0.05
"""Share of the host's CPU time. On an idle virtual machine of 2 cores, the kernel and pgdyno itself used 0.5 to 2.1 %
in 12 trials; a CPU-bound server loses about the share that others use.
"""
STEAL = 0.02
"""Share of the host's CPU time; `pgdyno doctor` warns from the same share on."""
APART = 0.03
"""Between the medians of two arms: the largest regression that `pgdyno gate` accepts by default."""
_BUSY = ("user", "system", "irq")


@dataclass(frozen=True, slots=True)
class _Load:
    """Shares of the host's CPU time."""

    others: float | None
    """None if not all of pgdyno's processes on the host are known."""
    steal: float


def _check(subject: Subject) -> Iterator[RuleFinding]:
    loads = host_loads(subject)
    if not loads:
        raise MissingError(Message("no-host-processors", "no probe sampled the processors of the server's host"))
    yield from _high(loads)
    yield from _find_different(subject, loads)


def _high(loads: Mapping[Sample, _Load]) -> Iterator[RuleFinding]:
    others = {sample: load for sample, load in loads.items() if (load.others or 0.0) > OTHERS}
    if others:
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "other-load-processes",
                "processes other than server, generator and probe used up to {share:.0%} of the host's CPU time in "
                "{trials} of {all} trials",
                share=max(load.others or 0.0 for load in others.values()),
                trials=len(others),
                all=len(loads),
            ),
            *_evidence(others),
            "stop other programs on the host, and repeat these trials",
        )
    stolen = {sample: load for sample, load in loads.items() if load.steal > STEAL}
    if stolen:
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "other-load-steal",
                "the hypervisor gave up to {share:.0%} of the host's CPU time to other guests in {trials} of {all} "
                "trials",
                share=max(load.steal for load in stolen.values()),
                trials=len(stolen),
                all=len(loads),
            ),
            *_evidence(stolen),
            "use a dedicated host or a larger instance, and repeat these trials",
        )


def _find_different(subject: Subject, loads: Mapping[Sample, _Load]) -> Iterator[RuleFinding]:
    arms = {name: [sample for sample in samples if sample in loads] for name, samples in compared_arms(subject).items()}
    taken = {
        name: statistics.median((loads[sample].others or 0.0) + loads[sample].steal for sample in samples)
        for name, samples in arms.items()
        if samples
    }
    if len(taken) < 2:
        return
    low, high = min(taken, key=lambda name: taken[name]), max(taken, key=lambda name: taken[name])
    if taken[high] - taken[low] > APART:
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "other-load-differs",
                "other processes and the hypervisor took {most:.0%} of the host's CPU time from trials of "
                "{most_at}, and {least:.0%} from those of {least_at} (medians)",
                most=taken[high],
                most_at=high,
                least=taken[low],
                least_at=low,
            ),
            *_evidence({sample: loads[sample] for sample in (*arms[low], *arms[high])}),
            "stop other programs on the host, and measure both again",
        )


def _evidence(loads: Mapping[Sample, _Load]) -> tuple[list[int], list[Evidence]]:
    return evidence_of(
        {
            sample: {
                **({} if load.others is None else {"others_cpu_share": round(load.others, 4)}),
                "steal_share": round(load.steal, 4),
            }
            for sample, load in loads.items()
        }
    )


def host_loads(subject: Subject) -> dict[Sample, _Load]:
    """Return what others took of the host's CPU time in the measured part of each trial with a probe."""
    found = subject.run.shares_within(subject.measured, [("cpu", name) for name in (*_BUSY, "steal")])
    kinds = {target.name: target.kind for target in subject.manifest.targets}
    return {
        sample: _load(subject, sample, *found[sample.number, 0], here=kinds.get(sample.target) in HERE)
        for sample in subject.samples
        if (sample.number, 0) in found
    }


def _load(subject: Subject, sample: Sample, span_us: float, shares: Mapping[Metric, float], *, here: bool) -> _Load:
    known = _known_us(subject, sample) if here else None
    host = subject.manifest.host
    others = None
    if known is not None and host is not None:
        busy = sum(shares.get(("cpu", name), 0.0) for name in _BUSY)
        others = max(0.0, busy - known / span_us / host.cores)
    return _Load(others, shares.get(("cpu", "steal"), 0.0))


def _known_us(subject: Subject, sample: Sample) -> float | None:
    """Return the CPU time of server, generator and probe in the measured part, in a duet of both trials; None unless
    all are known: nobody counts that of standbys and of the load on them.
    """
    if sample.trial.replication or any(each.succeeded for each in sample.trial.background) or sample.hosts:
        return None
    if sample.trial.duet is None:
        own = _own_us(subject, sample)
        # the other groups of clients have generators of their own
        return None if own is None else own + sum(_engine_us(subject, number) for number in sample.trial.beside)
    partner = next((each for each in subject.samples if each.number == sample.trial.duet.partner), None)
    both = [_own_us(subject, each) for each in (sample, partner) if each is not None]
    known = [each for each in both if each is not None]
    return sum(known) if len(known) == 2 else None


def _own_us(subject: Subject, sample: Sample) -> float | None:
    amounts = subject.amounts.get(sample.number, {})
    server, probe = amounts.get(("processes", "cpu")), amounts.get(("probe", "cpu"))
    used_us = _engine_us(subject, sample.number) + amounts.get(("pooler", "cpu"), 0.0)
    is_measured = subject.seconds(sample.number).is_measured.any()
    return (
        None if server is None or probe is None or not is_measured or math.isnan(used_us) else server + probe + used_us
    )


def _engine_us(subject: Subject, trial: int) -> float:
    seconds = subject.seconds(trial)
    return float(seconds.worker_cpu_us[seconds.is_measured].sum())


RULE = Rule(
    "other-load",
    "CPU time of the server's host in the measured part: caution if processes other than server, generator and "
    "probe used over 5 % of it (on an idle host of 2 cores, 0.5 to 2.1 %), if the hypervisor took over 2 %, or if "
    "the medians of two arms, both together, are 3 points apart",
    Severity.CAUTION,
    "docs/reference/probe.md, cpu",
    _check,
    place=110,
    topic="other load",
)
