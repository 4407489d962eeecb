"""The plan's schema: what may stand in the file, with its defaults.

`docs/reference/plan.md` describes it for users. A `Plan` is complete and immutable: nothing
inside asks whether a setting was given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from pgdyno.plan.base import Model, Name, Positive, Setting, Size
from pgdyno.plan.event_words import DROPPING, action, patience
from pgdyno.plan.generators import Generators
from pgdyno.plan.kinds import AnyGenerator, AnyTarget
from pgdyno.plan.order import Order, resolved_order
from pgdyno.plan.points import Space, expand
from pgdyno.plan.probe_words import ProbeSpec
from pgdyno.plan.replica_load import ReplicaLoad
from pgdyno.plan.search_words import latency_targets, percent
from pgdyno.plan.snapshot_words import SnapshotWay, snapshot_way
from pgdyno.plan.sweep import Sweep
from pgdyno.plan.targets import OwnTarget, TargetSpec
from pgdyno.plan.values import RESOLVED, Command, Count, Rate, Seconds, lasting
from pgdyno.records import Point
from pgdyno.records.price import PriceList

__all__ = [
    "BUILTIN_SCRIPTS",
    "Hooks",
    "Model",
    "OwnTarget",
    "PhaseSpec",
    "Plan",
    "ReplicaLoad",
    "Reset",
    "Setting",
    "Sweep",
    "TargetSpec",
    "TrialSpec",
    "Workload",
]

MOST_TABLES = 100_000
MOST_ROWS = 2**31 - 1
"""Both as the engine has them: ids of sbtest are 32 bits wide."""

BUILTIN_SCRIPTS = ("tpcb-like", "simple-update", "select-only")
"""Scripts that the engine brings; `pgdrive -b list` says the same."""
TPCC_SCRIPTS = ("New-Order", "New-Order rolled back", "Payment", "Order-Status", "Delivery", "Stock-Level")
"""What the engine's TPC-C is made of, as phases name it."""


class Workload(Model):
    """A dataset and weighted scripts, or a workload that the engine brings whole."""

    # a name says the scripts, so that the file may be without them
    model_config = ConfigDict(json_schema_extra=lambda schema: schema.pop("required", None))

    name: str | None = None
    """A workload that the engine brings: tpcc, or one of sysbench's. It says scripts and dataset."""
    profile: Literal["hammerdb", "spec"] = "hammerdb"
    """Whose rules TPC-C goes by."""
    warehouses: Positive | None = None
    """Of TPC-C, whose unit of size it is; None: `scale`."""
    variant: Literal["functions", "procedures", "sql", "sql-pipelined"] = "functions"
    """How TPC-C's transactions reach the server."""
    scripts: list[str] = Field(min_length=1)
    """Built-in names or files, with `@weight` behind them when it is not 1; else what `lua` or `name` says."""
    lua: str | None = None
    """A Lua script of sysbench: a file, or the name of an installed one."""
    options: dict[str, Setting] = Field(default_factory=dict)
    """Of `lua`, or of a workload of sysbench's that `name` says."""
    allow_lua_system: bool = False
    """Let `lua` start programs, write files and call C; else it runs in a sandbox."""
    dataset: Literal["pgbench", "sbtest", "tpcc", "none"] = "pgbench"
    scale: Positive = 1
    tables: Annotated[int, Field(ge=1, le=MOST_TABLES)] = 1
    """Of sbtest."""
    table_size: Annotated[int, Field(ge=1, le=MOST_ROWS)] = 10_000
    """Rows in each table of sbtest, whose unit of size it is."""
    variables: dict[str, Setting] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _in_place_of_scripts(cls, table: object) -> object:
        if not isinstance(table, dict):
            return table
        given = [table[key] for key in ("lua", "name") if table.get(key) is not None]
        if table.get("options") and given in ([], ["tpcc"]):
            raise ValueError("options are those of a Lua script or of a workload of sysbench's, and neither is given")
        if table.get("allow_lua_system") and table.get("lua") is None:
            raise ValueError("allow_lua_system is for a Lua script, and no lua is given")
        if given == ["tpcc"]:
            scale = {"scale": table["warehouses"]} if table.get("warehouses") is not None else {}
            return {"scripts": ["tpcc"], "dataset": "tpcc"} | table | scale
        if not given:
            return table
        if len(given) > 1 or table.get("scripts", given) != given:
            raise ValueError("give one of scripts, lua and name")
        dataset = "none" if table.get("lua") is not None else "sbtest"
        return {"dataset": dataset, **table, "scripts": given}

    @property
    def is_tpcc(self) -> bool:
        """Whether it is the engine's TPC-C."""
        return self.name == "tpcc"

    @property
    def is_lua(self) -> bool:
        """Whether a Lua script decides what transactions do."""
        return self.lua is not None or (self.name is not None and not self.is_tpcc)

    @property
    def size(self) -> int:
        """In the dataset's own unit, unless the sweep has it."""
        return self.table_size if self.dataset == "sbtest" else self.scale


