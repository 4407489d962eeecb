"""Run folders: written atomically, listed, found, and queried with SQL.

Names are looked up when they are first used, because commands that only list or find runs need neither tables nor
queries.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgdyno.store.find_runs import RunEntry, find_run, list_runs, newest_first
    from pgdyno.store.kept_capture import changed_capture, read_capture_in, read_capture_of
    from pgdyno.store.read_runs import QueryResult, RunData, load_run, query
    from pgdyno.store.run_folder import RunFolder, changed_script
    from pgdyno.store.trial_tables import EventRow, HistogramRow, IntervalRow, SettingRow, StatementRow
    from pgdyno.store.trial_writer import TrialTables, TrialWriter

__all__ = [
    "EventRow",
    "HistogramRow",
    "IntervalRow",
    "QueryResult",
    "RunData",
    "RunEntry",
    "RunFolder",
    "SettingRow",
    "StatementRow",
    "TrialTables",
    "TrialWriter",
    "changed_capture",
    "changed_script",
    "find_run",
    "list_runs",
    "load_run",
    "newest_first",
    "query",
    "read_capture_in",
    "read_capture_of",
]

_MODULES = {
    "find_runs": ("RunEntry", "find_run", "list_runs", "newest_first"),
    "kept_capture": ("changed_capture", "read_capture_in", "read_capture_of"),
    "read_runs": ("QueryResult", "RunData", "load_run", "query"),
    "run_folder": ("RunFolder", "changed_script"),
    "trial_tables": ("EventRow", "HistogramRow", "IntervalRow", "SettingRow", "StatementRow"),
    "trial_writer": ("TrialTables", "TrialWriter"),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a class or a function
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
