"""Runs trials: starts the engine, reads its events, returns the raw record.

Names are looked up when they are first used, because commands that only check a plan run nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgdyno.programs import Engine, find_engine
    from pgdyno.run.commit_ledger import check_ledger, pages
    from pgdyno.run.engine import check_scripts, phases_toml
    from pgdyno.run.event_injection import Injector
    from pgdyno.run.hooks import Hook, HookError, run_hook
    from pgdyno.run.parallel_load import ParallelLoad, failed_with
    from pgdyno.run.run_trial import Interval, TrialResult

__all__ = [
    "Engine",
    "Hook",
    "HookError",
    "Injector",
    "Interval",
    "ParallelLoad",
    "TrialResult",
    "check_ledger",
    "check_scripts",
    "failed_with",
    "find_engine",
    "pages",
    "phases_toml",
    "run_hook",
]

_MODULES = {
    "programs": ("Engine", "find_engine"),
    "run.commit_ledger": ("check_ledger", "pages"),
    "run.engine": ("check_scripts", "phases_toml"),
    "run.event_injection": ("Injector",),
    "run.hooks": ("Hook", "HookError", "run_hook"),
    "run.parallel_load": ("ParallelLoad", "failed_with"),
    "run.run_trial": ("Interval", "TrialResult"),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a class or a function
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"pgdyno.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