CAPACITY_REPEATS = 3
"""Trials of a rate, the fewest that show how far trials scatter; what a search for a capacity has unless more are
given."""


class TrialSpec(Model):
    """How long a trial is, and how often it is repeated."""

    warmup: Annotated[Seconds, Field(ge=0)] = 0.0
    duration: Annotated[Seconds, Field(gt=0)] | None = None
    transactions: Positive | None = None
    repeats: Positive = 1
    """With `find = "capacity"` 3 unless given, and no fewer."""
    order: Order | None = None
    """None: interleaved where there are several arms, else as listed."""
    on_failure: Literal["continue", "stop"] = "continue"
    seed: int | None = None
    pause: Annotated[Seconds, Field(ge=0)] = 0.0
    """Between the end of a trial and what is done before the next one."""
    max_errors: Annotated[int, Field(ge=0)] | None = None
    """Failed transactions that a trial may have, its warm-up counted; one more stops it. None: no limit."""
    min_free_disk: Size | None = None
    """The run stops when a file system in use has less than that free; None: no limit."""
    reconnect: Annotated[str | float | None, BeforeValidator(patience)] = None
    """How long a client that lost its connection may seek another, seconds; None: always where events drop
    connections, else off."""
    ledger: bool = False
    """Count acknowledged transactions that are missing afterwards: each leaves a row of its own."""

    @model_validator(mode="after")
    def _one_limit(self) -> TrialSpec:
        # that there is one is checked beside the phases, which are one, too
        if self.duration is not None and self.transactions is not None:
            raise ValueError("give either duration or transactions, not both")
        return self


class PhaseSpec(Model):
    """A stretch of every trial at one rate, number of clients and mix; the engine's own keys."""

    name: Name
    duration: Annotated[str, AfterValidator(lasting)]
    rate: Rate | None = None
    """Transactions a second, or what they go from and to; None in a closed loop."""
    clients: Count | None = None
    """How many of a point's clients are in use; None: all."""
    mix: dict[str, Annotated[int, Field(ge=0)]] | None = None
    """Weights by script; None: the workload's."""
    result: bool = True
    """Whether it counts in the figures."""


class EventSpec(Model):
    """What happens to the server in the midst of every trial."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, serialize_by_alias=True)

    at: Annotated[Seconds, Field(ge=0)]
    """From the start of measuring; with phases, from the begin of the first."""
    do: Annotated[str | dict[str, str | bool], BeforeValidator(action)]
    """One of `ACTIONS`, or a table with a command for the shell and whether it gets the server's password."""
    lasts: Annotated[Seconds, Field(gt=0)] | None = Field(default=None, alias="for")
    """Of a pause only; `for` in the file."""

    @property
    def command(self) -> str | None:
        """The command for the shell; None for one of `ACTIONS`."""
        return None if isinstance(self.do, str) else str(self.do["command"])

    @property
    def wants_password(self) -> bool:
        """Whether the command finds the server's password in PGPASSWORD."""
        return not isinstance(self.do, str) and self.do.get("password") is True

    @property
    def name(self) -> str:
        """What reports call it."""
        return self.do if isinstance(self.do, str) else "command"


