"""The common schema of all kinds of workloads. Each kind has its own class in its package in `pgdyno.workloads`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from pgdyno.effect import BUILTIN_SCRIPTS, Effect, effect_of_sql, has_plan, weighted_name
from pgdyno.errors import Problem
from pgdyno.messages import Message
from pgdyno.plan.own_data.sql_dataset import SqlDataset
from pgdyno.plan.plan_document import Document, KeyPath
from pgdyno.plan.values import Connect, Model, Positive, Setting
from pgdyno.records import Point
from pgdyno.registry import WORKLOADS

if TYPE_CHECKING:
    from pgdyno.records import QueryResult
    from pgdyno.records.capture import Capture

MOST_TABLES = 100_000
MOST_ROWS = 2**31 - 1
"""The engine's limits: ids of sbtest are 32 bits wide."""
SBTEST = "sbtest"
AnyDataset = Annotated[
    Annotated[Literal["pgbench", "sbtest", "none"], Tag("named")] | Annotated[SqlDataset, Tag("by-sql")],
    Discriminator(lambda value: "by-sql" if isinstance(value, (dict, SqlDataset)) else "named"),
]
"""The datasets on which any SQL may run."""
_IDLE = (("warmup", "0s"), ("warmup", "0ms"), ("generator", "here"))
"""Values that change nothing."""


DataKey = tuple[int | None, tuple[tuple[str, str], ...]]
"""What tells the datasets of a plan's trials from each other: size, and variables of SQL files."""


class Excluded(NamedTuple):
    """Keys that a plan cannot have together with a kind of workload."""

    keys: str
    """Separated by spaces, such as `trial.warmup`; those of `sweep` stand for those of its points, too."""
    why: str
    hint: str = "remove it"
    values: Sequence[object] = ()
    """Only these; empty: all that change something."""


class Statement(NamedTuple):
    script: int
    id: int
    """Number of its command in the script; both are as in events."""
    text: str
    """With `$1`, `$2`, … for variables, without its semicolon."""


