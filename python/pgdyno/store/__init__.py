"""Run folders: written atomically, listed, found, and queried with SQL."""

from pgdyno.store.find_runs import RunEntry, find_run, list_runs
from pgdyno.store.read_runs import QueryResult, RunData, load_run, query
from pgdyno.store.run_folder import RunFolder, changed_script
from pgdyno.store.tables import EventRow, HistogramRow, IntervalRow, SettingRow, StatementRow
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
    "changed_script",
    "find_run",
    "list_runs",
    "load_run",
    "query",
]