class SearchSpec(Model):
    """A search in place of the sweep's grid: along clients or the rate, between their lowest and highest."""

    find: Literal["peak", "capacity"]
    """The clients of the highest throughput, or the highest rate that meets `latency`."""
    latency: Annotated[str | dict[str, str] | None, BeforeValidator(latency_targets)] = None
    """`p99 < 10ms` of all scripts together, or by script; for `capacity`."""
    precision: Annotated[str, AfterValidator(percent)] = "5%"
    """How near the ends of a capacity's interval come to each other."""

    @property
    def axis(self) -> Literal["clients", "rate"]:
        """The parameter that is searched along."""
        return "clients" if self.find == "peak" else "rate"


class Reset(Model):
    """What is done before every trial, in this order, and what is checked behind it."""

    method: Literal["none", "vacuum", "template", "snapshot", "reload"] = "vacuum"
    """How the dataset is brought back; `vacuum` is what pgbench does, and nothing without a dataset."""
    strategy: Literal["file_copy", "wal_log"] | None = None
    """STRATEGY of CREATE DATABASE, for `template`; None leaves it to the server."""
    file_copy_method: Literal["copy", "clone"] | None = None
    """The server's setting of that name, for strategy `file_copy`; None leaves it as it is."""
    snapshot: Annotated[SnapshotWay | None, BeforeValidator(snapshot_way)] = None
    """How the copy for `snapshot` is made; None takes the best that there is."""
    checkpoint: bool = True
    restart: bool = False
    drop_cache: Literal["none", "files", "machine"] = "none"
    """The operating system's page cache: of the cluster's files, or all of it."""
    prewarm: Literal["none", "pg_prewarm", "read"] = "none"
    analyze: bool = False
    statistics: bool = False
    """Set the server's cumulative statistics to zero."""
    consistency: Literal["auto", "full", "counts", "none"] = "auto"
    """What is checked behind a trial; `auto` is full up to `FULL_UP_TO_SCALE`, counts above."""


class PublishedSpec(Model):
    """Figures of others to lay beside what is measured."""

    data: str
    """A set of `pgdyno.published`."""


class Hooks(Model):
    """Commands around the run and its trials: a line for the shell, or a list of words without one."""

    before_run: Command | None = None
    after_run: Command | None = None
    before_trial: Command | None = None
    after_trial: Command | None = None
    timeout: Annotated[Seconds, Field(gt=0)] = 600.0
    """How long each of them may take."""

    @property
    def given(self) -> bool:
        """Whether there is any."""
        return any((self.before_run, self.after_run, self.before_trial, self.after_trial))


