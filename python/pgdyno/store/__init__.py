"""Run folders: written atomically, listed, found, and queried with SQL."""

from pgdyno.store.folder import RunFolder
from pgdyno.store.ingest import TrialTables
from pgdyno.store.read import QueryResult, RunData, load_run, query
from pgdyno.store.runs import RunEntry, find_run, list_runs
from pgdyno.store.scripts import changed_script
from pgdyno.store.tables import EventRow, HistogramRow, IntervalRow, SettingRow, StatementRow
from pgdyno.store.writer import TrialWriter

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
