"""Writes the plan of `pgdyno impact`: one operation under load, in pairs with trials without it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pgdyno.effect.read_only import READ_ONLY
from pgdyno.errors import UsageError
from pgdyno.plan.ab_plan import (
    Question,
    check_access,
    check_encoding,
    script_entries,
    server_tables,
    setting_values,
    setup_line,
    table_lines,
    toml_key,
    toml_list,
    toml_text,
)
from pgdyno.plan.optional_sections import ACTIONS
from pgdyno.plan.values import refuse_undecodable
from pgdyno.units import format_duration, parse_duration_s

STEADY_S = 10.0
"""Measured before the operation."""
AROUND_S = 150.0
"""The longest time of a trial without its operation: until the load is steady, and until it is as before."""
CONTROL = "operation"


@dataclass(frozen=True, slots=True)
class Operation:
    """The options of `pgdyno impact` that are not those of the load."""

    do: str
    undo: str | None = None
    limit: str = "10m"
    max_rate: str | None = None
    repeats: int = 5
    setup: Path | None = None
    """A file of SQL that makes the tables on a server that pgdyno starts."""

    @property
    def is_sql(self) -> bool:
        return self.do not in ACTIONS


def impact_plan(asked: Question, operation: Operation, folder: Path) -> str:
    """Return the TOML text of the plan, whose scripts are relative to `folder`. Raises UsageError."""
    check_encoding(asked)
    for option, text in (("--do", operation.do), ("--undo", operation.undo or "")):
        refuse_undecodable(option, text)
    targets, settings = server_tables(asked), setting_values(asked.settings)
    several = [f"--set {name}" for name, values in settings.items() if len(values) > 1]
    if len(targets) > 1 or several:
        message = f"several servers or values: {', '.join([*several, *targets])}"
        raise UsageError(message, hint="an impact is that of one operation on one server")
    check_access(asked, settings)
    try:
        limit_s = parse_duration_s(operation.limit)
    except ValueError as error:
        raise UsageError(f"--limit: {error}") from error
    lines = ["# written by pgdyno impact", 'name = "impact"', f"description = {toml_text(operation.do)}"]
    for name, table in targets.items():
        lines += ["", f"[target.{name}]", *table_lines(table)]
        kept = {READ_ONLY: "on"} if asked.dsn and not asked.writes else {}
        kept |= {each: values[0] for each, values in settings.items()}
        if kept:
            lines += ["", f"[target.{name}.{'session_settings' if asked.dsn else 'settings'}]"]
            lines += [f"{toml_key(each)} = {toml_text(value)}" for each, value in kept.items()]
    lines += [
        "",
        "[workload]",
        f"scripts = {toml_list(script_entries(asked, folder))}",
        _dataset(asked, operation, folder),
    ]
    lines += ["", "[sweep]", f"clients = {asked.clients}"]
    lines += [] if asked.rate is None else [f"rate = {asked.rate!r}"]
    lines += [f'variables.{CONTROL} = ["with", "without"]']
    lines += ["", "[trial]", f"warmup = {toml_text(asked.warmup)}"]
    lines += [f'duration = "{format_duration(AROUND_S + limit_s)}"     # at the longest', 'until = "recovered"']
    lines += [f"repeats = {operation.repeats}", 'order = "as-listed"', 'on_failure = "stop"']
    do = f"{{ sql = {toml_text(operation.do)} }}" if operation.is_sql else toml_text(operation.do)
    lines += ["", "[[event]]", f'at = "{STEADY_S:g}s"', f"do = {do}"]
    lines += [f"undo = {toml_text(operation.undo)}"] if operation.undo else []
    lines += [f"limit = {toml_text(operation.limit)}", f'control = "{CONTROL}"']
    lines += [f"max_rate = {toml_text(operation.max_rate)}"] if operation.max_rate else []
    if asked.dsn:
        lines += ["", "[reset]", "checkpoint = false      # a server in use makes its own checkpoints"]
    return "\n".join(lines) + "\n"


def _dataset(asked: Question, operation: Operation, folder: Path) -> str:
    if operation.setup is None:
        return 'dataset = "none"' if asked.dsn else f"scale = {asked.scale or 10}"
    if asked.scale is not None and not asked.dsn:
        raise UsageError("--scale is the size of pgbench's tables, which --setup replaces", hint="remove one of them")
    return setup_line(asked, [str(operation.setup)], folder)
