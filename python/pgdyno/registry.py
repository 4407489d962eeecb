"""What extends pgdyno: one line per kind of target and workload, cloud provider, source of credentials and search.

No other module outside of a package names it. Modules are imported when they are first needed; pgdyno works without a
missing one.
"""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Literal, NamedTuple


class Kind(NamedTuple):
    """A kind of target."""

    schema: str
    """Module and class of its section of a plan (`pgdyno.plan.targets.TargetSpec`)."""
    where: Literal["here", "elsewhere", "borrowed", "rented"]
    """Where its servers run: here, on a host that pgdyno does not know, on a borrowed one, or at a provider."""


KINDS = {
    "embedded": Kind("pgdyno.targets.embedded.schema:EmbeddedTarget", "here"),
    "local": Kind("pgdyno.targets.local.schema:LocalTarget", "here"),
    "build": Kind("pgdyno.targets.build.schema:BuildTarget", "here"),
    "dsn": Kind("pgdyno.targets.dsn.schema:DsnTarget", "elsewhere"),
    "pool": Kind("pgdyno.targets.pool.schema:PoolTarget", "borrowed"),
    "ec2": Kind("pgdyno.targets.aws.hosts.schema:Ec2Target", "rented"),
    "rds": Kind("pgdyno.targets.aws.databases.schema:RdsTarget", "rented"),
    "aurora": Kind("pgdyno.targets.aws.databases.schema:AuroraTarget", "rented"),
}
"""By the name in plans, in the order in which errors list them."""
GENERATORS = {"ec2": "pgdyno.targets.aws.hosts.schema:Ec2Generator"}
"""Module and class of rented generators (`pgdyno.plan.targets.RentedHosts`), by kind."""
PROVIDERS = {"aws": "pgdyno.targets.aws.provider", "pool": "pgdyno.targets.pool.provider"}
STORAGE_CREDENTIALS = {"s3": "pgdyno.targets.aws.s3"}
"""Modules with `found`: credentials that a provider's own library finds (`pgdyno.store.object_storage.services`)."""


class WorkloadKind(NamedTuple):
    schema: str
    """Module and class of its section of a plan (`pgdyno.plan.workload_schema.Workload`)."""
    keys: Mapping[str, str | None]
    """The keys by which a plan chooses it; with a value, if only that one does."""
    dataset: str | None = None
    """The dataset that it brings."""
    runs_once: bool = False
    """Whether a trial runs given queries, and so has no stream of transactions with a rate."""
    metric: str = "composite"
    """By which its runs are compared (`pgdyno.analyse.pairs.Metric`), if it has no such stream."""
    figures: str = ""
    """The package of its figures, if it is not its own."""

    @property
    def package(self) -> str:
        return self.schema.rpartition(".")[0]


WORKLOADS = {
    "replay": WorkloadKind("pgdyno.workloads.replay.schema:Replay", {"replay": None}),
    "tpcc": WorkloadKind("pgdyno.workloads.tpcc.schema:Tpcc", {"name": "tpcc"}, "tpcc"),
    "queries": WorkloadKind("pgdyno.workloads.queries.schema:Tpch", {"name": "tpch"}, "tpch", runs_once=True),
    "tpch-queries": WorkloadKind(
        "pgdyno.workloads.queries.schema:TpchQueries",
        {"queries": "tpch"},
        runs_once=True,
        metric="p50",
        figures="pgdyno.workloads.query_files",
    ),
    "query-files": WorkloadKind(
        "pgdyno.workloads.query_files.schema:QueryFiles", {"queries": None}, runs_once=True, metric="p50"
    ),
    "lua": WorkloadKind("pgdyno.workloads.lua.schema:Lua", {"lua": None, "name": None}, "sbtest"),
    "pgbench": WorkloadKind("pgdyno.workloads.pgbench.schema:Scripts", {}, "pgbench"),
}
"""In the order in which `workload_kind` tries them; the last one is any other."""


def workload_kind(section: Mapping[str, Any]) -> str:
    for name, kind in WORKLOADS.items():
        if any(section.get(key) is not None and value in (None, section[key]) for key, value in kind.keys.items()):
            return name
    return name


class Search(NamedTuple):
    """A search, which replaces the grid of a sweep."""

    arm: str
    """Module and class (`pgdyno.experiment.search.search_arm.Arm`); without an `axis`, one that yields trials."""
    axis: Literal["clients", "rate"] | None
    """The parameter that it varies; None for a search over targets or settings, with a single point."""
    goal: str
    """What it finds, for `pgdyno plan show`."""
    meets_latency: bool = False
    """Whether its goal is a latency target, which the plan then must have."""


SEARCHES = {
    "peak": Search("pgdyno.experiment.search.peak_search:PeakSearch", "clients", "the peak of throughput"),
    "capacity": Search(
        "pgdyno.experiment.search.capacity_search:CapacitySearch", "rate", "the capacity", meets_latency=True
    ),
    "cheapest": Search(
        "pgdyno.experiment.search.cheapest_search:cheapest_trials", None, "the cheapest target", meets_latency=True
    ),
    "settings": Search("pgdyno.experiment.search.settings.settings_trials:settings_trials", None, "better settings"),
}
"""By `search.find` of a plan."""


def kinds_that_are(where: str) -> tuple[str, ...]:
    """Return the names of the kinds whose servers run there."""
    return tuple(name for name, kind in KINDS.items() if kind.where == where)


def is_installed(module: str) -> bool:
    """Return whether the package of `module` is there."""
    return find_spec(".".join(module.split(".")[:3])) is not None


def load_module(module: str) -> ModuleType | None:
    """Import `module`; return None if its package is missing."""
    return import_module(module) if is_installed(module) else None
