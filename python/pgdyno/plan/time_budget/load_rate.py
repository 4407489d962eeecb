"""How fast this machine loads datasets: the rate of the last load, kept in pgdyno's home.

A time budget plans with it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pgdyno.plan.time_budget.time_and_disk import LOAD_S_A_SCALE

FILE = "load-rates.json"
SHORTEST_S = 3.0
"""Of a shorter load, most may be the time to connect and to create tables."""
HIGHEST = 1000.0
"""A higher rate, 100 rows per second, can only be from a damaged file."""


def load_rate(home: Path, kinds: Iterable[str], dataset: str) -> float:
    """Returns the seconds to load a unit of pgbench's scale into the slowest of `kinds` of targets.

    They are those of the last load of such a `dataset`, or usual ones.
    """
    rates = _read(home)
    return max((rates.get(_key(kind, dataset), LOAD_S_A_SCALE) for kind in kinds), default=LOAD_S_A_SCALE)


def keep_load_rate(home: Path, kind: str, dataset: str, scale: float, seconds: float) -> None:
    """Stores that a load of `dataset` into a target of `kind` took `seconds`, if that was long enough.

    `scale` is its size in units of pgbench's scale. If the file cannot be written, plans use the rate before.
    """
    if seconds < SHORTEST_S or scale <= 0:
        return
    rates = _read(home) | {_key(kind, dataset): round(seconds / scale, 6)}
    new = home / f".{FILE}.{os.getpid()}"
    with suppress(OSError):
        new.write_text(json.dumps(rates, indent=2), encoding="utf-8")
        new.replace(home / FILE)


def _key(kind: str, dataset: str) -> str:
    return f"{dataset} into {kind}"


def _read(home: Path) -> dict[str, float]:
    """Returns the rates by dataset and kind of target; none from a damaged file."""
    try:
        found = json.loads((home / FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: rate for name, rate in found.items() if isinstance(rate, int | float) and 0 < rate < HIGHEST}
