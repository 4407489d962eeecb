"""Read a plan with those that it extends, apply `--set` and `--on`, and check all of it."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from pgdyno.errors import PlanError, Problem, UsageError
from pgdyno.messages import Message
from pgdyno.plan.checks.check_all import check_sections
from pgdyno.plan.checks.question import answer_warnings
from pgdyno.plan.checks.sections import read_sections
from pgdyno.plan.kinds import workload_schema
from pgdyno.plan.model import Plan
from pgdyno.plan.plan_document import Document, KeyPath, dotted_path, in_order, split_assignment
from pgdyno.plan.reading.extends import EXTENDS, moved_in_plan, one_form, read_with_bases
from pgdyno.plan.reading.plan_files import PlanFile, find_plan
from pgdyno.plan.time_budget.time_and_disk import data_bytes
from pgdyno.plan.values import refuse_undecodable
from pgdyno.units import format_size, quantity

if TYPE_CHECKING:
    from pgdyno.plan.time_budget.budget import Budget

_HINT = "such as --set trial.duration=5s or --set sweep.clients=[1,2]"


def apply_overrides(data: Mapping[str, Any], overrides: Sequence[str]) -> tuple[dict[str, Any], frozenset[KeyPath]]:
    """Apply each of `overrides` to `data` in turn; return it with the paths that they set.

    Creates missing tables; an element of a list (`sweep.clients[0]`) must exist. Raises UsageError for an invalid
    override.
    """
    changed = copy.deepcopy(dict(data))
    paths = set()
    for override in overrides:
        try:
            path, text = split_assignment(override)
            _put(changed, path, _value(text))
        except ValueError as error:
            raise UsageError(f"cannot apply --set {override}: {error}", hint=_HINT) from error
        paths.add(path)
    return changed, frozenset(paths)


def _value(text: str) -> object:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError) as error:
        if text.lstrip()[:1] in tuple("[{\"'") or "\n" in text:
            raise ValueError("the value is not valid TOML") from error
        return text.strip()
    if list(parsed) != ["value"]:
        raise ValueError("give one value")
    value: object = parsed["value"]
    return value


def _put(data: dict[str, Any], path: KeyPath, value: object) -> None:
    node: Any = data
    for length, key in enumerate(path[:-1], start=1):
        if isinstance(node, dict) and isinstance(key, str):
            node = node.setdefault(key, {})
        else:
            node = node[_place(node, key, path[:length])]
    key = path[-1]
    if isinstance(node, dict) and isinstance(key, str):
        node[key] = value
    else:
        node[_place(node, key, path)] = value


def _place(node: object, key: str | int, path: KeyPath) -> int:
    """Return the index `key` of the list `node` in the middle of `path`. Raises ValueError."""
    around = dotted_path(path[:-1])
    if not isinstance(node, list):
        what = "a table" if isinstance(node, dict) else "one value"
        raise ValueError(f"{around} is {what}, {'not a list' if isinstance(key, int) else 'not a table'}")
    if not isinstance(key, int):
        if not key.isdecimal():
            raise ValueError(f"{around} is a list; its elements are {around}[0] and so on")
        key = int(key)
    if key >= len(node):
        raise ValueError(f"{around} has {quantity(len(node), 'element')}, counted from 0")
    return key


ON, TARGET = "on", "target"
ANYWHERE: dict[str, dict[str, Any]] = {
    "dsn": {"server": {"kind": "dsn", "dsn": ""}},
    "embedded": {"here": {"kind": "embedded", "version": "18"}},
    "pool": {"host": {"kind": "pool", "version": "18"}},
}
"""The defaults of every plan: a server at libpq's variables, an embedded server of the newest version, and one on a
host that `--set target.host.hosts=…` names.
"""


def on_others(document: Document, name: str | None) -> Document:
    """Replace the targets of `document` by those under `on.NAME`, if a name is given. Raises UsageError."""
    if name is None:
        return document
    named = document.data.get(ON)
    others = ANYWHERE | named if isinstance(named, dict) else ANYWHERE
    if name not in others:
        hint = f"available: {', '.join(sorted(others))}; to add others: a table [on.{name}.TARGET] in the plan"
        raise UsageError(f"the plan has no targets for --on {name}", hint=hint)
    data = {key: value for key, value in document.data.items() if key not in (ON, "price", "generator")}
    lines = {_move_path(path, name): line for path, line in document.lines.items() if path[:1] != (TARGET,)}
    sources = {_move_path(path, name): source for path, source in document.sources.items() if path[:1] != (TARGET,)}
    return replace(document, data=data | {TARGET: others[name]}, lines=lines, sources=sources)


def _move_path(path: KeyPath, name: str) -> KeyPath:
    return (TARGET, *path[2:]) if path[:2] == (ON, name) else path


@dataclass(frozen=True, slots=True)
class LoadedPlan:
    plan: Plan
    source: str
    """The path or catalogue name that the user gave."""
    text: str
    """The plan's own file, without `--set` and without what it extends."""
    folder: Path
    """Script files are relative to it."""
    document: Document = field(default_factory=lambda: Document({}, {}), repr=False)
    """The merged content and its lines."""
    gave_up: tuple[Message, ...] = ()
    """The reductions for a budget."""
    budget: Budget | None = None
    """The time that the whole run may take; None: as long as it needs."""

    @property
    def warnings(self) -> list[Problem]:
        """Why the plan may not answer its question, in file order."""
        warnings = answer_warnings(self.plan, self.document, self.folder)
        return in_order([*warnings, *_too_large(self.plan, self.document)])


