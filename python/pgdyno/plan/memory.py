"""Limits settings that need more memory or disk than the machine has."""

from __future__ import annotations

import re

from pgdyno.plan.costs import standbys
from pgdyno.plan.model import Plan
from pgdyno.units import format_bytes

_UNITS = {"": 1, "B": 1, "kB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}
_SIZE = re.compile(r"\s*(\d+)\s*(B|kB|MB|GB|TB)?\s*")
_BLOCK = 8192

SHARES = {
    "shared_buffers": (0.40, 0.25),
    "effective_cache_size": (1.00, 0.75),
    "maintenance_work_mem": (0.25, 0.05),
    "work_mem": (0.05, 0.01),
}
"""By setting: the largest share of a server's memory, and the share that replaces a larger one."""

_PLAIN_UNIT = {
    "shared_buffers": _BLOCK,
    "effective_cache_size": _BLOCK,
    "maintenance_work_mem": 1024,
    "work_mem": 1024,
}
"""The unit of a number without one (pg_settings.unit)."""

WAL_SHARE = 0.15
"""The share of free disk for the WAL of all servers."""
LEAST_WAL_MB = 64
"""A few segments."""
_PLAIN_UNIT |= {"max_wal_size": 1024**2, "min_wal_size": 1024**2}


def setting_bytes(name: str, value: str) -> int | None:
    """Returns the bytes of `value` of the memory setting `name`, or None if it is not a size."""
    found = _SIZE.fullmatch(value)
    if found is None:
        return None
    unit = _UNITS[found[2]] if found[2] else _PLAIN_UNIT[name]
    return int(found[1]) * unit


def fit_settings(plan: Plan, memory_bytes: int) -> tuple[Plan, list[str]]:
    """Returns `plan` with settings that fit into `memory_bytes` for all targets, and the changes."""
    # standbys inherit the settings of their primary
    part = memory_bytes / (len(plan.target) + standbys(plan))
    targets = {}
    said: list[str] = []
    for name, spec in plan.target.items():
        settings = dict(getattr(spec, "settings", {}))
        for setting, (most, becomes) in SHARES.items():
            asked = setting_bytes(setting, settings[setting]) if setting in settings else None
            if asked is not None and asked > most * part:
                settings[setting] = f"{int(becomes * part) // 1024**2}MB"
                line = f"{setting} is {settings[setting]} instead of {format_bytes(asked)}"
                said += [line] if line not in said else []
        changes: dict[str, object] = {"settings": settings} if settings else {}
        environment = getattr(spec, "environment", None)
        if environment is not None and environment.data == "tmpfs":
            changes["environment"] = environment.model_copy(update={"tmpfs_size": None})
        targets[name] = spec.model_copy(update=changes)
    return plan.model_copy(update={"target": targets}), said


def fit_wal(plan: Plan, disk_bytes: int) -> tuple[Plan, list[str]]:
    """Returns `plan` with WAL between checkpoints that fits on the disk, and the changes."""
    most = int(WAL_SHARE * disk_bytes) // (len(plan.target) + standbys(plan)) // 1024**2
    targets = {}
    said: list[str] = []
    for name, spec in plan.target.items():
        settings = dict(getattr(spec, "settings", {}))
        for setting, becomes in (("max_wal_size", most), ("min_wal_size", most // 4)):
            asked = setting_bytes(setting, settings[setting]) if setting in settings else None
            if asked is not None and asked > most * 1024**2:
                settings[setting] = f"{max(becomes, LEAST_WAL_MB)}MB"
                line = f"{setting} is {settings[setting]} instead of {format_bytes(asked)}"
                said += [line] if line not in said else []
        targets[name] = spec.model_copy(update={"settings": settings} if settings else {})
    return plan.model_copy(update={"target": targets}), said
