"""Writes the plan of `pgdyno impact`: one operation under load, in pairs with trials without it."""

from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.plan.ab_plan import (
    Question,
    check_access,
    check_encoding,
    reset_of,
    script_entries,
    server_tables,
    setting_values,
    setup_dataset,
)
from pgdyno.plan.optional_sections import ACTIONS
from pgdyno.plan.plan_text import Table, plan_text
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
    group = "session_settings" if asked.dsn else "settings"
    ((name, target),) = targets.items()
    given = {each: values[0] for each, values in settings.items()}
    kept = target.get(group)
    target |= {group: (kept if isinstance(kept, dict) else {}) | given} if given else {}
    event: Table = {"at": f"{STEADY_S:g}s", "do": {"sql": operation.do} if operation.is_sql else operation.do}
    event |= {"undo": operation.undo} if operation.undo else {}
    event |= {"limit": operation.limit, "control": CONTROL}
    event |= {"max_rate": operation.max_rate} if operation.max_rate else {}
    duration = format_duration(AROUND_S + limit_s)
    tables: dict[str, Table] = {
        f"target.{name}": target,
        "workload": {"scripts": script_entries(asked, folder), **_dataset(asked, operation, folder)},
        "sweep": {"clients": asked.clients, **({} if asked.rate is None else {"rate": asked.rate})}
        | {"variables": {CONTROL: ["with", "without"]}},
        "trial": {"warmup": asked.warmup, "duration": duration, "until": "recovered", "repeats": operation.repeats}
        | {"order": "as-listed", "on_failure": "stop"},
        "event": event,
        **reset_of(asked),
    }
    return plan_text("impact", {"name": "impact", "description": operation.do}, tables)


def _dataset(asked: Question, operation: Operation, folder: Path) -> Table:
    if operation.setup is None:
        return {"dataset": "none"} if asked.dsn else {"scale": asked.scale or 10}
    if asked.scale is not None and not asked.dsn:
        raise UsageError("--scale is the size of pgbench's tables, which --setup replaces", hint="remove one of them")
    return setup_dataset(asked, [str(operation.setup)], folder)
