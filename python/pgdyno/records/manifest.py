"""`manifest.json`, and what a plan holds that readers of its results must not see.

Options are server settings, which may include a proxy's token or an application's key. A run's manifest keeps them,
because a resume needs them; everything that is displayed or exported has them masked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from pgdyno.effect import running_scripts
from pgdyno.messages import Message
from pgdyno.records import FORMAT
from pgdyno.records.base import LONGEST_NOTE, Instant, KeptMessage, Outcome, Record
from pgdyno.records.imported import ImportRecord
from pgdyno.records.machine import Check, Fingerprint, Host, RentRecord, TargetRecord
from pgdyno.records.point import Point
from pgdyno.records.secret_values import GROUPS
from pgdyno.registry import WORKLOADS, workload_kind

MOST_NOTES = 200
"""The largest number of notes that are displayed; the file has all."""


class TargetVerdict(Record):
    """Whether a target keeps the promise of a search for the cheapest."""

    target: str
    price: float
    """Per hour, in the search's currency."""
    verdict: str
    """kept, failed, undecided, unmeasured (a trial failed) or untried"""
    trials: int
    why: KeptMessage
    """The figure that decides with its interval, or why the target was not measured."""
    limit_ns: float | None = None
    """The limit to which the latency is closest, or which it exceeds most; None without a latency."""
    latency_ns: float | None = None
    """The geometric mean over the trials of the limited figure."""
    latency_low_ns: float | None = None
    """Ends of its 95 % interval."""
    latency_high_ns: float | None = None
    served: float | None = None
    """The share of the due transactions that succeeded, as a mean over the trials; None without a finished trial."""
    served_low: float | None = None
    """Ends of its 95 % interval."""
    served_high: float | None = None


class ConfirmedDifference(Record):
    """Two configurations compared in pairs, as `pgdyno compare` does."""

    verdict: str
    """faster, slower, same or inconclusive"""
    pairs: int
    change: float
    """Relative: 0.1 for 10 % more of the goal."""
    low: float
    """Ends of its 95 % interval."""
    high: float


class SettingLine(Record):
    """A line of the best configuration that a search for settings found."""

    name: str
    value: str
    kept: bool
    """Whether it is part of the result; otherwise it is back at its starting value."""
    without: ConfirmedDifference | None = None
    """The configuration without this line vs with it; None if time was up before, or it was the only line left."""
    together: bool = False
    """Whether `without` is the configuration without several unimportant lines."""


class SearchRecord(Record):
    """The result of a search: at one target with all other parameters fixed, or of one over all targets."""

    find: str
    """peak, capacity, cheapest or settings"""
    target: str
    """For a search over all targets: its answer; without one, the target that comes nearest."""
    point: Point
    """The point of the result: of a peak with its clients, of a capacity with the highest rate that met the target."""
    trials: int
    """The number of trials that it needed."""
    words: str
    """The result as an English sentence."""
    messages: list[KeptMessage] = []
    """The parts of that sentence; none in older records."""
    end: str | None = None
    """Why the search for a peak ended: fell, limit or failed."""
    tps: float | None = None
    """Mean over the trials at that point."""
    tps_half: float | None = None
    """Half of its 95 % interval."""
    knee: int | None = None
    """For a peak: the fewest clients whose throughput is shown to be at least 95 % of it; None: not determined. In
    older records, the fewest whose interval overlaps the peak's.
    """
    alike: tuple[int, int] | None = None
    """For a peak: the range of clients around it that are not distinguishable from it."""
    latency: str | dict[str, str] | None = None
    """For a capacity: the target."""
    met: float | None = None
    """For a capacity: the highest rate that met the target in all trials; None: the lowest rate did not."""
    missed: float | None = None
    """For a capacity: the lowest rate above it that missed the target in all trials; None: the highest rate did not."""
    rate: float | None = None
    """For a capacity: the rate that half of the trials meet; None in older records."""
    rate_low: float | None = None
    """Lower end of its 95 % interval; None if it is below the lowest rate of the plan."""
    rate_high: float | None = None
    """Upper end; None if it is above the highest rate of the plan."""
    currency: str | None = None
    """For the cheapest: that of the prices."""
    kept: bool | None = None
    """For the cheapest: whether `target` keeps the promise; False if no target is shown to keep it."""
    targets: list[TargetVerdict] = []
    """For the cheapest: every target, from the cheapest to the most expensive."""
    goal: str | None = None
    """For settings: tps, p99 or mean."""
    settings: dict[str, str] = {}
    """For settings: the confirmed ones; empty if none was shown to be better than the starting configuration."""
    confirmed: ConfirmedDifference | None = None
    """For settings: the best configuration compared with the starting configuration; None if none seemed better."""
    lines: list[SettingLine] = []
    """For settings: every line that was put back once."""
    importance: dict[str, float] = {}
    """For settings: how much of the difference between good and ordinary trials each explains, in all 1."""