class Plan(Model):
    """A declared experiment: targets x workload x sweep."""

    format: Literal[1] = 1
    extends: str | None = None
    """A plan that this one takes over from; what it says is in here already."""
    name: Name
    description: str = ""
    target: Annotated[dict[Name, AnyTarget], Field(min_length=1)]
    generator: AnyGenerator = None
    """A host that is rented for the load to come from; None ("here"): this machine."""
    on: dict[Name, dict[Name, dict[str, Any]]] = Field(default_factory=dict)
    """Other targets, by the name that `--on` gives them: [on.embedded.here] is a target of the plan on embedded."""
    workload: Workload
    sweep: Sweep
    trial: TrialSpec
    phase: list[PhaseSpec] = Field(default_factory=list)
    """How the load of a trial changes over time, in place of trial.duration; empty: not at all."""
    event: list[EventSpec] = Field(default_factory=list)
    """What happens in the midst of every trial."""
    reset: Reset = Field(default_factory=Reset)
    published: PublishedSpec | None = None
    hooks: Hooks = Field(default_factory=Hooks)
    probe: ProbeSpec = Field(default_factory=ProbeSpec)
    search: SearchSpec | None = None
    """None: the whole sweep is measured."""
    replica_load: ReplicaLoad | None = None
    """What runs on the standbys meanwhile; None: nothing."""
    price: PriceList | None = None
    """What the targets cost; None: nobody says."""
    generators: Generators = Field(default_factory=list)
    """Where the load is made; empty: by one engine on this machine."""

    @model_validator(mode="before")
    @classmethod
    def _capacity_has_repeats(cls, table: object) -> object:
        search, trial = (table.get(key) for key in ("search", "trial")) if isinstance(table, dict) else (None, None)
        if isinstance(search, dict) and isinstance(trial, dict) and search.get("find") == "capacity":
            assert isinstance(table, dict)
            return table | {"trial": {"repeats": CAPACITY_REPEATS} | trial}
        return table

    @model_validator(mode="before")
    @classmethod
    def _tpcc_is_brought_back(cls, table: object) -> object:
        # its data grows with every transaction, and no vacuum makes it what it was
        workload, reset = (table.get(key, {}) for key in ("workload", "reset")) if isinstance(table, dict) else (0, 0)
        if isinstance(workload, dict) and isinstance(reset, dict) and workload.get("name") == "tpcc":
            assert isinstance(table, dict)
            return table | {"reset": {"method": "template"} | reset}
        return table

    def space(self) -> Space:
        """The sweep's points, what its conditions leave out, and what is wrong with it."""
        return expand(self.sweep, self.workload.size, self.workload.variables)

    def points(self) -> list[Point]:
        """Every point of the sweep. Raises ValueError when something is wrong with it."""
        space = self.space()
        if space.problems:
            first = space.problems[0]
            raise ValueError(f"{'.'.join(map(str, ('sweep', *first.place)))}: {first.message}")
        return space.points

    def order(self) -> Order:
        """How trials are ordered."""
        return resolved_order(self.trial.order, list(self.target), self.points())

    def reconnect(self) -> float | str:
        """How long a client that lost its connection may seek another, seconds; or "off" or "always"."""
        if self.trial.reconnect is not None:
            return self.trial.reconnect
        return "always" if any(event.name in DROPPING for event in self.event) else "off"

    def as_resolved(self) -> dict[str, Any]:
        """Every key with its value, defaults filled in: what a manifest keeps."""
        resolved = self.model_dump(mode="json")
        # others are no part of what runs
        del resolved["extends"], resolved["on"]
        resolved["trial"]["order"] = self.order()
        for target in resolved["target"].values():
            if target.get("ssh", ...) is None:
                del target["ssh"]
        for name in ("phase", "published", "search", "replica_load", "price", "generator", "generators"):
            if not resolved[name]:
                del resolved[name]
        if not self.hooks.given:
            del resolved["hooks"]
        if self.event:
            resolved["trial"]["reconnect"] = self.reconnect()
        else:
            del resolved["event"]
        workload = self.workload
        foreign = ["scale"] if workload.dataset == "sbtest" else ["tables", "table_size"]
        foreign += [] if workload.is_tpcc else ["profile", "variant", "warehouses"]
        foreign += [] if workload.is_lua else ["lua", "options"]
        foreign += [] if workload.allow_lua_system else ["allow_lua_system"]
        foreign += [] if workload.name is not None else ["name"]
        for name in foreign:
            del resolved["workload"][name]
        return resolved

    @classmethod
    def from_resolved(cls, resolved: Mapping[str, Any]) -> Plan:
        """The plan of which `as_resolved` gave `resolved`. Raises ValidationError."""
        return cls.model_validate(resolved, context=RESOLVED)
