"""Whether a load writes: by the names of its scripts, and by the text of its SQL."""

from pgdyno.effect.sql_effect import effect_of_sql, has_plan
from pgdyno.effect.workloads import (
    BUILTIN_SCRIPTS,
    TPCC_SCRIPTS,
    Effect,
    effect_of_name,
    effect_of_scripts,
    running_scripts,
    total_effect,
    weighted_name,
)

__all__ = [
    "BUILTIN_SCRIPTS",
    "TPCC_SCRIPTS",
    "Effect",
    "effect_of_name",
    "effect_of_scripts",
    "effect_of_sql",
    "has_plan",
    "running_scripts",
    "total_effect",
    "weighted_name",
]
