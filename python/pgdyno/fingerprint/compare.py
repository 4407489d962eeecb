"""Whether two runs can be compared: every difference of their fingerprints, and how much it weighs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from pgdyno.records import Fingerprint, ServerPrint

MEMORY_TOLERANCE = 0.01
"""A kernel takes a little memory for itself, another little with every version."""


class Severity(StrEnum):
    """What a difference does to a comparison, the heaviest first."""

    REFUSED = "refused"
    """Figures measure something else: there is nothing to compare."""
    CONFOUNDER = "confounder"
    """It can be the whole difference between the figures, unless it is what is compared."""
    CAUTION = "caution"
    """It can move figures, seldom by much more than noise; or it is not known to be alike."""
    HARMLESS = "harmless"
    """It is as it should be between two runs, or moves nothing."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which two fingerprints differ."""

    field: str
    """`host.cpu_model`, `servers.pg18.settings_changed.shared_buffers`."""
    a: str | None
    """Its value in the first; None: it has none."""
    b: str | None
    severity: Severity
    why: str


RULES: tuple[tuple[str, Severity, str], ...] = (
    ("host.architecture", Severity.CONFOUNDER, "another architecture"),
    ("host.cpu_model", Severity.CONFOUNDER, "another processor"),
    ("host.cores", Severity.CONFOUNDER, "another number of processors"),
    ("host.threads_per_core", Severity.CONFOUNDER, "processors share cores in one of them"),
    ("host.cpu_limit", Severity.CONFOUNDER, "another limit of processor time"),
    ("host.memory_bytes", Severity.CONFOUNDER, "another size of memory"),
    ("host.memory_limit_bytes", Severity.CONFOUNDER, "another limit of memory"),
    ("host.virtualisation", Severity.CONFOUNDER, "another hypervisor, or none"),
    ("host.disks", Severity.CONFOUNDER, "other storage, or other options of it"),
    ("host.numa_nodes", Severity.CONFOUNDER, "memory is spread differently"),
    ("host.kernel", Severity.CONFOUNDER, "another kernel"),
    ("host.os", Severity.HARMLESS, "another release of the system; the kernel counts by itself"),
    ("host.boot", Severity.CONFOUNDER, "the kernel was booted differently"),
    ("host.tuning", Severity.CONFOUNDER, "the kernel is tuned differently"),
    ("pgdyno", Severity.HARMLESS, "another version of the laboratory"),
    ("pgdrive", Severity.CAUTION, "another version of the generator"),
    ("generator", Severity.CONFOUNDER, "the load comes from somewhere else"),
    ("seed", Severity.HARMLESS, "other random values, of the same distribution"),
    ("workload", Severity.REFUSED, "another workload"),
    ("reset", Severity.REFUSED, "trials begin in another state"),
    ("servers.*.version", Severity.CAUTION, "another version of the server"),
    ("servers.*.version_full", Severity.CAUTION, "another build of the server"),
    ("servers.*.configure", Severity.CAUTION, "the server was built differently"),
    ("servers.*.data_checksums", Severity.CONFOUNDER, "pages carry checksums in one of them"),
    ("servers.*.dataset_marks", Severity.REFUSED, "another dataset"),
    (
        "servers.*.loaded_without_wal",
        Severity.HARMLESS,
        "loaded another way; rows, statistics and visibility are alike",
    ),
    ("servers.*.settings_changed", Severity.CAUTION, "another setting of the server"),
    ("servers", Severity.HARMLESS, "only one of the runs has this target"),
)
"""By the beginning of a field's name, where `*` stands for a target; the longest that fits counts."""

HEAVY_SETTINGS = frozenset(
    [
        "fsync",
        "synchronous_commit",
        "wal_sync_method",
        "full_page_writes",
        "wal_level",
        "shared_buffers",
        "huge_pages",
        "max_wal_size",
        "checkpoint_timeout",
        "autovacuum",
        "synchronous_standby_names",
        "shared_preload_libraries",
        "io_method",
        "jit",
    ]
)
"""Settings that decide what a commit waits for, what is cached, and what runs beside the load."""


TOPICS = {
    "host.architecture": "processor",
    "host.boot": "kernel",
    "host.cores": "processor",
    "host.cpu_limit": "processor",
    "host.cpu_model": "processor",
    "host.disks": "storage",
    "host.kernel": "kernel",
    "host.memory_bytes": "memory",
    "host.memory_limit_bytes": "memory",
    "host.numa_nodes": "processor",
    "host.threads_per_core": "processor",
    "host.tuning": "kernel",
    "host.virtualisation": "hypervisor",
    "generator": "placement",
    "workload.scale": "scale",
    "workload.warehouses": "scale",
    "servers.*.configure": "version",
    "servers.*.data_checksums": "data checksums",
    "servers.*.dataset_marks": "dataset",
    "servers.*.version": "version",
    "servers.*.version_full": "version",
    "trial.duration": "trial length",
    "way": "processor",
}


def topic_of(field: str) -> str:
    """What a field is about, in a word or two: `processor`, `storage`, the name of a setting or of a variable."""
    parts = field.split(".")
    if parts[0] == "servers" and len(parts) > 2:
        if parts[2] == "settings_changed":
            return ".".join(parts[3:])
        parts[1] = "*"
    if parts[0] == "workload" and parts[1:2] == ["variables"]:
        return ".".join(parts[1:])
    if parts[0] == "settings":
        return ".".join(parts[1:])
    if parts[0] == "variables":
        return field
    general = ".".join(parts)
    return next((topic for name, topic in TOPICS.items() if f"{general}.".startswith(f"{name}.")), parts[0])