LARGEST_BYTES = 64 << 40
"""The largest volume that Amazon rents. `pgdyno doctor` and each run compare the size with the disk."""


def _too_large(plan: Plan, document: Document) -> Iterator[Problem]:
    needed = max((data_bytes(plan, point.scale or plan.workload.size) for point in plan.points()), default=0)
    if needed > LARGEST_BYTES:
        section = "workload" if document.value_at(("sweep", "scale")) is None else "sweep"
        message = f"the dataset would have about {format_size(needed)}, more than any disk"
        yield document.problem((section, "scale"), message, "use a smaller scale")


def load_plan(source: str | Path, overrides: Sequence[str] = (), on: str | None = None) -> LoadedPlan:
    """Load the plan in the file `source` or in the catalogue, and apply `overrides` (`path=value`).

    `on` replaces the plan's targets. Overrides are applied last. Raises UsageError if the plan does not exist or an
    override is invalid, PlanError with all problems of the plan.
    """
    file = find_plan(str(source))
    try:
        return _load(file, overrides, on)
    except RecursionError as error:
        # dotted keys nest tables without a limit
        raise PlanError(file.source, [Problem("", "is nested too deeply")]) from error


def load_text(text: str, folder: Path, source: str) -> LoadedPlan:
    """Load the plan `text`, which `source` wrote, as if it were a file in `folder`.

    Raises PlanError without lines, UsageError for text that is not UTF-8.
    """
    refuse_undecodable("a path in the plan", text)
    file = PlanFile(source, folder / "plan.toml", text.encode())
    return _load(file, (), None, has_lines=False)


def _load(file: PlanFile, overrides: Sequence[str], on: str | None, *, has_lines: bool = True) -> LoadedPlan:
    refuse_undecodable(f"the path {file.path}", str(file.path))
    for each in overrides:
        refuse_undecodable(f"--set {each}", each)
    read = read_with_bases(file)
    if not has_lines:
        read = replace(read, document=replace(read.document, lines={}))
    chosen = on_others(read.document, on)
    data, overridden = apply_overrides(chosen.data, overrides)
    if any(path[:1] == (EXTENDS,) for path in overridden):
        raise UsageError(
            "cannot apply --set extends: pgdyno reads extended plans before", hint=f"write {EXTENDS} into the file"
        )
    document = replace(chosen, data=one_form(data)[0], overridden=frozenset(moved_in_plan(path) for path in overridden))
    plan = _validate(file.source, file.folder, document, read.problems)
    return LoadedPlan(plan, file.source, read.text, file.folder, document)


def _nul(value: object, path: KeyPath = ()) -> Iterator[KeyPath]:
    if isinstance(value, str) and "\0" in value:
        yield path
    elif isinstance(value, dict):
        for name, below in value.items():
            if "\0" in name:
                yield path
            yield from _nul(below, (*path, name))
    elif isinstance(value, list):
        for place, below in enumerate(value):
            yield from _nul(below, (*path, place))


def _validate(source: str, folder: Path, document: Document, known: Sequence[Problem]) -> Plan:
    problems = list(known)
    plan: Plan | None = None
    nul = [document.problem(path, "contains a NUL character", "remove it") for path in _nul(document.data)]
    if nul:
        # neither the system nor PostgreSQL takes it: no other check has to expect it
        raise PlanError(source, in_order(nul))
    schema = workload_schema(document.value_at(("workload",)))
    problems += schema.check_excluded(document)
    document, of_files = schema.complete(document, folder)
    problems += of_files
    try:
        plan = Plan.model_validate(document.data)
    except ValidationError as error:
        # it loads the schemas of all kinds
        from pgdyno.plan.reading.problems import schema_problems

        problems += schema_problems(error, document)
    problems += check_sections(read_sections(document, folder))
    if plan is None or problems:
        raise PlanError(source, in_order(problems))
    return plan
