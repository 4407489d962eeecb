"""Reports that the generator, not the server, was at its limit."""

from collections.abc import Iterator

from pgdyno.audit.finding import MissingError, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message
from pgdyno.records import GeneratorHost

CEILING, NEAR = 0.9, 0.7
"""Share of a core that a worker uses; above 70 % it is near its ceiling (docs/reference/events.md)."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    shares = [(sample, share) for sample in subject.samples if (share := _share(subject, sample)) is not None]
    if not shares:
        raise MissingError(Message("no-generator-load", "the generator's CPU usage is unknown"))
    for severity, low, high in ((Severity.INVALID, CEILING, 99.0), (Severity.CAUTION, NEAR, CEILING)):
        busy = [(sample, share) for sample, share in shares if low < share <= high]
        if busy:
            most = max(share for _, share in busy)
            named = dict.fromkeys(host.called for sample, _ in busy for host in _hosts(sample, low))
            yield RuleFinding(
                severity,
                Message(
                    "generator-limited",
                    "a worker of {generators} uses up to {share:.0%} of a core in {trials} trial: its figures may be "
                    "limited by the generator"
                    if named
                    else (
                        "the generator's busiest worker uses up to {share:.0%} of a core in {trials} trial: its "
                        "figures may be limited by the generator"
                    ),
                    "a worker of {generators} uses up to {share:.0%} of a core in {trials} trials: the figures may "
                    "be limited by the generator"
                    if named
                    else (
                        "the generator's busiest worker uses up to {share:.0%} of a core in {trials} trials: the "
                        "figures may be limited by the generator"
                    ),
                    generators=", ".join(named),
                    share=most,
                    trials=len(busy),
                ),
                *evidence_of(
                    {sample: {"worker_cpu_share": round(share, 3), **_figures(sample, low)} for sample, share in busy}
                ),
                "give it more workers or cores, or another host",
            )


def _share(subject: Subject, sample: Sample) -> float | None:
    """Return the share of a core that the busiest worker used in the measured part; of all generators, if several."""
    generator = sample.trial.generator
    if generator is None:
        return None
    of_hosts = [host.busiest_cpu_share for host in generator.hosts if host.busiest_cpu_share is not None]
    return max(of_hosts or subject.cpu_shares(sample.number), default=None)


def _hosts(sample: Sample, over: float) -> list[GeneratorHost]:
    return [host for host in sample.hosts if (host.busiest_cpu_share or 0) > over]


def _figures(sample: Sample, over: float) -> dict[str, float]:
    return {host.name: round(host.busiest_cpu_share or 0, 3) for host in _hosts(sample, over)}


RULE = Rule(
    "generator-limited",
    "CPU time of the generator's busiest worker: caution over 70 % of a core, invalid over 90 %",
    Severity.INVALID,
    "docs/design/performance.md",
    _check,
    place=60,
)