def comparable(a: Fingerprint, b: Fingerprint) -> list[Difference]:
    """How `a` and `b` differ, the heaviest first; empty when nothing does.

    Two runs can be compared when no difference is refused; a confounder that is the very thing compared, such as
    a setting or the processor, is for the caller to leave out. Targets are matched by name, and two runs of one
    target each by that. What one of the two does not tell is a caution: unknown is not alike, and not different.
    """
    mine, other = _matched(a, b)
    left, right = _flat(a), _flat(_named_as(b, other))
    left |= _servers(mine)
    right |= _servers(other)
    found = [_weighed(each, a, b) for each in _differences(left, right)]
    if a.servers and b.servers and not mine.keys() & other.keys():
        names = (", ".join(a.servers), ", ".join(b.servers))
        found.append(Difference("servers", *names, Severity.REFUSED, "the runs have no target in common"))
    order = list(Severity)
    return sorted(found, key=lambda each: (order.index(each.severity), each.field))


def _matched(a: Fingerprint, b: Fingerprint) -> tuple[Mapping[str, ServerPrint], Mapping[str, ServerPrint]]:
    """The servers of both by a name that they share."""
    if len(a.servers) == len(b.servers) == 1:
        (name,), (server,) = a.servers, b.servers.values()
        return a.servers, {name: server}
    return a.servers, b.servers


def _named_as(of: Fingerprint, servers: Mapping[str, ServerPrint]) -> Fingerprint:
    """`of` with the disks of its only target under the name that it is matched by."""
    if len(of.servers) != 1 or len(servers) != 1:
        return of
    (own,), (name,) = of.servers, servers
    disks = {
        f"{role.removesuffix(own)}{name}" if role.endswith(f" of {own}") else role: disk
        for role, disk in of.host.disks.items()
    }
    return of.model_copy(update={"host": of.host.model_copy(update={"disks": disks})})


MAY_BE_UNKNOWN = frozenset(["numa_nodes", "threads_per_core", "virtualisation", "tuning", "disks"])
"""Fields of a host that are absent where they could not be told; limits and boot parameters are absent where none is
set."""
ABSENT_IS_NONE = frozenset(["variables", "files", "options", "replica_load"])
"""Of a workload: not given, and so known. Other fields are absent in fingerprints of versions that knew none."""


def _weighed(difference: Difference, a: Fingerprint, b: Fingerprint) -> Difference:
    """`difference`, lighter where it is only that one of the two does not tell, or that one has more datasets."""
    parts = difference.field.split(".")
    if parts[0] == "servers" and parts[-1] == "dataset_marks":
        marks = [set(each.split(", ")) - {"unmarked"} if each else set() for each in (difference.a, difference.b)]
        if not marks[0] or not marks[1]:
            return replace(difference, severity=Severity.CAUTION, why=UNKNOWN)
        # points of a scale that only one has are not compared
        return replace(difference, severity=Severity.HARMLESS) if marks[0] & marks[1] else difference
    if difference.a is not None and difference.b is not None:
        return difference
    unknown = parts[0] == "host" and parts[1] in MAY_BE_UNKNOWN
    if parts[0] in ("workload", "reset") and parts[1] not in ABSENT_IS_NONE:
        unknown = any(parts[1] not in getattr(each, parts[0]) for each in (a, b))
    unknown = unknown or parts[-1] == "configure"
    return replace(difference, severity=Severity.CAUTION, why=UNKNOWN) if unknown else difference


UNKNOWN = "not known of one of them"


def _flat(of: Fingerprint) -> dict[str, str]:
    return dict(_fields("", of.model_dump(mode="json", exclude={"servers"})))


def _servers(servers: Mapping[str, ServerPrint]) -> dict[str, str]:
    return dict(_fields("servers.", {name: each.model_dump(mode="json") for name, each in servers.items()}))


def _fields(prefix: str, values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Every value by its full name; what is None is absent."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _fields(f"{prefix}{name}.", value)
        elif value is not None:
            # datasets are loaded in the order of the trials, which says nothing of them
            listed = sorted(value) if name == "dataset_marks" and isinstance(value, list) else value
            text = ", ".join(map(str, listed)) if isinstance(listed, list) else str(listed)
            yield f"{prefix}{name}", text


def _differences(left: Mapping[str, str], right: Mapping[str, str]) -> Iterator[Difference]:
    shared = {_server_of(field) for field in left} & {_server_of(field) for field in right}
    for field in sorted(left.keys() | right.keys()):
        a, b = left.get(field), right.get(field)
        server = _server_of(field)
        if a == b or (field == "host.memory_bytes" and _alike(a, b)):
            continue
        if server is not None and server not in shared:
            # one line for a target that only one has, not one for each of its fields
            if field.endswith(".version"):
                yield Difference(f"servers.{server}", a, b, *_rule("servers"))
            continue
        yield Difference(field, a, b, *_rule(field))


def _server_of(field: str) -> str | None:
    parts = field.split(".")
    return parts[1] if parts[0] == "servers" and len(parts) > 1 else None


def _alike(a: str | None, b: str | None) -> bool:
    return a is not None and b is not None and abs(int(a) - int(b)) <= MEMORY_TOLERANCE * max(int(a), int(b))


def _rule(field: str) -> tuple[Severity, str]:
    parts = field.split(".")
    if parts[0] == "servers" and len(parts) > 2:
        parts[1] = "*"
    if parts[2:3] == ["settings_changed"] and parts[-1] in HEAVY_SETTINGS:
        return Severity.CONFOUNDER, "a setting that decides what a commit waits for, or what is cached"
    general = ".".join(parts)
    fitting = [rule for rule in RULES if general == rule[0] or general.startswith(f"{rule[0]}.")]
    if not fitting:
        return Severity.CAUTION, "what it does is not known to this version of pgdyno"
    _, severity, why = max(fitting, key=lambda rule: len(rule[0]))
    return severity, why
