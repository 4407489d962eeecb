"""The plan's needs: clients, memory, disk space, and the folders of its files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgdyno.effect import Effect
from pgdyno.mounts import expand_home, is_folder
from pgdyno.plan import LoadedPlan, Plan
from pgdyno.plan.hosts import SshSpec
from pgdyno.plan.optional_sections import SnapshotMethod
from pgdyno.plan.scenario.loads import background_groups
from pgdyno.plan.targets import TMPFS, OwnTarget
from pgdyno.plan.time_budget.budget_reductions import setting_bytes
from pgdyno.plan.time_budget.time_and_disk import BYTES_A_SCALE, dataset_bytes
from pgdyno.plan.workload import effect_of_plan, ends, scripts_that_run
from pgdyno.records import Point
from pgdyno.targets import Home
from pgdyno.targets.cluster.folders import SHARED_MEMORY
from pgdyno.units import parse_bytes

MIB = 1 << 20
CLUSTER_BYTES = 64 * MIB
"""An empty cluster and its first WAL segments."""
DEFAULTS = {"shared_buffers": "128MB", "max_wal_size": "1GB", "huge_pages": "try"}
"""initdb's defaults."""
HUGE_PAGES = ("off", "try", "on")
OFF = frozenset({"off", "false", "no", "0"})


@dataclass(frozen=True, slots=True)
class Place:
    """A local folder that the plan's servers use."""

    path: Path
    """The nearest existing folder."""
    roles: tuple[str, ...]
    """`data of pg18`, `WAL of pg18`."""
    bytes: int = 0
    """The estimated need for disk space; 0 if unknown."""
    wal: bool = True
    """Whether WAL goes to it, so that commits wait for its disk."""
    in_memory: bool = False
    """Whether the plan puts it into memory."""
    limit_bytes: int | None = None
    """The plan's own limit for it; None: no limit."""
    kept: bool = False
    """Whether a kept cluster may already use part of the space."""

    @property
    def title(self) -> str:
        """`/var/lib/x (data and WAL of pg18)`."""
        return f"{self.path} ({'; '.join(self.roles)})" if self.roles else str(self.path)

    @property
    def holds_data(self) -> bool:
        """Whether it contains clusters, not only WAL."""
        return any(role.startswith("data ") for role in self.roles)


@dataclass(frozen=True, slots=True)
class Needs:
    """The plan's needs; sizes are estimates."""

    plan: str = ""
    """The plan's source; empty without a plan."""
    clients: int = 1
    """The largest number of clients of a point."""
    background_clients: int = 0
    """The most clients of a target beside those of a point, in the background of its trials."""
    workers: int | None = None
    """Engine threads of that point; None: the engine decides."""
    protocol: str = "simple"
    tcp: bool = False
    """Whether clients connect over TCP instead of a local socket."""
    scripts: tuple[str, ...] = ()
    """The engine's script options if all scripts are built in; empty otherwise."""
    statements: int = 1
    """The largest number of round trips of a transaction of the built-in scripts."""
    writes: bool = True
    """False if the load is known to only read."""
    durable: bool = True
    """Whether a commit waits for the disk."""
    rate_per_s: float | None = None
    """The highest rate; None in a closed loop."""
    datasets: tuple[int, ...] = ()
    """The size of each scale in bytes, ascending; empty if unknown."""
    servers: int = 0
    """The number of concurrent servers on this host."""
    targets_here: int = 0
    """The number of targets that these servers and standbys belong to."""
    shared_buffers: tuple[int, ...] = ()
    """The largest swept value of one server, in bytes."""
    huge_pages: str = "try"
    """The strictest setting among the servers."""
    places: tuple[Place, ...] = ()
    snapshots: bool = False
    """Whether trials restore a snapshot of the cluster."""
    snapshot_method: SnapshotMethod | None = None
    """The plan's snapshot method; None: the best available."""
    hosts: Mapping[str, SshSpec] = field(default_factory=dict)
    """Hosts to probe over SSH, by target."""

    @property
    def backends(self) -> int:
        """Sessions of all concurrent loads on one target."""
        return self.clients + self.background_clients

    @property
    def sessions(self) -> int:
        """Sessions of all local targets, as if they ran at once. Standbys have only those of their load."""
        return (self.targets_here or self.servers) * self.backends

    @property
    def on_this_host(self) -> bool:
        """Whether a server runs on the generator's host."""
        return self.servers > 0 or not self.plan


STATEMENTS = {"tpcb-like": 7, "simple-update": 5, "select-only": 1}
"""Round trips of the built-in scripts, including BEGIN and END."""


def needs_of_machine(home: Home, clients: int) -> Needs:
    """Return the needs without a plan: the machine, and pgdyno's home."""
    place = Place(nearest_folder(home.root), ("servers of pgdyno",))
    return Needs(clients=clients, protocol="prepared", scripts=("-b", "select-only"), places=(place,))


