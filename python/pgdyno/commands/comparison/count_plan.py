"""Writes the plan of `pgdyno count`, as text that `pgdyno run` reads, too."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.plan.ab_plan import Question, check_encoding, script_entries, server_tables, setting_values, with_sources
from pgdyno.plan.plan_text import Table, plan_text

FIXED = {"autovacuum": "off", "max_parallel_workers_per_gather": "0"}
"""Settings of each arm that --set does not name: nothing else runs, and one process executes the whole statement."""


@dataclass(frozen=True, slots=True)
class CountQuestion:
    servers: Question
    """Servers, settings and scripts, as those of `pgdyno ab`."""
    protocols: Sequence[str] = ("simple",)
    transactions: int = 40
    repeats: int = 3
    scale: int | None = None
    """Of pgbench's tables; None: 1."""
    counter: str = "auto"
    stacks: bool = False
    """Whether to take a flame graph of each arm."""


def count_plan(asked: CountQuestion, folder: Path) -> str:
    """Return the TOML text of the plan, whose scripts are relative to `folder`. Raises UsageError."""
    question = asked.servers
    check_encoding(question)
    settings = setting_values(question.settings)
    targets = with_sources(question, server_tables(question))
    varied = [name for name, values in settings.items() if len(values) > 1]
    if len(varied) + (len(targets) > 1) + (len(asked.protocols) > 1) > 1:
        hint = "give several values to one of --set NAME=A,B, --version A,B, --bin (twice) and --protocol A,B"
        raise UsageError("several questions at once", hint=hint)
    fixed = {name: value for name, value in FIXED.items() if name not in {each.lower() for each in settings}}
    tables: dict[str, Table] = {f"target.{name}": table | {"settings": fixed} for name, table in targets.items()}
    tables |= {
        "workload": {"scripts": script_entries(question, folder), "scale": asked.scale or 1},
        "sweep": {"clients": 1, "protocol": list(asked.protocols)},
        "sweep.settings": dict(settings),
        "trial": {"measure": "instructions", "counter": asked.counter, "transactions": asked.transactions}
        | {"repeats": asked.repeats, "on_failure": "stop"},
        "reset": {"method": "snapshot"},
        "probe": {"host": False, "waits_hz": 0, "profile": asked.stacks},
    }
    return plan_text("count", {"name": "count"}, tables)