class KeptScript(Record):
    """A script file as of the start of the run; the run folder has its copy."""

    name: str
    """Name or path of the script in the plan."""
    kept: str
    """Path of the copy in the run folder."""
    sha256: str


class KeptCapture(Record):
    """The capture that the load repeats or is compared with; the run folder has a copy of its capture.json."""

    name: str
    """Path of the capture's folder or file, as the plan gives it."""
    sha256: str
    """Digest of the capture's `capture.json`."""
    statements_sha256: str | None = None
    """Digest of capture.parquet; None if the run replays nothing."""


class StoppingRule(Record):
    """When a run stops that looks at its comparison after every pair; fixed before the first trial."""

    fewest: Annotated[int, Field(ge=2)]
    """Pairs before the first look."""
    most: Annotated[int, Field(le=1_000)]
    """Pairs of a point after which it gets no more trials."""
    by: str
    """What the arms are: target, protocol, `settings.work_mem`."""
    metric: str
    """tps or p99"""
    comparisons: Annotated[int, Field(ge=0, le=100_000)]
    """Points of all arms that are compared with the first, which Holm's procedure counts."""
    margin: Annotated[float, Field(ge=0, le=1)]
    """Relative: differences within it, of either sign, count as none."""
    ended: Literal["decided", "undecided"] | None = None
    """Whether every point was decided; None while the run has trials left."""

    @model_validator(mode="after")
    def _in_order(self) -> StoppingRule:
        if self.fewest > self.most:
            raise ValueError("fewest is more than most")
        return self


class BudgetRecord(Record):
    """The time budget of a run."""

    seconds: float
    dropped: list[str] = []
    """Slugs of the planned trials that the run left out to stay within it; see `order`."""


class Attempt(Record):
    """One execution of the run's process: the first, and one for each resume."""

    started_at: Instant
    ended_at: Instant | None = None
    """None while it runs, and if it was killed."""
    ended: str | None = None
    """How it ended, as a predicate (was stopped: ...); for a killed attempt, as the next one found it."""
    pid: int
    boot: str
    """Boot id of the machine."""
    host: Host
    pgdyno: str
    pgdrive: str


WORKLOAD_UNKNOWN = "workload not told"
"""`Manifest.workload` of an import that names none: run folders keep it, so it does not change."""


_TABLES = ("workload", "sweep", "trial", "reset", "search", "published")


def _check_tables(plan: dict[str, Any]) -> dict[str, Any]:
    """Return `plan` if its tables are tables: analyses read them without a check. Raises ValueError."""
    sweep = plan.get("sweep")
    tables = {name: plan.get(name) for name in _TABLES}
    if isinstance(sweep, Mapping):
        tables |= {f"sweep.{name}": sweep.get(name) for name in (*GROUPS, "group")}
    wrong = next((name for name, table in tables.items() if table and not isinstance(table, Mapping)), None)
    if wrong is not None:
        raise ValueError(f"{wrong} is not a table")
    for name in ("phase", "group", "step"):
        found = plan.get(name) or []
        if not isinstance(found, list) or not all(isinstance(each, Mapping) and "name" in each for each in found):
            raise ValueError(f"{name} is not a list of tables with names")
    if not isinstance(plan.get("description") or "", str):
        raise ValueError("description is not a text")
    if not isinstance((plan.get("workload") or {}).get("scale_factor") or 0, int | float):
        raise ValueError("workload.scale_factor is not a number")
    return plan


MOST_SAMPLES = 10**12
"""The largest number of samples in a record: 99 a second of 10,000 processors for ten days."""
Samples = Annotated[int, Field(ge=0, le=MOST_SAMPLES)]


class ProfileRecord(Record):
    """One profile: the stacks of a target's processes, at the point of an arm with the highest throughput."""

    target: str
    point: Point
    file: str
    """Path of its folded stacks in the run folder."""
    event: str
    """What perf counted, in perf's words: `cycles:P`, `cpu-clock:ppp`. A `u` after the colon: without the kernel.
    INSTRUCTIONS if callgrind counted each of them: `samples` are then instructions, and other figures 0.
    """
    hz: Annotated[int, Field(ge=0, le=100_000)]
    samples: Annotated[Samples, Field(ge=1)]
    unresolved: Samples
    """Samples in a function without a symbol."""
    tps: float
    """Under perf, in one short load."""
    tps_median: float
    """Median of the trials at the same point without perf."""

    INSTRUCTIONS: ClassVar[str] = "instructions"