def needs_of_plan(loaded: LoadedPlan, home: Home) -> Needs:
    plan = loaded.plan
    points = plan.points()
    most = max(points, key=lambda point: point.planned_clients)
    names = scripts_that_run(plan)
    builtin = names <= STATEMENTS.keys()
    started = {name: spec for name, spec in plan.target.items() if isinstance(spec, OwnTarget)}
    # standbys inherit the settings of their primary
    at_points = {name: _at_points(plan, name, points) for name in started}
    largest = {name: _largest(every) for name, every in at_points.items()}
    settings = [largest[name] for name, spec in started.items() for _ in range(_servers(spec))]
    stored = dataset_bytes(plan, max(point.scale or plan.workload.scale for point in points))
    datasets = _datasets(plan, points)
    return Needs(
        plan=loaded.source,
        clients=most.planned_clients,
        background_clients=max(sum(each.connections for each in background_groups(plan, point)) for point in points)
        if not plan.has_group_trials
        else 0,
        workers=most.workers,
        protocol=most.protocol,
        tcp=any(spec.connect == "tcp" for spec in started.values()),
        scripts=tuple(plan.workload.engine_options()) if builtin else (),
        statements=max((STATEMENTS[name] for name in names), default=1) if builtin else 1,
        writes=effect_of_plan(plan, loaded.folder) is not Effect.READS,
        durable=not settings or any(map(_waits_for_disk, at_points.values())),
        rate_per_s=_rate(plan, points),
        datasets=datasets,
        servers=len(settings),
        targets_here=sum(spec.instances for spec in started.values()),
        shared_buffers=tuple(size_of(each, "shared_buffers") for each in settings),
        huge_pages=max((each["huge_pages"] for each in settings), key=HUGE_PAGES.index, default="try"),
        places=_places(started, largest, stored, home),
        snapshots=plan.reset.method == "snapshot",
        snapshot_method=plan.reset.snapshot,
        hosts=_hosts(plan),
    )


def _hosts(plan: Plan) -> dict[str, SshSpec]:
    if not (plan.probe.enabled and plan.probe.host):
        return {}
    hosts = {name: spec.probed_host for name, spec in plan.target.items()}
    return {name: host for name, host in hosts.items() if host is not None}


def size_of(settings: Mapping[str, str], name: str) -> int:
    """Return the bytes of a setting, or of its default if it is not set or not a size."""
    asked = setting_bytes(name, settings.get(name, ""))
    return parse_bytes(DEFAULTS[name]) if asked is None else asked


def nearest_folder(path: Path) -> Path:
    at = path.absolute()
    while not is_folder(at) and at != at.parent:
        at = at.parent
    return at.resolve()


def _servers(spec: OwnTarget) -> int:
    return spec.instances * (1 + spec.follower_count)


def _at_points(plan: Plan, target: str, points: Sequence[Point]) -> list[dict[str, str]]:
    every = []
    for point in points:
        asked = {**plan.server_settings(target, point), **plan.session_settings(target, point)}
        every.append(DEFAULTS | {name.lower(): value for name, value in asked.items()})
    return every


def _largest(every: Sequence[Mapping[str, str]]) -> dict[str, str]:
    found = {
        name: max((each[name] for each in every), key=lambda value: size_of({name: value}, name))
        for name in ("shared_buffers", "max_wal_size")
    }
    return {**found, "huge_pages": max((_huge_pages(each["huge_pages"]) for each in every), key=HUGE_PAGES.index)}


def _huge_pages(text: str) -> str:
    """Return off, try or on; the server also accepts true, yes, 1 and their opposites."""
    text = text.lower()
    return text if text in HUGE_PAGES else "off" if text in OFF else "on"


def _waits_for_disk(every: Sequence[Mapping[str, str]]) -> bool:
    """Tells whether commits wait for the disk at any point."""
    names = ("fsync", "synchronous_commit")
    return any(all(each.get(name, "on").lower() not in OFF for name in names) for each in every)


def _datasets(plan: Plan, points: Sequence[Point]) -> tuple[int, ...]:
    if plan.workload.dataset != "pgbench":
        return ()
    return tuple(sorted({BYTES_A_SCALE * (point.scale or plan.workload.scale) for point in points}))


def _rate(plan: Plan, points: Sequence[Point]) -> float | None:
    rates = [point.rate for point in points if point.rate is not None]
    rates += [max(ends(phase.rate)) for phase in plan.phase if phase.rate is not None]
    return max(rates, default=None)


def _places(
    targets: Mapping[str, OwnTarget], settings: Mapping[str, Mapping[str, str]], stored: int, home: Home
) -> tuple[Place, ...]:
    """Return folders of data and WAL, whose dataset has `stored` bytes; folders on one file system are combined."""
    found: dict[int, Place] = {}
    for name, spec in targets.items():
        data = _servers(spec) * (CLUSTER_BYTES + stored)
        wal = _servers(spec) * size_of(settings[name], "max_wal_size")
        wanted = spec.environment
        in_memory = wanted.data == TMPFS
        limit = parse_bytes(wanted.tmpfs_size) if in_memory and wanted.tmpfs_size else None
        at = _data_folder(spec, home)
        both = Place(at, (f"data and WAL of {name}",), data + wal, True, in_memory, limit, spec.keep_data)
        if wanted.wal is None:
            _add(found, both)
        else:
            _add(found, replace(both, roles=(f"data of {name}",), bytes=data, wal=False))
            _add(found, Place(nearest_folder(expand_home(wanted.wal)), (f"WAL of {name}",), wal))
    return tuple(found.values())


def _data_folder(spec: OwnTarget, home: Home) -> Path:
    if spec.environment.data == TMPFS:
        return nearest_folder(SHARED_MEMORY)
    if spec.environment.data is not None:
        return nearest_folder(expand_home(spec.environment.data))
    return nearest_folder(home.clusters if spec.keep_data else home.instances)


def _add(found: dict[int, Place], place: Place) -> None:
    device = place.path.stat().st_dev
    before = found.get(device)
    if before is None:
        found[device] = place
        return
    limits = [each.limit_bytes for each in (before, place) if each.limit_bytes is not None]
    found[device] = Place(
        before.path,
        (*before.roles, *place.roles),
        before.bytes + place.bytes,
        before.wal or place.wal,
        before.in_memory or place.in_memory,
        sum(limits) if len(limits) == 2 else None,
        before.kept or place.kept,
    )
