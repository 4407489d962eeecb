"""The plan's schema with its defaults.

`docs/reference/plan.md` describes it for users. A `Plan` is complete and immutable: no code asks whether a setting was
given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from pgdyno.effect import BUILTIN_SCRIPTS
from pgdyno.plan.hosts import Generators
from pgdyno.plan.kinds import AnyGenerator, AnyTarget, AnyWorkload, workload_schema
from pgdyno.plan.known_settings import network_refusal
from pgdyno.plan.optional_sections import (
    DROPPING,
    ProbeSpec,
    Promises,
    SnapshotMethod,
    action,
    checked_margin,
    latency_targets,
    patience,
    share_of,
    snapshot_method,
)
from pgdyno.plan.scenario.groups import GroupSpec, fill_groups, has_trials, scenario_space
from pgdyno.plan.scenario.steps import StepSpec
from pgdyno.plan.sweeps.order import Order, resolved_order
from pgdyno.plan.sweeps.points import Space
from pgdyno.plan.sweeps.settings_space import read_over, read_when
from pgdyno.plan.sweeps.spec import SESSION, Condition, Sweep
from pgdyno.plan.targets import CloudSpec, NetworkTarget, OwnTarget, RentedTarget, TargetSpec
from pgdyno.plan.values import (
    RESOLVED,
    Command,
    Count,
    Model,
    Name,
    Positive,
    Rate,
    Repeats,
    Seconds,
    Section,
    Setting,
    Size,
    given_duration,
    positive_duration,
    read_by,
    repeat_range,
)
from pgdyno.plan.workload_schema import SBTEST, Workload
from pgdyno.records import Point
from pgdyno.records.base import server_name
from pgdyno.records.price import PriceList
from pgdyno.registry import SEARCHES, Search, kinds_that_are

__all__ = [
    "BUILTIN_SCRIPTS",
    "Hooks",
    "Model",
    "OwnTarget",
    "PhaseSpec",
    "Plan",
    "Reset",
    "Setting",
    "Sweep",
    "TargetSpec",
    "TrialSpec",
    "Workload",
]

CONFIRMING_PAIRS = 8
"""The default number of pairs in each comparison of a search for settings."""
CAPACITY_REPEATS = 3
"""The fewest trials of a rate that show the scatter of trials; the default in a search for a capacity."""


class TrialSpec(Model):
    """Length and repeats of trials."""

    warmup: Annotated[Seconds, Field(ge=0)] = 0.0
    duration: Annotated[Seconds, Field(gt=0)] | None = None
    transactions: Positive | None = None
    measure: Literal["time", "instructions"] = "time"
    """`instructions`: count those of the server's process for the load under Valgrind, in place of times."""
    counter: Literal["auto", "valgrind", "perf"] = "auto"
    """What counts instructions; `auto` is Valgrind, and perf without it."""
    until: Literal["duration", "recovered"] = "duration"
    """`recovered`: the load ends earlier, once all events have ended and the load is as before."""
    repeats: Repeats = 1
    """A number, or a range such as "6..40": the run then stops when each point is decided. At least 3 with
    `find = "capacity"` or `"cheapest"`, which is then the default.
    """
    margin: Annotated[str | None, AfterValidator(checked_margin)] = None
    """With a range of repeats: differences within it, of either sign, count as none; None: 1 %."""
    order: Order | None = None
    """None: interleaved if there are several arms, else as listed; `duet` runs two targets at the same time."""
    on_failure: Literal["continue", "stop"] = "continue"
    seed: int | None = None
    pause: Annotated[Seconds, Field(ge=0)] = 0.0
    """Pause between a trial's end and the steps before the next trial."""
    max_errors: Annotated[int, Field(ge=0)] | None = None
    """Failed transactions that a trial may have, including its warm-up; one more stops it. None: no limit."""
    min_free_disk: Size | None = None
    """Stop the run when a used file system has less free space; None: no limit."""
    reconnect: Annotated[str | float | None, BeforeValidator(patience)] = None
    """Seconds for which a client without connection tries to reconnect; None: always if events drop them, else off."""
    promise: Promises = []
    """Limits of figures at every point, such as "p99 < 20ms"; reports say whether each is held."""
    control: bool = False
    """Measure the baseline twice in each block: no verdict counts if it differs from itself."""
    ledger: bool = False
    """Count acknowledged transactions that are missing afterwards: each inserts a row."""

    @property
    def most_repeats(self) -> int:
        """The number of repeats; of a range, the largest."""
        return repeat_range(self.repeats)[1]

    @property
    def fewest_repeats(self) -> int:
        """The number of repeats; of a range, the smallest."""
        return repeat_range(self.repeats)[0]

    @property
    def stops_when_decided(self) -> bool:
        """Whether the number of repeats depends on results."""
        return isinstance(self.repeats, str)

    @model_validator(mode="after")
    def _margin_of_a_range(self) -> TrialSpec:
        if self.margin is not None and not self.stops_when_decided:
            raise ValueError('margin is valid only with a range of repeats, such as repeats = "6..40"')
        return self

    @model_validator(mode="after")
    def _one_limit(self) -> TrialSpec:
        # whether a length is given at all is checked together with phases, which also define one
        if self.duration is not None and self.transactions is not None:
            raise ValueError("give either duration or transactions, not both")
        return self


