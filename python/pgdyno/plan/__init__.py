"""Plans: the file, its checks, and its trials."""

from pgdyno.plan.files import CatalogueEntry, catalogue
from pgdyno.plan.load import LoadedPlan, load_plan
from pgdyno.plan.model import BUILTIN_SCRIPTS, Plan, TargetSpec
from pgdyno.plan.reserved import RESERVED_SETTINGS
from pgdyno.plan.scripts import ScriptChoice, parse_script
from pgdyno.plan.trials import PlannedTrial, planned_trials, time_needed_s

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
