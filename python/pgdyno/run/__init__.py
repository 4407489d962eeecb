"""Runs trials: starts the engine, reads its events, returns the raw record."""

from pgdyno.programs import Engine, find_engine
from pgdyno.run.commit_ledger import check_ledger, pages
from pgdyno.run.engine import check_scripts, phases_toml, script_options, workload_options
from pgdyno.run.event_injection import Injector
from pgdyno.run.hooks import Hook, HookError, run_hook
from pgdyno.run.parallel_load import ParallelLoad, failed_with
from pgdyno.run.run_trial import Interval, TrialResult, run_trial

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
    "run_trial",
    "script_options",
    "workload_options",
]
