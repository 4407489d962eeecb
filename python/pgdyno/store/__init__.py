"""Run folders: written atomically, listed, found, and queried with SQL.

A module is loaded when one of its names is first used, because commands that only list or find runs need neither
tables nor queries.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # type checkers see the names that __getattr__ finds
    from pgdyno.store.find_runs import *  # noqa: F403
    from pgdyno.store.kept_capture import *  # noqa: F403
    from pgdyno.store.read_runs import *  # noqa: F403
    from pgdyno.store.run_folder import *  # noqa: F403
    from pgdyno.store.trial_tables import *  # noqa: F403
    from pgdyno.store.trial_writer import *  # noqa: F403

_MODULES = {
    "find_runs": ("RunEntry", "find_run", "list_runs", "newest_first"),
    "kept_capture": ("changed_capture", "read_capture_in", "read_capture_of"),
    "read_runs": ("RunData", "load_run", "query"),
    "run_folder": ("RunFolder", "changed_script"),
    "trial_tables": ("HistogramRow", "IntervalRow", "SettingRow", "StatementRow"),
    "trial_writer": ("TrialTables", "TrialWriter"),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a class or a function
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
