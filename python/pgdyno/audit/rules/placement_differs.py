"""Reports compared targets at different places: machine, network path, storage."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.rules.generator_on_server import HERE
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message
from pgdyno.records import TargetRecord

_HOST = re.compile(
    r"(?:^|[\s?&])host(?:addr)?\s*=\s*'?(?P<keyword>[^\s'&]+)"
    r"|://(?:[^@/]*@)?(?:\[(?P<ipv6>[^\]]+)\]|(?P<uri>[^\[:/?,]+))"
)
_LOADS = "the load's zone"
"""The machine of a target on which the load runs, too."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if subject.imported:
        raise MissingError(Message("no-placement", "the locations of the servers and the load are unknown"))
    measured = [target for target in subject.manifest.targets if target.name in subject.by_target]
    places = {target.name: _place(subject, target) for target in measured}
    for what, advice in _ADVICE.items():
        found = {name: place[what] for name, place in places.items() if what in place}
        if len(set(found.values())) > 1:
            where = "; ".join(f"{name}: {value}" for name, value in found.items())
            yield RuleFinding(
                Severity.CAUTION,
                Message(
                    "placement-differs",
                    "targets differ in {what}, which is part of every difference between them: {where}",
                    what=what,
                    where=where,
                ),
                (),
                [Evidence(at="manifest", figures={"target": name, what: value}) for name, value in found.items()],
                advice,
            )
    yield from _across_zones(subject)


def _across_zones(subject: Subject) -> Iterator[RuleFinding]:
    for target, samples in subject.by_target.items():
        apart = [(sample.number, each) for sample in samples if (each := _find_elsewhere(sample)) is not None]
        if apart:
            _, first = apart[0]
            yield RuleFinding(
                Severity.CAUTION,
                Message(
                    "placement-differs-zone",
                    "the load on {target} came from {load}, and the server is in {server}: a round trip of "
                    "{round_trip_ms:.3g} ms",
                    target=target,
                    load=first.load,
                    server=first.server,
                    round_trip_ms=first.trip_us / 1e3,
                ),
                [number for number, _ in apart],
                [
                    Evidence(at=f"trial {number}", figures={"load": each.load, "server": each.server})
                    for number, each in apart
                ],
                "place the load in the server's zone, or the server in the load's: zones = [...]",
            )


@dataclass(frozen=True, slots=True)
class _Apart:
    load: str
    server: str
    trip_us: float


def _find_elsewhere(sample: Sample) -> _Apart | None:
    path = sample.trial.network_path
    if path is None or path.server_zone is None:
        return None
    there = [
        _Apart(f"{each.zone} ({each.called})", path.server_zone, each.round_trip_us or path.least_us)
        for each in sample.hosts
        if each.zone not in (None, path.server_zone)
    ]
    if there:
        return max(there, key=lambda each: each.trip_us)
    if path.generator_zone in (None, path.server_zone):
        return None
    return _Apart(str(path.generator_zone), path.server_zone, path.least_us)


_ADVICE: Mapping[str, str] = {
    "machine": "measure both from one host with the same round-trip time to each",
    "availability zone": "place all servers in one zone, the load's: zones = [...]",
    "connection": 'use the same connection for both: connect = "unix" or "tcp"',
    "storage of data": "place the data of both on the same storage, one after the other",
    "storage of WAL": "place the WAL of both on the same storage, one after the other",
}
"""What is compared, and the advice if it differs."""


def _place(subject: Subject, target: TargetRecord) -> dict[str, str]:
    paths = [each.trial.network_path for each in subject.by_target[target.name]]
    zones = {path.server_zone for path in paths if path is not None}
    if zones - {None}:
        # each rented server has its own machine; what counts is the distance between load and server
        return {"availability zone": ", ".join(sorted(each for each in zones if each))}
    if target.kind not in HERE:
        return _by_address(str(target.asked.get("dsn", "")))
    place = {"machine": _LOADS, "connection": str(target.asked.get("connect", "unix"))}
    fingerprint = subject.manifest.fingerprint
    disks = fingerprint.host.disks if fingerprint is not None else {}
    asked = target.asked.get("environment") or {}
    for what, role, key in (("data", f"data of {target.name}", "data"), ("WAL", f"WAL of {target.name}", "wal")):
        on = disks.get(role) or disks.get(f"data and WAL of {target.name}") or disks.get("servers of pgdyno")
        if on is not None or asked.get(key) is not None:
            place[f"storage of {what}"] = on or str(asked[key])
    return place


def _by_address(dsn: str) -> dict[str, str]:
    # a run without such a target needs no parsers of documents
    from pgdyno.importers.documents.command_lines import is_local

    match = _HOST.search(dsn)
    if match is None or match.lastgroup is None:
        return {"machine": "where libpq finds it"}
    host = unquote(match[match.lastgroup])
    if not is_local(host):
        return {"machine": host}
    return {"machine": _LOADS, "connection": "unix" if host.startswith(("/", "@")) else "tcp"}


RULE = Rule(
    "placement-differs",
    "the machine of each compared target, its connection (socket or TCP), and the storage of its data and WAL; for "
    "rented targets the availability zone, also compared with that of the load",
    Severity.CAUTION,
    "docs/design/method.md, Gates",
    _check,
    place=120,
    topic="placement",
)
