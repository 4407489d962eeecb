"""The search that `pgdyno tune` adds to a plan without one."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pgdyno.errors import UsageError
from pgdyno.host import describe_host
from pgdyno.plan import load_plan
from pgdyno.plan.model import CONFIRMING_PAIRS
from pgdyno.plan.targets import NetworkTarget


def search_overrides(source: str, overrides: Sequence[str], on: str | None) -> list[str]:
    """Returns `overrides`, and those that add a search for settings to a plan without a search.

    Raises PlanError, UsageError if the plan searches for something else.
    """
    plan = load_plan(source, overrides, on).plan
    if plan.search is not None:
        if plan.search.find != "settings":
            raise UsageError(
                f"the plan searches for {plan.search.kind.goal}", hint='set search.find = "settings", or use pgdyno run'
            )
        return list(overrides)
    by_session = any(isinstance(target, NetworkTarget) for target in plan.target.values())
    over = usual_space(describe_host().memory_bytes, by_session=by_session)
    search = [f"search.over.{name}={json.dumps(value)}" for name, value in over.items()]
    return [*overrides, f"trial.repeats={CONFIRMING_PAIRS}", 'search.find="settings"', *search]


def usual_space(memory_bytes: int, *, by_session: bool) -> dict[str, str | list[str]]:
    """Returns the settings that matter most often, with ranges for a machine with so much memory.

    `by_session`: only those that each session may set, for a server that pgdyno did not start. The ends of the ranges
    keep shared_buffers within 40 % of the memory, and work_mem within 1/64.
    """
    memory_mb = memory_bytes >> 20
    found: dict[str, str | list[str]] = {
        "work_mem": f"1MB..{max(8, memory_mb // 64)}MB log",
        "random_page_cost": "1..4",
        "effective_cache_size": f"{max(64, memory_mb // 8)}MB..{max(128, memory_mb * 3 // 4)}MB",
        "jit": ["off", "on"],
    }
    if by_session:
        return found
    return {
        "shared_buffers": f"{min(128, memory_mb // 8)}MB..{memory_mb * 2 // 5}MB log",
        "max_wal_size": "1GB..16GB log",
        "wal_compression": ["off", "on"],
        "bgwriter_delay": "10ms..1000ms log",
        **found,
    }