class PhaseSpec(Model):
    """A part of every trial at one rate, number of clients and mix; the keys are the engine's."""

    name: Name
    duration: Annotated[str, AfterValidator(positive_duration)]
    rate: Rate | None = None
    """Transactions per second, or the start and end of a ramp; None: closed loop."""
    clients: Count | None = None
    """Number of a point's clients in use; None: all."""
    mix: dict[str, Annotated[int, Field(ge=0)]] | None = None
    """Weights by script; None: those of the workload."""
    result: bool = True
    """Whether its transactions count in the results."""


class EventSpec(Model):
    """What happens to the server during every trial."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, serialize_by_alias=True)

    at: Annotated[Seconds, Field(ge=0)]
    """Time from the start of measuring; with phases, from the start of the first."""
    do: Annotated[str | dict[str, str | bool], BeforeValidator(action)]
    """One of `ACTIONS`, or a table with SQL, or with a shell command and whether it gets the server's password."""
    lasts: Annotated[Seconds, Field(gt=0)] | None = Field(default=None, alias="for")
    """Duration of a pause; `for` in the file."""
    undo: Annotated[str | None, Field(min_length=1)] = None
    """SQL that pgdyno runs after the load, also if the event failed or the trial was interrupted."""
    limit: Annotated[Seconds, Field(gt=0)] | None = None
    """An event that takes longer is canceled, and has failed; None: no limit but the trial's end."""
    max_rate: Annotated[str | None, Field(pattern=r"^\d+[kM]?$")] = None
    """The limit of a backup in bytes a second, as pg_basebackup reads it: "32M"."""
    control: Name | None = None
    """A swept variable: where it is "without", pgdyno waits as long in place of the event, which follows the load."""

    @property
    def command(self) -> str | None:
        """The shell command; None for others."""
        return None if isinstance(self.do, str) or "command" not in self.do else str(self.do["command"])

    @property
    def sql(self) -> str | None:
        """The statements, or the name of a file that ends with `.sql`; None for others."""
        return None if isinstance(self.do, str) or "sql" not in self.do else str(self.do["sql"])

    def is_control(self, point: Point) -> bool:
        """Return whether trials at `point` only wait in place of it."""
        return self.control is not None and point.variables.get(self.control) == "without"

    @property
    def wants_password(self) -> bool:
        """Whether the command finds the server's password in PGPASSWORD."""
        return not isinstance(self.do, str) and self.do.get("password") is True

    @property
    def name(self) -> str:
        return self.do if isinstance(self.do, str) else "command" if self.command is not None else "sql"


if TYPE_CHECKING:
    SearchName = str
else:
    SearchName = Literal[tuple(SEARCHES)]