class Workload(Model):
    """A workload in a plan. Modules next to the schema of a kind have its `Tables` and its `WorkloadFigures`."""

    # some kinds define the scripts
    model_config = ConfigDict(json_schema_extra=lambda schema: schema.pop("required", None))

    kind: ClassVar[str] = "pgbench"
    """Its name in `pgdyno.registry.WORKLOADS`."""
    excluded: ClassVar[Sequence[Excluded]] = ()
    naming_files: ClassVar[Sequence[str]] = ()
    """Keys that name one file or folder, besides `captured`."""
    replays: ClassVar[bool] = False
    """Whether every trial repeats the statements of its `capture`, a folder."""
    prepares: ClassVar[bool] = False
    """Whether its clients keep prepared statements, whatever the protocol of the plan."""
    own_end: ClassVar[tuple[str, str] | None] = None
    """How a trial without a limit ends, in a column and in a sentence; None if a trial needs a limit."""
    usual_reset: ClassVar[str] = "vacuum"
    """`reset.method` of plans that name none."""
    bytes_a_unit: ClassVar[int] = 15_000_000
    """Tables and indexes of the dataset that it brings, for each unit of its size."""
    sending_option: ClassVar[str] = "--protocol={protocol}"
    """The engine's option for how statements are sent or counted; empty if the load itself decides."""
    hidden_parameters: ClassVar[Set[str]] = frozenset()
    """Parameters of points that tables of trials leave out, because its trials do not have them."""

    scripts: list[str] = Field(min_length=1)
    """Built-in names or files, followed by `@weight` if it is not 1."""
    dataset: str | SqlDataset = "pgbench"
    scale: Positive = 1
    tables: Annotated[int, Field(ge=1, le=MOST_TABLES)] = 1
    """Number of sbtest's tables."""
    table_size: Annotated[int, Field(ge=1, le=MOST_ROWS)] = 10_000
    """Rows in each table of sbtest."""
    variables: dict[str, Setting] = {}
    connect: Connect = "once"
    """Whether a client connects once, or anew for each transaction: a connection that fails is a failed transaction."""
    captured: str | None = None
    """A capture.json that reports compare the load with."""
    allow_captured: bool = False
    """Let the load change the database that was captured; by default pgdyno refuses to send it there."""

    @model_validator(mode="before")
    @classmethod
    def _with_own_values(cls, section: object) -> object:
        return cls.fill(section) if isinstance(section, dict) else section

    @model_validator(mode="after")
    def _allowed_capture(self) -> Workload:
        if self.allow_captured and self.capture is None:
            raise ValueError("allow_captured needs a capture, and neither replay nor captured is given")
        return self

    @classmethod
    def fill(cls, section: dict[str, Any]) -> dict[str, Any]:
        """Return `section` with the values that follow from others."""
        return section

    @classmethod
    def complete(cls, document: Document, folder: Path) -> tuple[Document, Sequence[Problem]]:
        """Fill in the other sections what files in `folder` say; also returns what is wrong with those."""
        del folder
        return document, []

    @classmethod
    def check_excluded(cls, document: Document) -> Iterator[Problem]:
        """Yield the keys of `document` that the kind excludes, apart from values that change nothing."""
        for keys, why, hint, values in cls.excluded:
            for path in (tuple(key.split(".")) for key in keys.split()):
                for place in sweeps(document, path[1:]) if path[0] == "sweep" else (path,):
                    value = document.value_at(place)
                    is_idle = value is None or value is False or value in ([], {}) or (path[-1], value) in _IDLE
                    if value in values if values else not is_idle:
                        message = f"cannot be combined with {cls.chosen_by(document)}: {why}"
                        yield document.problem(place, message, hint)

    @classmethod
    def chosen_by(cls, document: Document) -> str:
        """Return the key by which `document` chooses the kind: `workload.replay`, `workload.name = "tpcc"`."""
        keys = WORKLOADS[cls.kind].keys.items()
        key, value = next(each for each in keys if document.value_at(("workload", each[0])) is not None)
        return f"workload.{key}" if value is None else f'workload.{key} = "{value}"'

    def check(self, document: Document) -> Iterator[Problem]:
        """Yield problems of the section, apart from keys that the kind excludes, and scripts that are files."""
        del document
        yield from ()

    @property
    def runs_once(self) -> bool:
        """Whether a trial runs given queries once, and so has no stream of transactions with a rate."""
        return WORKLOADS[self.kind].runs_once

    @property
    def capture(self) -> str | None:
        """The folder of the capture that is replayed, or the capture.json to compare with."""
        return self.captured

    @property
    def keeps_order(self) -> bool:
        """Whether a replay keeps the captured order of statements that make keys of one table, and of sessions."""
        return False

    @property
    def least_agreement(self) -> float | None:
        """The least share of replayed statements that must have the captured result; None if nothing is replayed."""
        return None

    @property
    def lua_script(self) -> str | None:
        """The Lua script that runs the transactions: a file, or the name of an installed one."""
        return None

    @property
    def written_scripts(self) -> list[str]:
        """The scripts in pgbench's language; none if something else runs the transactions."""
        return []

    @property
    def query_files(self) -> Sequence[str]:
        """The queries that are each measured by themselves: files, or names."""
        return ()

    def query_options(self, query: str | None = None) -> list[str]:
        """Return the engine's options that choose `query`, one of `query_files`; None: all of them."""
        raise NotImplementedError

    @property
    def known_results(self) -> Mapping[str, QueryResult]:
        """What queries must return, as far as it is known."""
        return {}

    @property
    def runs_cold(self) -> bool:
        """Whether each of `query_files` also runs once in each trial without anything in memory."""
        return False

    @property
    def counts_queries(self) -> bool:
        """Whether the instructions of each of `query_files` are counted once in each arm."""
        return False

    @property
    def transactions(self) -> Sequence[str]:
        """The names of its scripts, or kinds of transactions, for mixes."""
        return [weighted_name(script)[0] for script in self.scripts]

    @property
    def dataset_name(self) -> str:
        return str(self.dataset)

    @property
    def own_data(self) -> SqlDataset | None:
        """The dataset that the plan's SQL files make; None for another."""
        return self.dataset if isinstance(self.dataset, SqlDataset) else None

    def data_at(self, point: Point) -> DataKey:
        """Return what identifies the dataset of a trial at `point`."""
        values = self.own_data.values(point.variables) if self.own_data is not None else {}
        return point.scale, tuple(values.items())

    @property
    def known_variables(self) -> dict[str, str]:
        """The variables of its scripts and of its dataset's files."""
        return {**(self.own_data.variables if self.own_data is not None else {}), **self.variables}

    @property
    def dataset_options(self) -> dict[str, Any]:
        """What distinguishes its dataset from others of the same name and size."""
        return {"tables": self.tables} if self.dataset == SBTEST else {}

    @property
    def size(self) -> int:
        """In the dataset's own unit, unless the sweep sets it."""
        return self.table_size if self.dataset == SBTEST else self.scale

    def resize(self, size: int) -> Self:
        """Return it with another `size`."""
        return self.model_copy(update={"table_size" if self.dataset == SBTEST else "scale": size})

    def tell_size(self, size: int, was: int, on_disk: str) -> Message:
        """Says that a budget reduced the size of the dataset, which takes `on_disk`."""
        return Message(
            "scale-reduced", "the largest scale is {now:,} ({size}) instead of {was:,}", now=size, size=on_disk, was=was
        )

    def estimated_s(self, clients: int) -> float | None:
        """Return an estimate of the seconds of a trial that runs given queries once; None for other kinds."""
        del clients
        return None

    def describe(self) -> str:
        """Describe it: `select-only on pgbench's tables`."""
        return f"{', '.join(self.scripts)} on {self.dataset_words}"

    @property
    def dataset_words(self) -> str:
        return "no dataset" if self.dataset == "none" else f"{self.dataset_name}'s tables"

    def executes(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield what it runs on this machine or may do to the server: the key and a description."""
        yield from ()

    def text_effect(self, name: str, folder: Path) -> Effect | None:
        """Return whether the script `name` writes, with files in `folder`; None if only its name is known."""
        return effect_of_script(name, folder) if self.written_scripts else None

    def engine_options(self) -> list[str]:
        return script_options(self.written_scripts)

    def listing_options(self, seed: int) -> list[str] | None:
        """Return options with which the engine prints the statements of a trial; None if it does not know them."""
        del seed
        return ["--check=statements", *self.engine_options()] if self.written_scripts else None

    def read_listing(self, printed: str) -> list[Statement]:
        """Return the statements in what the engine printed that have a plan."""
        lines = map(json.loads, printed.splitlines())
        found = (Statement(line["script"], line["id"], line["text"].rstrip("; \n")) for line in lines)
        return [each for each in found if has_plan(each.text)]

    def value_options(self, point: Point) -> list[str]:
        """Return the engine's options for variables and sizes."""
        # the plan's own variables override the sizes
        values = [*self.size_variables(point).items(), *(self.known_variables | point.variables).items()]
        scale = [f"--scale={point.scale}"] if self.dataset == "none" and point.scale is not None else []
        return [*(f"--define={name}={value}" for name, value in values), *scale]

    def replay_options(
        self, capture: Capture, file: Path, seed: int, workers: int | None, duration_s: float | None
    ) -> list[str] | None:
        """Return the engine's options for a trial of `duration_s` that replays `file`; None if the kind has others.

        The file has the number of clients, the protocol and the time of each statement of `capture`.
        """
        del capture, file, seed, workers, duration_s
        return None

    def size_variables(self, point: Point) -> dict[str, object]:
        """Return the variables that scripts for sbtest's tables have."""
        return {"tables": self.tables, "table_size": point.scale} if self.dataset == SBTEST else {}


def sweeps(document: Document, key: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the path of `key` in the sweep, and in each of its points."""
    points = document.value_at(("sweep", "points"))
    count = len(points) if isinstance(points, list) else 0
    yield from (("sweep", *key), *(("sweep", "points", number, *key) for number in range(count)))


def effect_of_script(name: str, folder: Path) -> Effect | None:
    """Return whether a script of the plan in `folder` writes; None for one of the engine's."""
    if name in BUILTIN_SCRIPTS:
        return None
    try:
        return effect_of_sql((folder / name).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return Effect.UNKNOWN


def script_options(scripts: Iterable[str]) -> list[str]:
    """Return `-b` and `-f` for scripts with their weights; paths are relative to the folder where the engine runs."""
    return [
        each for script in scripts for each in ("-b" if weighted_name(script)[0] in BUILTIN_SCRIPTS else "-f", script)
    ]
