"""Whether two runs can be compared: the fingerprint of a stored run, and every difference with its weight."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from enum import StrEnum

from pgdyno.messages import Message
from pgdyno.records import Fingerprint, HostPrint, Manifest, ServerPrint
from pgdyno.records.tpcc_profile import unused_item
from pgdyno.registry import kinds_that_are

MEMORY_TOLERANCE = 0.01
"""A kernel reserves a little memory, and each version another amount."""


class Weight(StrEnum):
    """The effect of a difference on a comparison, most severe first."""

    REFUSED = "refused"
    """The figures measure different things: there is nothing to compare."""
    CONFOUNDER = "confounder"
    """It may cause the whole difference between the figures, unless it is what is compared."""
    CAUTION = "caution"
    """It may change figures, seldom by much more than noise; or equality is unknown."""
    HARMLESS = "harmless"
    """It is expected between two runs, or changes nothing."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which two fingerprints differ."""

    field: str
    """`host.cpu_model`, `servers.pg18.settings_changed.shared_buffers`."""
    a: str | None
    """The value in the first; None if absent."""
    b: str | None
    severity: Weight
    why: Message

    @property
    def of_file(self) -> Message | None:
        """Return the difference in words if the values are checksums of a file, which tell a reader nothing."""
        for prefix in ("workload.files.", "workload.modules."):
            if self.field.startswith(prefix) and self.why != UNKNOWN:
                file = self.field.removeprefix(prefix)
                if None in (self.a, self.b):
                    return Message("file-in-one", "only one of the runs has {file}", file=file)
                return Message("other-text", "{file} has another text", file=file)
        return None


RULES: tuple[tuple[str, Weight, Message], ...] = (
    ("host.architecture", Weight.CONFOUNDER, Message("other-architecture", "different architectures")),
    ("host.cpu_model", Weight.CONFOUNDER, Message("other-processor", "different processors")),
    ("host.cores", Weight.CONFOUNDER, Message("other-processors", "different numbers of processors")),
    ("host.threads_per_core", Weight.CONFOUNDER, Message("cores-shared", "processors share cores on one of the hosts")),
    ("host.cpu_limit", Weight.CONFOUNDER, Message("other-processor-limit", "different limits of CPU time")),
    ("host.memory_bytes", Weight.CONFOUNDER, Message("other-memory", "different sizes of memory")),
    ("host.memory_limit_bytes", Weight.CONFOUNDER, Message("other-memory-limit", "different limits of memory")),
    (
        "host.virtualisation",
        Weight.CONFOUNDER,
        Message("other-hypervisor", "different hypervisors, or none on one of the hosts"),
    ),
    ("host.disks", Weight.CONFOUNDER, Message("other-storage", "different storage or mount options")),
    ("host.numa_nodes", Weight.CONFOUNDER, Message("other-numa", "different NUMA layouts")),
    ("host.kernel", Weight.CONFOUNDER, Message("other-kernel", "different kernels")),
    (
        "host.os",
        Weight.HARMLESS,
        Message("other-system", "different releases of the operating system; the kernel counts separately"),
    ),
    ("host.boot", Weight.CONFOUNDER, Message("other-boot", "different boot parameters of the kernel")),
    ("host.tuning", Weight.CONFOUNDER, Message("other-tuning", "different kernel settings")),
    ("pgdyno", Weight.CAUTION, Message("other-pgdyno", "different versions of pgdyno")),
    ("pgdrive", Weight.CAUTION, Message("other-pgdrive", "different versions of pgdrive")),
    ("generator", Weight.CONFOUNDER, Message("other-generator", "different locations of the load generator")),
    ("seed", Weight.HARMLESS, Message("other-seed", "different random values of the same distribution")),
    ("workload", Weight.REFUSED, Message("other-workload", "different workloads")),
    (
        "workload.profile",
        Weight.REFUSED,
        Message(
            "other-profile",
            "different TPC-C profiles, with which the server does different work; in earlier runs, hammerdb means "
            "hammerdb-6.1",
        ),
    ),
    ("workload.capture", Weight.REFUSED, Message("other-capture", "replays of different captures")),
    ("workload.pace", Weight.REFUSED, Message("other-pace", "replays at different paces")),
    ("reset", Weight.REFUSED, Message("other-reset", "trials start from different states")),
    ("servers.*.version", Weight.CAUTION, Message("other-version", "different server versions")),
    ("servers.*.version_full", Weight.CAUTION, Message("other-build", "different server builds")),
    ("servers.*.configure", Weight.CAUTION, Message("other-configure", "different build options of the server")),
    (
        "servers.*.data_checksums",
        Weight.CONFOUNDER,
        Message("checksums-in-one", "data checksums on one of the servers only"),
    ),
    ("servers.*.collation", Weight.CONFOUNDER, Message("other-collation", "different collations of the database")),
    ("servers.*.identity", Weight.CONFOUNDER, Message("other-server", "another server, database or role")),
    ("servers.*.identity.state", Weight.CONFOUNDER, Message("standby-in-one", "one of them is a standby")),
    ("servers.*.identity.tls", Weight.CONFOUNDER, Message("tls-in-one", "TLS for one of them only")),
    ("servers.*.dataset_marks", Weight.REFUSED, Message("other-dataset", "different datasets")),
    (
        "servers.*.loaded_without_wal",
        Weight.HARMLESS,
        Message("other-load", "different ways of loading; rows, statistics and visibility are the same"),
    ),
    (
        "servers.*.built",
        Weight.CONFOUNDER,
        Message("other-sources", "other sources, patches or extensions of the server"),
    ),
    ("servers.*.pooler", Weight.CONFOUNDER, Message("other-pooler", "different connection poolers, or none for one")),
    ("servers.*.indexes", Weight.CONFOUNDER, Message("other-indexes", "different indexes")),
    ("servers.*.settings_changed", Weight.CAUTION, Message("other-setting", "different server settings")),
    ("servers", Weight.HARMLESS, Message("target-in-one", "only one of the runs has this target")),
)
"""By prefix of a field's name, in which `*` stands for a target; the longest match counts."""