class Manifest(Record):
    """`manifest.json`: describes the run."""

    format: int = FORMAT
    run: str
    """Name of the folder."""
    pgdyno: str
    pgdrive: str | None
    started_at: Instant
    """For an imported run, the time of the import."""
    ended_at: Instant | None = None
    plan_source: str
    plan_folder: str | None = None
    """The folder of its script files and hooks; None in manifests of earlier versions."""
    plan: Annotated[dict[str, Any], AfterValidator(_check_tables)]
    """The plan as resolved: every default filled in, `--set` applied."""
    workload: str
    """Short name for headings: `select-only`."""
    host: Host | None
    """None for an imported run, as is `pgdrive`."""
    targets: list[TargetRecord]
    trials_planned: int
    search: list[SearchRecord] = []
    """The results of the plan's search; empty without one, and before it has ended."""
    order: list[str] = []
    """Slugs of all planned trials in order of execution, fixed before the first; empty in earlier versions."""
    outcome: Outcome | None = None
    """None while the run is in progress, or if it was killed."""
    notes: list[str] = []
    """In English."""
    note_details: list[KeptMessage] = []
    """The notes of this version's attempts with their ids, in the same order; those of earlier versions have none."""
    scripts: list[KeptScript] | None = None
    """None in manifests of earlier versions."""
    capture: KeptCapture | None = None
    """None for a load without a capture."""
    attempts: list[Attempt] = []
    """In order; empty in manifests of earlier versions."""
    preflight: list[Check] = []
    """The checks before the first trial; empty if there were none."""
    fingerprint: Fingerprint | None = None
    """None in folders of earlier versions."""
    stopping: StoppingRule | None = None
    """None if the number of repeats was fixed, and in folders of earlier versions."""
    budget: BudgetRecord | None = None
    """None without a budget, after a resume, which has none, and in folders of earlier versions."""
    rented: list[RentRecord] = []
    """Costs of its rented servers, by attempt; empty without any, and in folders of earlier versions."""
    profiles: list[ProfileRecord] = []
    """Of each arm, if the plan asks for profiles; empty in folders of earlier versions."""
    imported: ImportRecord | None = None
    """None for pgdyno's own runs."""

    @property
    def finds_cheapest(self) -> bool:
        """Whether the run searches for its cheapest target, and so compares none with another."""
        search = self.plan.get("search")
        return isinstance(search, Mapping) and search.get("find") == "cheapest"

    @property
    def workload_kind(self) -> str:
        return workload_kind(self.plan.get("workload") or {})

    @property
    def runs_once(self) -> bool:
        """Whether its trials run given queries once, and so have no stream of transactions with a rate."""
        return WORKLOADS[self.workload_kind].runs_once

    @property
    def counts_instructions(self) -> bool:
        return (self.plan.get("trial") or {}).get("measure") == "instructions"

    @property
    def is_untimed(self) -> bool:
        """Whether its trials have no rate: they run queries once, or count instructions."""
        return self.runs_once or self.counts_instructions

    @property
    def scale_factor(self) -> float | None:
        """The size of the workload tpch; None for other workloads."""
        factor: float | None = (self.plan.get("workload") or {}).get("scale_factor")
        return factor

    def scale_of(self, point: Point) -> float | None:
        """The size of the dataset at `point`: the sweep's, otherwise the workload's; of tpch the scale factor."""
        if self.scale_factor is not None:
            # points have it in hundredths
            return self.scale_factor
        scale: float | None = (self.plan.get("workload") or {}).get("scale")
        return scale if point.scale is None else point.scale

    @property
    def finds_settings(self) -> bool:
        """Whether the run searches for settings, and so compares only the pairs that confirm them."""
        search = self.plan.get("search")
        return isinstance(search, Mapping) and search.get("find") == "settings"

    @property
    def script_names(self) -> frozenset[str] | None:
        """Names of the scripts that trials run; None if an imported document does not name them."""
        names = [each.strip() for each in self.workload.split(",")]
        phases = self.plan.get("phase") or ()
        return (
            None
            if WORKLOAD_UNKNOWN in names
            else frozenset(running_scripts(names, [each.get("mix") for each in phases]))
        )

    @property
    def messages(self) -> list[Message | str]:
        """Return the notes as messages; those of earlier versions have only a sentence."""
        known = {str(message): message for message in (each.message for each in self.note_details)}
        return [known.get(note, note) for note in self.notes]

    @property
    def shown_notes(self) -> list[str]:
        """Return the notes in English for display: the first of many, and the beginning of a very long one."""
        shown = [shorten_note(each) for each in self.notes[:MOST_NOTES]]
        left = len(self.notes) - len(shown)
        return [*shown, f"and {left:,} more notes in manifest.json"] if left else shown


def shorten_note(note: str) -> str:
    """Return a note for display: the beginning of a very long one."""
    return f"{note[:LONGEST_NOTE]}…" if len(note) > LONGEST_NOTE else note
