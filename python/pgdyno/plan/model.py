"""The plan's schema: what may stand in the file, with its defaults.

`docs/reference/plan.md` describes it for users. A `Plan` is complete and immutable: nothing
inside asks whether a setting was given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from pgdyno.plan.base import HIGHEST_RATE, Model, Positive, Setting, Size
from pgdyno.plan.order import Order, resolved_order
from pgdyno.plan.points import expand
from pgdyno.plan.sweep import Sweep
from pgdyno.plan.targets import BuildTarget, DsnTarget, EmbeddedTarget, LocalTarget, OwnTarget, TargetSpec
from pgdyno.records import Point
from pgdyno.units import parse_duration_s

__all__ = [
    "BUILTIN_SCRIPTS",
    "BuildTarget",
    "DsnTarget",
    "EmbeddedTarget",
    "Hooks",
    "LocalTarget",
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

RESOLVED = "resolved"
"""Context of a validation that reads what `Plan.as_resolved` gave, where durations are seconds."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
LONGEST_NAME = 64
"""Names become parts of folders' names, which file systems limit to 255 bytes."""

BUILTIN_SCRIPTS = ("tpcb-like", "simple-update", "select-only")
"""Scripts that the engine brings; `pgdrive -b list` says the same."""


def _named(text: str) -> str:
    if NAME.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a name; use letters, digits, - and _, starting with a letter or digit")
    if len(text) > LONGEST_NAME:
        raise ValueError(f"a name of {len(text)} letters is too long; {LONGEST_NAME} are the most")
    return text


def _seconds(value: object, info: ValidationInfo) -> object:
    if isinstance(value, str):
        return parse_duration_s(value)
    if info.context == RESOLVED:
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise ValueError(f'give the duration a unit, such as "{value}s"')
    raise ValueError('write a duration as text with a unit, such as "10s" or "5m"')


def _command(value: object) -> object:
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value) and value[0]:
        return value
    raise ValueError('write a line for the shell, "sync; date", or a list of words, ["sync", "-f", "/mnt"]')


def _lasting(text: str) -> str:
    if parse_duration_s(text) <= 0:
        raise ValueError("must be more than 0s")
    return text


def _ramp_of(whole: bool, right: str) -> Callable[[object], object]:
    """Checks a number, or the two that a phase goes from and to."""
    kinds = (int,) if whole else (int, float)

    def check(value: object) -> object:
        numbers = list(value.values()) if isinstance(value, dict) and value.keys() == {"from", "to"} else [value]
        if all(isinstance(each, kinds) and not isinstance(each, bool) and 0 <= each < HIGHEST_RATE for each in numbers):
            return value
        raise ValueError(f"is not right; write {right}")

    return check


Name = Annotated[str, AfterValidator(_named)]
Seconds = Annotated[float, BeforeValidator(_seconds)]
Command = Annotated[str | list[str], BeforeValidator(_command)]
Rate = Annotated[float | dict[str, float], BeforeValidator(_ramp_of(False, "500 or { from = 500, to = 5000 }"))]
Count = Annotated[int | dict[str, int], BeforeValidator(_ramp_of(True, "8 or { from = 1, to = 8 }"))]


class Workload(Model):
    """A dataset and weighted scripts."""

    scripts: list[str] = Field(min_length=1)
    """Built-in names or files, with `@weight` behind them when it is not 1."""
    dataset: Literal["pgbench", "none"] = "pgbench"
    scale: Positive = 1
    variables: dict[str, Setting] = Field(default_factory=dict)


class TrialSpec(Model):
    """How long a trial is, and how often it is repeated."""

    warmup: Annotated[Seconds, Field(ge=0)] = 0.0
    duration: Annotated[Seconds, Field(gt=0)] | None = None
    transactions: Positive | None = None
    repeats: Positive = 1
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

    @model_validator(mode="after")
    def _one_limit(self) -> TrialSpec:
        # that there is one is checked beside the phases, which are one, too
        if self.duration is not None and self.transactions is not None:
            raise ValueError("give either duration or transactions, not both")
        return self


class PhaseSpec(Model):
    """A stretch of every trial at one rate, number of clients and mix; the engine's own keys."""

    name: Name
    duration: Annotated[str, AfterValidator(_lasting)]
    rate: Rate | None = None
    """Transactions a second, or what they go from and to; None in a closed loop."""
    clients: Count | None = None
    """How many of a point's clients are in use; None: all."""
    mix: dict[str, Annotated[int, Field(ge=0)]] | None = None
    """Weights by script; None: the workload's."""
    result: bool = True
    """Whether it counts in the figures."""


class Reset(Model):
    """What is done before every trial, in this order, and what is checked behind it."""

    method: Literal["none", "vacuum", "template", "snapshot", "reload"] = "vacuum"
    """How the dataset is brought back; `vacuum` is what pgbench does, and nothing without a dataset."""
    strategy: Literal["file_copy", "wal_log"] | None = None
    """STRATEGY of CREATE DATABASE, for `template`; None leaves it to the server."""
    file_copy_method: Literal["copy", "clone"] | None = None
    """The server's setting of that name, for strategy `file_copy`; None leaves it as it is."""
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
    target: Annotated[dict[Name, TargetSpec], Field(min_length=1)]
    workload: Workload
    sweep: Sweep
    trial: TrialSpec
    phase: list[PhaseSpec] = Field(default_factory=list)
    """How the load of a trial changes over time, in place of trial.duration; empty: not at all."""
    reset: Reset = Field(default_factory=Reset)
    published: PublishedSpec | None = None
    hooks: Hooks = Field(default_factory=Hooks)

    def points(self) -> list[Point]:
        """Every point of the sweep. Raises ValueError when something is wrong with it."""
        space = expand(self.sweep, self.workload.scale, self.workload.variables)
        if space.problems:
            first = space.problems[0]
            raise ValueError(f"{'.'.join(map(str, ('sweep', *first.place)))}: {first.message}")
        return space.points

    def order(self) -> Order:
        """How trials are ordered."""
        return resolved_order(self.trial.order, list(self.target), self.points())

    def as_resolved(self) -> dict[str, Any]:
        """Every key with its value, defaults filled in: what a manifest keeps."""
        resolved = self.model_dump(mode="json")
        del resolved["extends"]
        resolved["trial"]["order"] = self.order()
        for name in ("phase", "published"):
            if not resolved[name]:
                del resolved[name]
        if not self.hooks.given:
            del resolved["hooks"]
        return resolved

    @classmethod
    def from_resolved(cls, resolved: Mapping[str, Any]) -> Plan:
        """The plan of which `as_resolved` gave `resolved`. Raises ValidationError."""
        return cls.model_validate(resolved, context=RESOLVED)
