"""The workloads that pgdyno knows by name, and which of them write. No other module says so."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum


class Effect(StrEnum):
    """What a load does to the server's data: row locks and sequences count as writes, because they write WAL."""

    READS = "reads"
    """It only reads."""
    WRITES = "writes"
    UNKNOWN = "unknown"
    """Only the server could say: Lua, functions, DO, variables in place of words."""


R, W = Effect.READS, Effect.WRITES
_BUILTIN: Mapping[str, Effect] = {"tpcb-like": W, "simple-update": W, "select-only": R}
_TPCC: Mapping[str, Effect] = {
    "New-Order": W, "New-Order rolled back": W, "Payment": W, "Order-Status": R, "Delivery": W, "Stock-Level": R,
}  # fmt: skip
_SYSBENCH: Mapping[str, Effect] = {
    "oltp-read-write": W, "oltp-read-only": R, "oltp-write-only": W, "oltp-point-select": R, "oltp-insert": W,
    "oltp-delete": W, "oltp-update-index": W, "oltp-update-non-index": W, "select-random-points": R,
    "select-random-ranges": R, "bulk-insert": W,
}  # fmt: skip
"""With their default options."""
_OTHER_NAMES: Mapping[str, Effect] = {
    # pgbench's descriptions of its built-in scripts
    "tpc-b-(sort-of)": W, "update-only-pgbench-accounts": W,
    # sysbench 0.5
    "insert": W, "delete": W, "update-index": W, "update-non-index": W, "select": R,
}  # fmt: skip
_BY_NAME = {
    name.lower().replace(" ", "-"): effect
    for table in (_BUILTIN, _TPCC, _SYSBENCH, {"tpcc": W, "tpch": W, "tpch-queries": R}, _OTHER_NAMES)
    for name, effect in table.items()
}
BUILTIN_SCRIPTS = tuple(_BUILTIN)
"""The engine's scripts, in the order of `pgdrive -b list`."""
TPCC_SCRIPTS = tuple(_TPCC)
"""The engine's TPC-C transactions, by the names that phases use, in the order of their numbers."""


def effect_of_name(name: str) -> Effect:
    """Return the effect of a workload, a script or a transaction, as pgdyno, pgbench and sysbench write its name."""
    plain = name.strip().lower().removeprefix("<builtin: ").removesuffix(">")
    return _BY_NAME.get(re.sub(r"[\s_]+", "-", plain), Effect.UNKNOWN)


def total_effect(effects: Iterable[Effect]) -> Effect:
    """Return the effect of several parts together: one that writes decides, then one that is unknown."""
    found = set(effects)
    return next((each for each in (Effect.WRITES, Effect.UNKNOWN) if each in found), Effect.READS)


def effect_of_scripts(names: Iterable[str], text_effect: Callable[[str], Effect | None]) -> Effect:
    """Return the effect of the scripts together. `text_effect` is that of a script, None if only its name is known."""
    return total_effect(effect_of_name(each) if (of := text_effect(each)) is None else of for each in names)


def weighted_name(text: str) -> tuple[str, str]:
    """Split an entry of `workload.scripts` into the script's name and its weight, which is 1 if not given."""
    name, at, weight = text.rpartition("@")
    return (name, weight) if at else (text, "1")


def running_scripts(scripts: Sequence[str], mixes: Sequence[Mapping[str, int] | None]) -> set[str]:
    """Return the names of the scripts that a trial runs.

    `scripts` are entries of `workload.scripts`; `mixes` are those of the plan's phases, by names or numbers of scripts.
    A mix replaces all weights of the workload.
    """
    weights = dict(weighted_name(text) for text in scripts)
    names = list(TPCC_SCRIPTS) if [*weights] == ["tpcc"] else list(weights)
    running = {name for name, weight in weights.items() if weight.strip("0")} if None in (mixes or [None]) else set()
    for mix in mixes:
        for name, weight in (mix or {}).items():
            is_number = name not in names and name.isdecimal() and 1 <= int(name) <= len(names)
            running |= {names[int(name) - 1] if is_number else name} if weight > 0 else set()
    return running
