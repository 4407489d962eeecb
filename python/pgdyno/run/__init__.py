"""Runs trials: starts the engine, reads its events, gives back the raw record."""

from pgdyno.run.engine import Engine, check_scripts, find_engine, script_options
from pgdyno.run.hooks import Hook, HookError, run_hook
from pgdyno.run.phases import phases_toml
from pgdyno.run.trial import Interval, TrialResult, run_trial

__all__ = [
    "Engine",
    "Hook",
    "HookError",
    "Interval",
    "TrialResult",
    "check_scripts",
    "find_engine",
    "phases_toml",
    "run_hook",
    "run_trial",
    "script_options",
]
