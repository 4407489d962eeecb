"""Merges a plan with those that it extends: tables are merged, other values are replaced.

`"settings.work_mem" = …`, `settings.work_mem = …` and `[sweep.settings]` are equivalent; later code sees only the last
form, in the content and in the paths of lines.
"""

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path as FilePath
from typing import Any

from pgdyno.errors import PlanError, Problem, UsageError
from pgdyno.mounts import exists, expand_home, is_file
from pgdyno.plan.kinds import WORKLOAD_KINDS
from pgdyno.plan.model import BUILTIN_SCRIPTS
from pgdyno.plan.plan_document import Document, KeyPath, key_lines
from pgdyno.plan.reading.plan_files import PlanFile, decode, find_plan, parse
from pgdyno.plan.sweeps.spec import place_after_spread, spread_keys


def one_form(data: Mapping[str, Any]) -> tuple[dict[str, Any], list[KeyPath]]:
    """Return the parsed plan `data` in one form, and paths that occur in two forms."""
    plan = dict(data)
    if not isinstance(plan.get("sweep"), dict):
        return plan, []
    sweep, places = spread_keys(plan["sweep"])
    twice: list[KeyPath] = [("sweep", *place) for place in places]
    if isinstance(sweep.get("points"), list):
        points = []
        for number, point in enumerate(sweep["points"]):
            flat, places = spread_keys(point) if isinstance(point, dict) else (point, [])
            points.append(flat)
            twice += [("sweep", "points", number, *place) for place in places]
        sweep["points"] = points
    plan["sweep"] = sweep
    return plan, twice


def moved_in_plan(path: KeyPath) -> KeyPath:
    """Return the path after `one_form` of what was at `path` of a plan."""
    if path[:2] == ("sweep", "points"):
        return (*path[:3], *place_after_spread(path[3:]))
    return ("sweep", *place_after_spread(path[1:])) if path[:1] == ("sweep",) else path


EXTENDS = "extends"
LONGEST_CHAIN = 20

_INSTEAD: Mapping[KeyPath, Sequence[KeyPath]] = {
    ("trial", "duration"): [("trial", "transactions"), ("phase",)],
    ("trial", "transactions"): [("trial", "duration"), ("trial", "warmup"), ("phase",)],
    ("phase",): [("trial", "duration"), ("trial", "transactions"), ("trial", "warmup"), ("sweep", "rate")],
    ("sweep", "rate"): [("phase",)],
}
"""Keys that exclude each other: a plan with one of them does not inherit the others."""


@dataclass(frozen=True, slots=True)
class Read:
    """A plan merged with all plans that it extends."""

    document: Document
    text: str
    """The text of its own file."""
    problems: list[Problem] = field(default_factory=list)


def read_with_bases(file: PlanFile) -> Read:
    """Read `file` and the plans that it extends. Raises PlanError if one is missing or invalid, or for a cycle."""
    return _read(file, file.folder, [])


def _read(file: PlanFile, folder: FilePath, above: list[PlanFile]) -> Read:
    text = decode(file)
    data, twice = one_form(parse(file.source, text))
    lines = {moved_in_plan(path): line for path, line in key_lines(text).items()}
    data = data | {key: _sources_from(data[key], file.folder) for key in ("target", "on") if key in data}
    if file.folder != folder:
        data = _scripts_from(data, file.folder, folder)
    inherited = file.source if above else None
    document = Document(data, lines, sources=dict.fromkeys(lines, inherited) if inherited else {})
    problems = [document.problem(path, "is given twice, in two forms", "remove one of them") for path in twice]
    if EXTENDS not in data:
        return Read(document, text, problems)
    base = _read(_base(file, document, above), folder, [*above, file])
    return Read(_merge_documents(base.document, document), text, problems + base.problems)


def _base(file: PlanFile, document: Document, above: Sequence[PlanFile]) -> PlanFile:
    """Return the plan that `file` extends. Raises PlanError."""
    name = document.data[EXTENDS]
    if not isinstance(name, str) or not name.strip():
        problem = document.problem((EXTENDS,), "must be the name of a plan", 'such as extends = "quick"')
        raise PlanError(file.source, [problem])
    try:
        base = _find(name, file.folder)
    except UsageError as error:
        raise PlanError(file.source, [document.problem((EXTENDS,), error.message, error.hint)]) from error
    chain = [*above, file]
    if any(base.path == each.path for each in chain):
        circle = " → ".join(each.source for each in [*chain, base])
        raise PlanError(file.source, [document.problem((EXTENDS,), f"forms a cycle: {circle}", "remove one extends")])
    if len(chain) >= LONGEST_CHAIN:
        raise PlanError(
            file.source, [document.problem((EXTENDS,), f"exceeds the limit of {LONGEST_CHAIN} nested plans")]
        )
    return base


def _find(name: str, folder: FilePath) -> PlanFile:
    path = expand_home(name)
    for candidate in (path, path.parent / f"{path.name}.toml"):
        if is_file(folder / candidate):
            return find_plan(os.path.relpath(folder / candidate))
    return find_plan(name if path.name == name else str(folder / path))


# ---- merging ----


def _merge_documents(base: Document, own: Document) -> Document:
    lines, sources = dict(base.lines), dict(base.sources)
    data = _without_replaced(base.data, own)
    _forget(lines, sources, lambda path: base.value_at(path) is not None and Document(data, {}).value_at(path) is None)
    merged = _merge_tables(data, own.data, (), lines, sources)
    for path, line in own.lines.items():
        lines[path] = line
        sources.pop(path, None)
        if path in own.sources:
            sources[path] = own.sources[path]
    return Document(merged, lines, sources=sources)