HEAVY_SETTINGS = frozenset([
    "fsync", "synchronous_commit", "wal_sync_method", "full_page_writes", "wal_level", "shared_buffers",
    "huge_pages", "max_wal_size", "checkpoint_timeout", "autovacuum", "synchronous_standby_names",
    "shared_preload_libraries", "io_method", "jit",
])  # fmt: skip
"""Settings that affect commits, caching, I/O, JIT compilation or background processes."""


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
    "latency": "latency definition",
    "skipped": "skipped transactions",
    "workload.capture": "capture",
    "workload.files": "scripts",
    "workload.modules": "scripts",
    "workload.pace": "pace",
    "workload.scale": "scale",
    "workload.scripts": "scripts",
    "workload.warehouses": "scale",
    "servers.*.built": "version",
    "servers.*.pooler": "pooler",
    "servers.*.configure": "version",
    "servers.*.collation": "collation",
    "servers.*.data_checksums": "data checksums",
    "servers.*.dataset_marks": "dataset",
    "servers.*.identity.state": "standby",
    "servers.*.identity.tls": "TLS",
    "servers.*.identity": "server",
    "servers.*.indexes": "indexes",
    "servers.*.version": "version",
    "servers.*.version_full": "version",
    "trial.duration": "trial length",
    "trial.ledger": "commit ledger",
    "trial.transactions": "trial length",
    "trial.warmup": "warm-up",
    "network_path": "processor",
}


def topic_of(field: str) -> str:
    """Return the topic of a field in a word or two: `processor`, `storage`, the name of a setting or of a variable."""
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
    """Return the differences between `a` and `b`, most severe first; empty if there are none.

    Two runs can be compared if no difference is refused; the caller leaves out a confounder that is what is compared,
    such as a setting or the processor. Targets are matched by name, or with each other if both runs have one target.
    What one of the two does not report is a caution: unknown means neither equal nor different.
    """
    mine, other = _match_servers(a, b)
    left, right = _flatten(a), _flatten(_named_as(b, other))
    listed = {name for name in mine.keys() & other.keys() if None not in (mine[name].indexes, other[name].indexes)}
    left |= _servers(mine, listed)
    right |= _servers(other, listed)
    found = [_weigh_difference(each, a, b) for each in _differences(left, right)]
    if a.servers and b.servers and not mine.keys() & other.keys():
        names = (", ".join(a.servers), ", ".join(b.servers))
        found.append(Difference("servers", *names, Weight.REFUSED, NO_COMMON_TARGET))
    order = list(Weight)
    # that a server is another one explains the other differences
    return sorted(found, key=lambda each: (order.index(each.severity), topic_of(each.field) != "server", each.field))