class SearchSpec(Model):
    """A search in place of the sweep's grid: along clients or the rate between their bounds, or over the targets."""

    find: SearchName
    """The clients with the highest throughput; the highest rate that meets `latency`; the cheapest target that meets
    it at the sweep's rate; or settings in `over` that are better than the target's.
    """
    latency: Annotated[str | dict[str, str] | None, BeforeValidator(latency_targets)] = None
    """`p99 < 10ms` of all scripts together, or by script; for `capacity`, `cheapest` and (not to break) `settings`."""
    precision: Annotated[str, AfterValidator(read_by(share_of))] = "5%"
    """Width of a capacity's interval at which the search ends."""
    families: list[list[Name]] = []
    """Families of targets, each in order from the smallest server to the largest; for `cheapest`."""
    over: Annotated[dict[str, str | list[str]], BeforeValidator(read_over)] = {}
    """Settings with a range ("128MB..8GB log", "1..4") or a list of values; for `settings`."""
    when: Annotated[dict[str, Condition], BeforeValidator(read_when)] = {}
    """Conditions on other settings in `over`, without which `settings` leaves a setting at its start."""
    goal: Literal["tps", "p99", "mean", "price"] | None = None
    """What `settings` improves; `price` is that of a million transactions. None: throughput, or p99 latency at a rate.
    """
    trials: Positive | None = None
    """The most configurations that `settings` proposes; None: 40, or as many as the budget allows."""
    budget: Annotated[str | None, AfterValidator(given_duration)] = None
    """The time for all trials of `settings`, such as "2h"; half of it is for proposals. None: no limit."""

    @property
    def kind(self) -> Search:
        return SEARCHES[self.find]

    @property
    def axis(self) -> Literal["clients", "rate"]:
        """The parameter that the search varies; not for one over targets."""
        assert self.kind.axis is not None
        return self.kind.axis


class Reset(Model):
    """Steps before every trial, in this order, and checks after it."""

    method: Literal["none", "vacuum", "template", "snapshot", "reload"] = "vacuum"
    """How the dataset is restored; `vacuum` does what pgbench does, and nothing without a dataset."""
    strategy: Literal["file_copy", "wal_log"] | None = None
    """STRATEGY of CREATE DATABASE, for `template`; None leaves it to the server."""
    file_copy_method: Literal["copy", "clone"] | None = None
    """The server's setting of that name, for strategy `file_copy`; None keeps it."""
    snapshot: Annotated[SnapshotMethod | None, BeforeValidator(snapshot_method)] = None
    """How `snapshot` makes its copy; None selects the best available method."""
    checkpoint: bool = True
    restart: bool = False
    drop_cache: Literal["none", "files", "machine"] = "none"
    """Drop the operating system's page cache: that of the cluster's files, or all of it."""
    prewarm: Literal["none", "pg_prewarm", "read"] = "none"
    analyze: bool = False
    statistics: bool = False
    """Reset the server's cumulative statistics."""
    consistency: Literal["auto", "full", "counts", "none"] = "auto"
    """Checks after a trial; `auto` is full up to `FULL_UP_TO_SCALE`, counts above."""


class PublishedSpec(Model):
    """Published figures to compare with the results."""

    data: str
    """A set of `pgdyno.published`."""


class Hooks(Model):
    """Commands before and after the run and its trials: a shell command, or a list of words."""

    before_run: Command | None = None
    after_run: Command | None = None
    before_trial: Command | None = None
    after_trial: Command | None = None
    timeout: Annotated[Seconds, Field(gt=0)] = 600.0
    """Timeout of each command."""

    @property
    def given(self) -> bool:
        return any((self.before_run, self.after_run, self.before_trial, self.after_trial))


def _with_fresh_instance(target: object) -> object:
    """Give a server that pgdyno starts a second instance, on which a search confirms what it found on the first."""
    is_ours = isinstance(target, dict) and target.get("kind") in kinds_that_are("here")
    return {"instances": 2} | target if is_ours and isinstance(target, dict) and not target.get("keep_data") else target