def _without_replaced(base: Mapping[str, Any], own: Document) -> dict[str, Any]:
    data: dict[str, Any] = copy.deepcopy(dict(base))
    for path, others in _INSTEAD.items():
        if own.value_at(path) is not None:
            for other in others:
                # each is a section, or a key of one
                table = data if len(other) == 1 else data.get(str(other[0]))
                if own.value_at(other) is None and isinstance(table, dict):
                    table.pop(str(other[-1]), None)
    targets, own_targets = data.get("target"), own.value_at(("target",))
    if isinstance(targets, dict) and isinstance(own_targets, dict):
        for name, target in own_targets.items():
            kind = target.get("kind") if isinstance(target, dict) else None
            if kind is not None and isinstance(targets.get(name), dict) and targets[name].get("kind") != kind:
                # the keys of another kind would be refused
                del targets[name]
    return data


def _merge_tables(
    base: Mapping[str, Any],
    own: Mapping[str, Any],
    path: KeyPath,
    lines: dict[KeyPath, int],
    sources: dict[KeyPath, str],
) -> dict[str, Any]:
    merged = dict(base)
    for key, value in own.items():
        at = (*path, key)
        if isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = _merge_tables(merged[key], value, at, lines, sources)
        else:
            _forget(lines, sources, partial(_is_below, at))
            merged[key] = value
    return merged


def _is_below(around: KeyPath, path: KeyPath) -> bool:
    return path[: len(around)] == around


def _forget(lines: dict[KeyPath, int], sources: dict[KeyPath, str], gone: Callable[[KeyPath], bool]) -> None:
    for path in [path for path in lines if gone(path)]:
        del lines[path]
        sources.pop(path, None)


# ---- scripts ----


def _scripts_from(data: dict[str, Any], folder: FilePath, to: FilePath) -> dict[str, Any]:
    """Rewrites paths of scripts and captures in `data`, relative to `folder`, so that they are relative to `to`."""
    data = dict(data)
    moved: dict[str, str] = {}
    for section in ("workload", "replica_load", "group", "step"):
        tables = data.get(section)
        changed = [
            _with_moved_files(each, folder, to, moved) for each in (tables if isinstance(tables, list) else [tables])
        ]
        if section in data:
            data[section] = changed if isinstance(tables, list) else changed[0]
    workload = data.get("workload")
    if isinstance(workload, dict):
        keys = {"captured"}.union(*(schema.naming_files for schema in WORKLOAD_KINDS.values()))
        data["workload"] = workload | {key: _files_from(workload[key], folder, to) for key in keys & workload.keys()}
        dataset = workload.get("dataset")
        if isinstance(dataset, dict):
            data["workload"]["dataset"] = dataset | {"sql": _files_from(dataset.get("sql"), folder, to)}
    names = {_name(before): _name(after) for before, after in moved.items()}
    if isinstance(data.get("phase"), list):
        data["phase"] = [
            phase | {"mix": {names.get(name, name): weight for name, weight in phase["mix"].items()}}
            if isinstance(phase, dict) and isinstance(phase.get("mix"), dict)
            else phase
            for phase in data["phase"]
        ]
    return data


_SOURCES = ("source", "patches")
"""Keys with paths of sources, in targets and their extensions."""


def _sources_from(node: object, folder: FilePath) -> object:
    """Return a part of the plan whose sources and patches next to the plan have absolute paths: a run that is resumed
    elsewhere builds them, too.
    """
    if isinstance(node, list):
        return [_sources_from(each, folder) for each in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _files_from(value, folder, None) if key in _SOURCES else _sources_from(value, folder)
        for key, value in node.items()
    }


def _with_moved_files(table: object, folder: FilePath, to: FilePath, moved: dict[str, str]) -> object:
    """Return a section with its scripts and SQL file moved; add the scripts to `moved`."""
    if not isinstance(table, dict):
        return table
    scripts = table.get("scripts")
    if isinstance(scripts, list):
        moved |= {each: _script_from_folder(each, folder, to) for each in scripts if isinstance(each, str)}
        table = table | {"scripts": [moved[each] if isinstance(each, str) else each for each in scripts]}
    return table | {"sql": _files_from(table["sql"], folder, to)} if "sql" in table else table


def _files_from(files: object, folder: FilePath, to: FilePath | None) -> object:
    """Return `files` in `folder` with paths relative to `to`; None: with absolute ones. Others stay as they are."""
    if isinstance(files, list):
        return [_files_from(each, folder, to) for each in files]
    if not isinstance(files, str) or not _is_relative_to(folder, files):
        return files
    return os.path.normpath(folder.absolute() / files) if to is None else os.path.relpath(folder / files, to)


def _is_relative_to(folder: FilePath, name: str) -> bool:
    return not FilePath(name).is_absolute() and exists(folder / name)


def _script_from_folder(script: str, folder: FilePath, to: FilePath) -> str:
    name = _name(script)
    if name in BUILTIN_SCRIPTS or not _is_relative_to(folder, name):
        return script
    return os.path.relpath(folder / name, to) + script[len(name) :]


def _name(script: str) -> str:
    name, at, weight = script.rpartition("@")
    return name if at and weight.isdigit() else script