def _match_servers(a: Fingerprint, b: Fingerprint) -> tuple[Mapping[str, ServerPrint], Mapping[str, ServerPrint]]:
    if len(a.servers) == len(b.servers) == 1:
        (name,), (server,) = a.servers, b.servers.values()
        return a.servers, {name: server}
    return a.servers, b.servers


def _named_as(of: Fingerprint, servers: Mapping[str, ServerPrint]) -> Fingerprint:
    if len(of.servers) != 1 or len(servers) != 1:
        return of
    (own,), (name,) = of.servers, servers
    disks = {
        f"{role.removesuffix(own)}{name}" if role.endswith(f" of {own}") else role: disk
        for role, disk in of.host.disks.items()
    }
    return of.model_copy(update={"host": of.host.model_copy(update={"disks": disks})})


MAY_BE_UNKNOWN = frozenset(["numa_nodes", "threads_per_core", "virtualisation", "tuning", "disks"])
"""Fields of a host that may be absent because they are unknown; limits and boot parameters if none is set."""
ABSENT_IS_NONE = frozenset(["capture", "group", "options", "pace", "step", "variables"])
"""Fields of a workload whose absence means that they are not set; others are absent in older fingerprints."""


def _weigh_difference(difference: Difference, a: Fingerprint, b: Fingerprint) -> Difference:
    parts = difference.field.split(".")
    if parts[0] == "servers" and parts[-1] == "dataset_marks":
        marks = [set(each.split(", ")) - {"unmarked"} if each else set() for each in (difference.a, difference.b)]
        if not marks[0] or not marks[1]:
            return replace(difference, severity=Weight.CAUTION, why=UNKNOWN)
        # points of a scale that only one has are not compared
        return replace(difference, severity=Weight.HARMLESS) if marks[0] & marks[1] else difference
    if difference.field == "workload.profile" and _do_the_same_work(a.workload, b.workload):
        return replace(difference, severity=Weight.HARMLESS)
    # what `print_of` returns for a run without a fingerprint: its record has neither this nor limits of the machine
    is_partial = not (a.generator and b.generator)
    if difference.field == "generator" and is_partial:
        return replace(difference, severity=Weight.CAUTION, why=UNKNOWN)
    if difference.a is not None and difference.b is not None:
        return difference
    unknown = parts[0] == "host" and (is_partial or parts[1] in MAY_BE_UNKNOWN)
    if parts[0] in ("workload", "reset") and parts[1] not in ABSENT_IS_NONE:
        unknown = any(parts[1] not in getattr(each, parts[0]) for each in (a, b))
    unknown = unknown or parts[-1] in ("configure", "collation") or "identity" in parts[2:3]
    return replace(difference, severity=Weight.CAUTION, why=UNKNOWN) if unknown else difference


def _do_the_same_work(*workloads: Mapping[str, object]) -> bool:
    profiles = [(str(each.get("profile")), str(each.get("variant"))) for each in workloads]
    of_hammerdb = all(profile.startswith("hammerdb") for profile, _ in profiles)
    return of_hammerdb and len({unused_item(*each) for each in profiles}) == 1


UNKNOWN = Message("unknown-of-one", "unknown for one of them")
NO_COMMON_TARGET = Message("no-common-target", "the runs have no target in common")


_ON_STANDBYS = {"on": "standby", "background": True, "arrivals": "poisson", "begin": 0.0}


def _flatten(of: Fingerprint) -> dict[str, str]:
    values = of.model_dump(mode="json", exclude={"servers"})
    # so earlier versions had what is now a group
    if (load := values["workload"].pop("replica_load", None)) is not None:
        values["workload"]["group"] = {"standbys": load | _ON_STANDBYS}
    return dict(_fields("", values))


def _servers(servers: Mapping[str, ServerPrint], with_indexes: Set[str]) -> dict[str, str]:
    values = {
        name: each.model_dump(mode="json", exclude=set() if name in with_indexes else {"indexes"})
        for name, each in servers.items()
    }
    return dict(_fields("servers.", values))