_LEFT_OUT: dict[str, dict[str, object]] = {
    "plan": {"phase": [], "event": [], "group": [], "step": [], "generators": []}
    | dict.fromkeys(("published", "search", "price", "generator"))
    | {"cloud": {"tags": {}, "placement": None}},
    "target": {"ssh": None, "restart": None, "instances": 1, "other_dsns": [], "pooler": None, "load_dsn": None}
    | {SESSION: {}},
    "workload": {"name": None, "captured": None, "allow_captured": False},
    "sweep": {SESSION: {}, "group": {}},
    "trial": {"until": "duration", "margin": None, "promise": [], "control": False, "measure": "time"}
    | {"counter": "auto"},
    "event": dict.fromkeys(("undo", "limit", "max_rate", "control")),
    "probe": {"query": []},
    "search": {"families": [], "over": {}, "when": {}, "goal": None, "trials": None, "budget": None},
}
"""Values by section that a resolved plan does not have: keys of some plans only, or later than other plans."""


class Plan(Model):
    """An experiment: targets x workload x sweep."""

    format: Literal[1] = 1
    extends: str | None = None
    """The plan that this one extends; it is merged already."""
    name: Name
    description: str = ""
    target: Annotated[dict[Name, AnyTarget], Field(min_length=1)]
    generator: AnyGenerator = None
    """A rented host that generates the load; None ("here"): this machine."""
    cloud: Section[CloudSpec] = Field(default_factory=CloudSpec)
    """What the plan's rented resources have in common."""
    on: dict[Name, dict[Name, dict[str, Any]]] = {}
    """Other targets, by the name for `--on`: [on.embedded.here] is a target of the plan on embedded."""
    workload: AnyWorkload
    sweep: Section[Sweep]
    trial: Section[TrialSpec]
    phase: list[Section[PhaseSpec]] = []
    """How the load changes during a trial, in place of trial.duration; empty: constant."""
    event: list[Section[EventSpec]] = []
    """What happens during every trial."""
    group: list[Section[GroupSpec]] = []
    """Groups of clients that run beside each other; in the background, beside the load of the sweep's clients."""
    step: list[Section[StepSpec]] = []
    """The parts of every trial, in order, in place of trial.duration; empty: one load."""
    reset: Section[Reset] = Field(default_factory=Reset)
    published: Section[PublishedSpec] | None = None
    hooks: Section[Hooks] = Field(default_factory=Hooks)
    probe: Section[ProbeSpec] = Field(default_factory=ProbeSpec)
    search: Section[SearchSpec] | None = None
    """None: the whole sweep is measured."""
    price: Section[PriceList] | None = None
    """Prices of the targets; None: unknown."""
    generators: Generators = []
    """Hosts that generate the load; empty: one engine on this machine."""

    @model_validator(mode="before")
    @classmethod
    def _with_usual_values(cls, table: object) -> object:
        """Fill in what a search, or a load that changes the data, wants unless the plan has something else."""
        if not isinstance(table, dict):
            return table
        table = fill_groups(table)
        if has_trials(table.get("group")):
            table = {"sweep": {}} | table
        if table.get("step"):
            table = {"trial": {}} | table
        search = table.get("search")
        usual: dict[str, dict[str, Any]] = {"reset": {"method": workload_schema(table.get("workload")).usual_reset}}
        find = str(search.get("find")) if isinstance(search, dict) else ""
        if find in SEARCHES and SEARCHES[find].meets_latency:
            usual["trial"] = {"repeats": CAPACITY_REPEATS}
        if find == "settings":
            usual["trial"] = {"repeats": CONFIRMING_PAIRS}
            targets = table.get("target")
            if isinstance(targets, dict):
                table = table | {"target": {name: _with_fresh_instance(each) for name, each in targets.items()}}
        given: dict[str, Any] = {"reset": {}, **table}
        return table | {key: usual[key] | given[key] for key in usual if isinstance(given.get(key), dict)}

    @property
    def session_names(self) -> frozenset[str]:
        """The names of `Point.settings` that belong to connections, not to the server."""
        return self.sweep.session_names.union(self._searched_over_network() - self.system_names)

    @property
    def system_names(self) -> frozenset[str]:
        """The names of `Point.settings` that a search sets with ALTER SYSTEM, on a server that pgdyno did not start.

        No session can set them.
        """
        return frozenset(name for name in self._searched_over_network() if network_refusal(name) is not None)

    def _searched_over_network(self) -> frozenset[str]:
        is_found = self.search is not None and self.search.find == "settings"
        is_theirs = any(isinstance(target, NetworkTarget) for target in self.target.values())
        return frozenset(self.search.over if self.search is not None and is_found and is_theirs else ())

    @property
    def has_group_trials(self) -> bool:
        """Whether the loads of groups are the trials; otherwise that of [workload] is."""
        return any(group.has_trial for group in self.group)

    def space(self) -> Space:
        """The resolved sweep: its points, excluded points and problems."""
        return scenario_space(self.group, self.sweep, self.workload.size, self.workload.known_variables)

    def points(self) -> list[Point]:
        """Every point of the sweep. Raises ValueError if the sweep has problems."""
        space = self.space()
        if space.problems:
            first = space.problems[0]
            raise ValueError(f"{'.'.join(map(str, ('sweep', *first.place)))}: {first.message}")
        return space.points

    def server_settings(self, target: str, point: Point) -> dict[str, str]:
        """The settings of the server of `target` at `point`: lines of its configuration, or those of its database."""
        others = self.session_names | self.system_names
        swept = {name: value for name, value in point.settings.items() if name not in others}
        return {**self.target[target].settings, **swept}

    def system_settings(self, point: Point) -> dict[str, str]:
        """The settings at `point` of a server that pgdyno did not start, by ALTER SYSTEM."""
        return {name: value for name, value in point.settings.items() if name in self.system_names}

    def session_settings(self, target: str, point: Point) -> dict[str, str]:
        """The settings of each connection of the load to `target` at `point`."""
        per_session = self.session_names
        swept = {name: value for name, value in point.settings.items() if name in per_session}
        return {**self.target[target].session_settings, **swept}

    def order(self) -> Order:
        return resolved_order(self.trial.order, list(self.target), self.points())

    @property
    def at_once(self) -> int:
        """The number of trials that run at the same time."""
        return 2 if self.trial.order == "duet" else 1

    def reconnect(self) -> float | str:
        """Seconds for which a client that lost its connection tries to reconnect; or "off" or "always"."""
        if self.trial.reconnect is not None:
            return self.trial.reconnect
        return "always" if any(event.name in DROPPING for event in self.event) else "off"

    def as_resolved(self) -> dict[str, Any]:
        """Return every key with its value, including defaults, for the manifest."""
        resolved = self.model_dump(mode="json")
        # the run does not use other targets
        del resolved["extends"], resolved["on"]
        resolved["trial"]["order"] = self.order()
        if self.event:
            resolved["trial"]["reconnect"] = self.reconnect()
        for name in ("scale",) if self.workload.dataset == SBTEST else ("tables", "table_size"):
            resolved["workload"].pop(name, None)
        sweep = resolved["sweep"]
        sections = [("target", each) for each in resolved["target"].values()]
        sections += [("event", each) for each in resolved["event"]]
        sections += [("sweep", each) for each in (sweep, *sweep["points"])]
        sections += [(name, resolved[name]) for name in ("workload", "trial", "probe", "search") if resolved[name]]
        for section, table in (*sections, ("plan", resolved)):
            for name, usual in _LEFT_OUT[section].items():
                if name in table and table[name] == usual:
                    del table[name]
        if not self.hooks.given:
            del resolved["hooks"]
        return resolved

    @classmethod
    def from_resolved(cls, resolved: Mapping[str, Any]) -> Plan:
        """Restores a plan from the result of `as_resolved`. Raises ValidationError."""
        return cls.model_validate(resolved, context=RESOLVED)


def servers_of(plan: Plan) -> dict[str, TargetSpec]:
    """Return every server of `plan` by name: the targets, and for a target of several instances each of these."""
    found: dict[str, TargetSpec] = {}
    for name, spec in plan.target.items():
        if spec.instance_count == 1:
            found[name] = spec
        else:
            numbers = range(1, spec.instance_count + 1)
            found |= {server_name(name, number): spec.one_instance(number) for number in numbers}
    return found


def rented_targets(plan: Plan) -> dict[str, RentedTarget]:
    return {name: spec for name, spec in plan.target.items() if isinstance(spec, RentedTarget)}
