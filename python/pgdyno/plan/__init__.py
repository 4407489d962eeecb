"""Plans: the file, its checks, and its trials."""

from pgdyno.plan.known_settings import RESERVED_SETTINGS
from pgdyno.plan.loaded_plan import LoadedPlan, load_plan
from pgdyno.plan.model import BUILTIN_SCRIPTS, Plan, TargetSpec
from pgdyno.plan.reading.plan_files import CatalogueEntry, catalogue
from pgdyno.plan.trials import PlannedTrial, planned_trials, time_needed_s
from pgdyno.plan.workload import ScriptChoice, parse_script

__all__ = [
    "BUILTIN_SCRIPTS",
    "RESERVED_SETTINGS",
    "CatalogueEntry",
    "LoadedPlan",
    "Plan",
    "PlannedTrial",
    "ScriptChoice",
    "TargetSpec",
    "catalogue",
    "load_plan",
    "parse_script",
    "planned_trials",
    "time_needed_s",
]
