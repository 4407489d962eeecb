"""Lists the code that a plan runs, without running any of it."""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from pgdyno.plan.loaded_plan import LoadedPlan
from pgdyno.plan.own_data.psql_reader import Reader
from pgdyno.plan.own_data.sql_dataset import readers_in_order
from pgdyno.plan.plan_document import KeyPath
from pgdyno.plan.sweeps.spec import SESSION
from pgdyno.plan.targets import TargetSpec
from pgdyno.plan.workload import parse_script

_HOOKS = ("before_run", "after_run", "before_trial", "after_trial")
_SETTINGS = re.compile(
    r".*command|.*librar(y|ies)|jit_provider|dynamic_library_path|extension_control_path|plperl\.on_\w+", re.IGNORECASE
)
"""PostgreSQL settings that name commands or libraries, also those of extensions (basebackup_to_shell.command)."""
# wherever they are, because SQL and comments may precede them on their line; a line may continue on the next
_META_COMMAND = re.compile(r"\\(?:set)?shell\b(?:\\\n|[^\n])*", re.IGNORECASE)
_PROGRAM = re.compile(r"\bPROGRAM\s*(?:E?'|U&'|\$|/\*|--)[^\n]*", re.IGNORECASE)


class Executed(NamedTuple):
    """Code that a plan runs, and the field that says so."""

    field: str
    """Such as `hooks.before_run`."""
    file: str
    """The plan, or the plan that it extends."""
    line: int | None
    """None if `--set` gave it."""
    what: str
    """A command with its arguments, or a description."""
    inherited: bool
    """Whether it comes from a plan that this one extends."""

    def text(self) -> str:
        """One line that begins with the field's location."""
        place = f"{self.file}:{self.line}" if self.line is not None else "--set"
        return f"{place}: {self.field}: {self.what}"


def list_executed_code(loaded: LoadedPlan) -> list[Executed]:
    """Return the code that `loaded` runs, in the order of the plan's sections.

    Servers that pgdyno starts run as its user, and the load connects as their superuser: any SQL of a script can start
    programs there. Only explicit cases (COPY ... PROGRAM) are listed.
    """
    found = []
    for path, what in _all_code(loaded):
        place = loaded.document.problem(path, "")
        found.append(Executed(place.path, place.source or loaded.source, place.line, what, place.source is not None))
    return found


def executed_lines(loaded: LoadedPlan) -> list[str]:
    found = list_executed_code(loaded)
    if not found:
        return ["the plan has no hooks or commands that run on this host"]
    return ["this plan runs on this host:", *(f"  {each.text()}" for each in found)]


def _all_code(loaded: LoadedPlan) -> Iterator[tuple[KeyPath, str]]:
    plan = loaded.plan
    for name, target in plan.target.items():
        yield from _target(("target", name), target)
    for group in ("settings", SESSION):
        for path in (("sweep", group), *_points(loaded, group)):
            yield from _settings(path, loaded.document.value_at(path))
    for path, text in plan.workload.executes():
        yield ("workload", *path), text
    yield from _scripts(loaded)
    yield from _data(loaded)
    for number, event in enumerate(plan.event):
        if event.command is not None:
            yield ("event", number, "do"), _shell(event.command)
    for name in _HOOKS:
        command = getattr(plan.hooks, name)
        if command is not None:
            yield ("hooks", name), _shell(command) if isinstance(command, str) else shlex.join(command)


def _target(path: KeyPath, target: TargetSpec) -> Iterator[tuple[KeyPath, str]]:
    for key, text in target.executes():
        yield (*path, *key), text
    yield from _settings((*path, "settings"), target.settings)
    yield from _settings((*path, SESSION), target.session_settings)


def _points(loaded: LoadedPlan, key: str) -> Iterator[KeyPath]:
    points = loaded.document.value_at(("sweep", "points"))
    for number in range(len(points) if isinstance(points, list) else 0):
        yield ("sweep", "points", number, key)


def _settings(path: KeyPath, settings: object) -> Iterator[tuple[KeyPath, str]]:
    table: Mapping[str, Any] = settings if isinstance(settings, dict) else {}
    for name, value in table.items():
        if _SETTINGS.fullmatch(str(name)) and value != "":
            yield (*path, name), f"the server runs or loads what its setting names: {value}"


def _scripts(loaded: LoadedPlan) -> Iterator[tuple[KeyPath, str]]:
    plan = loaded.plan
    loads: list[tuple[KeyPath, list[str]]] = [(("workload",), plan.workload.written_scripts)]
    loads += [(("group", place), each.scripts or []) for place, each in enumerate(plan.group) if not each.has_trial]
    for section, scripts in loads:
        for number, choice in enumerate(map(parse_script, scripts)):
            if choice.builtin:
                continue
            text = _read(loaded.folder / choice.name)
            found = [*_META_COMMAND.finditer(text), *_PROGRAM.finditer(text)]
            for each in sorted(found, key=lambda match: match.start()):
                line = text.count("\n", 0, each.start()) + 1
                one_line = re.sub(r"\s*\\\n\s*", " ", each[0]).strip()
                yield loaded.document.as_written((*section, "scripts", number)), f"{choice.name}:{line}: {one_line}"


def _data(loaded: LoadedPlan) -> Iterator[tuple[KeyPath, str]]:
    data = loaded.plan.workload.own_data
    if data is None:
        return
    for statements in readers_in_order(data, Reader(loaded.folder, dict(data.variables))):
        for statement in statements:
            for each in _PROGRAM.finditer(statement.text):
                line = statement.line_at(each.start() + 1)
                yield ("workload", "dataset", "sql"), f"{statement.file}:{line}: {each[0].strip()}"
            for _ in statement.data:
                pass


def _read(file: FilePath) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        # the engine reports the reason when it reads the file
        return ""


def _shell(line: str) -> str:
    return f"/bin/sh -c {shlex.quote(line)}"
