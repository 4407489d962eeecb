"""Reports clients that waited for a session of the connection pooler while the server had room."""

from collections.abc import Iterator

from pgdyno.audit.finding import MissingError, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.rules.other_load import host_loads
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message
from pgdyno.records.probe import PoolerRecord

BUSY = 0.85
"""Share of the host's CPU time from which on more sessions would not help."""
_CPU = [("cpu", name) for name in ("user", "system", "irq", "guest")]


def _check(subject: Subject) -> Iterator[RuleFinding]:
    pooled = [(sample, record) for sample in subject.samples if (record := _record(sample)) is not None]
    if not pooled:
        raise MissingError(Message("no-pooler", "no samples of a connection pooler"))
    shares = subject.run.shares_within(subject.measured, _CPU)
    others = host_loads(subject)
    limited = []
    for sample, record in pooled:
        _, of_cpu = shares.get((sample.number, 0), (0.0, {}))
        busy = sum(of_cpu.values()) if of_cpu else None
        if busy is not None and sample in others:
            # processes of others leave less for more sessions, but do not make the server full
            busy -= others[sample].others or 0.0
        if record.is_exhausted and (busy is None or busy < BUSY):
            limited.append((sample, record, busy))
    for pool in dict.fromkeys(record.pool for _, record, _ in limited):
        found = [each for each in limited if each[1].pool == pool]
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "pool-limited",
                "limited by the pool of {pool}: up to {waiting:.0f} clients waited for a session in {trials} trial, "
                "while the server had room",
                "limited by the pool of {pool}: up to {waiting:.0f} clients waited for a session in {trials} trials, "
                "while the server had room",
                pool=pool or 0,
                waiting=max(record.clients_waiting or 0 for _, record, _ in found),
                trials=len(found),
            ),
            *evidence_of({sample: _figures(record, busy) for sample, record, busy in found}),
            "raise the pooler's size of the pool, unless it is what is measured",
        )


def _record(sample: Sample) -> PoolerRecord | None:
    probe = sample.trial.probe
    return None if probe is None or probe.pooler is None or not probe.pooler.samples else probe.pooler


def _figures(record: PoolerRecord, busy: float | None) -> dict[str, float | str]:
    names = ("clients_waiting", "longest_wait_ms", "servers_active", "servers_idle", "queue_ms", "server_ms")
    known = {name: value for name in names if (value := getattr(record, name)) is not None}
    return known if busy is None else known | {"host_busy": round(busy, 3)}


RULE = Rule(
    "pool-limited",
    "clients behind a connection pooler: caution if at least one waited on average, all sessions of the pool were in "
    "use, and the server's host was less than 85 % busy with this load",
    Severity.CAUTION,
    "https://www.pgbouncer.org/usage.html, SHOW POOLS",
    _check,
    place=65,
)