def _fields(prefix: str, values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Return every value by its full name; None values are absent."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _fields(f"{prefix}{name}.", value)
        elif value is not None:
            # datasets are loaded in the order of the trials, which does not matter
            listed = sorted(value) if name == "dataset_marks" and isinstance(value, list) else value
            text = ", ".join(map(str, listed)) if isinstance(listed, list) else str(listed)
            yield f"{prefix}{name}", text


def _differences(left: Mapping[str, str], right: Mapping[str, str]) -> Iterator[Difference]:
    shared = {_server_of(field) for field in left} & {_server_of(field) for field in right}
    for field in sorted(left.keys() | right.keys()):
        a, b = left.get(field), right.get(field)
        server = _server_of(field)
        if a == b or (field == "host.memory_bytes" and _are_alike(a, b)):
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


def _are_alike(a: str | None, b: str | None) -> bool:
    return a is not None and b is not None and abs(int(a) - int(b)) <= MEMORY_TOLERANCE * max(int(a), int(b))


def _rule(field: str) -> tuple[Weight, Message]:
    parts = field.split(".")
    if parts[0] == "servers" and len(parts) > 2:
        parts[1] = "*"
    if parts[2:3] == ["settings_changed"] and parts[-1] in HEAVY_SETTINGS:
        return Weight.CONFOUNDER, Message(
            "heavy-setting", "a setting that affects commits, caching, I/O, JIT compilation or background processes"
        )
    general = ".".join(parts)
    fitting = [rule for rule in RULES if general == rule[0] or general.startswith(f"{rule[0]}.")]
    if not fitting:
        return Weight.CAUTION, Message("unknown-field", "this version of pgdyno does not know this field")
    _, severity, why = max(fitting, key=lambda rule: len(rule[0]))
    return severity, why


def print_of(manifest: Manifest) -> Fingerprint | None:
    """Return the fingerprint; for a run of an earlier version, from its manifest. None for an imported run."""
    if manifest.fingerprint is not None:
        return manifest.fingerprint
    if manifest.host is None or manifest.imported is not None:
        return None
    servers = {
        target.name: ServerPrint(
            version=target.facts.version,
            version_full=target.facts.version_full,
            settings_changed=target.facts.settings_changed,
            data_checksums=target.facts.data_checksums,
        )
        for target in manifest.targets
        if target.facts is not None
    }
    return Fingerprint(
        host=HostPrint(**manifest.host.model_dump()),
        pgdyno=manifest.pgdyno,
        pgdrive=manifest.pgdrive or "",
        generator="",
        seed=0,
        workload=manifest.plan.get("workload") or {},
        reset=manifest.plan.get("reset") or {},
        servers=servers,
    )


def unknown_of(manifest: Manifest) -> list[str]:
    """Return what matters to a comparison and is not recorded; empty for a run with a fingerprint."""
    if manifest.imported is not None:
        return ["hardware", "settings", "storage", "placement of the load"]
    found = [] if manifest.fingerprint is not None else ["storage", "tuning of the kernel", "limits of the machine"]
    elsewhere = [target.name for target in manifest.targets if target.kind in kinds_that_are("elsewhere")]
    return [*found, *([f"hardware and storage of {', '.join(elsewhere)}"] if elsewhere else [])]


def fingerprint_of(taken: Fingerprint | None) -> str:
    """Return eight hexadecimal digits of what must be equal in any comparison: machine, storage, workload, reset.

    Versions and settings of the server are left out, because these are what runs compare.
    """
    if taken is None:
        return ""
    host = taken.host
    alike = {
        "cpu": (host.architecture, host.cpu_model, host.cores, host.threads_per_core, host.cpu_limit),
        # a kernel reserves a little memory, and each version another amount
        "memory": (round(host.memory_bytes / 2**30), host.memory_limit_bytes, host.virtualisation),
        "disks": sorted(set(host.disks.values())),
        "generator": taken.generator,
        "workload": taken.workload,
        "reset": taken.reset,
    }
    identities = [json.dumps(each.identity, sort_keys=True) for each in taken.servers.values() if each.identity]
    if identities:
        alike["servers"] = identities
    return hashlib.sha256(json.dumps(alike, sort_keys=True, default=str).encode()).hexdigest()[:8]
