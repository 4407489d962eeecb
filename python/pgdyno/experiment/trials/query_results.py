"""The results of the queries of a run, which must be the same in all arms."""

from __future__ import annotations

import psycopg

from pgdyno.errors import PgdynoError
from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.messages import Message
from pgdyno.plan import PlannedTrial
from pgdyno.probe.query_results import read_results
from pgdyno.records import QueryResult
from pgdyno.run.engine import planned_statements
from pgdyno.targets import Server


class QueryResults:
    """Reads them after the first trial of each arm at each point. No failure of it fails a trial."""

    def __init__(self, context: RunContext, progress: RunProgress) -> None:
        self._context = context
        self._progress = progress
        self._known: set[tuple[str, str]] = set()

    def read(self, trial: PlannedTrial, server: Server) -> list[QueryResult]:
        workload, key = self._context.plan.workload, (trial.server, trial.point.model_dump_json())
        if not workload.query_files or key in self._known:
            return []
        self._known.add(key)
        try:
            context = self._context
            statements = planned_statements(context.engine, workload, context.seed, context.loaded.folder)
            texts = {workload.query_files[each.id]: each.text for each in statements}
            return server.read_as_is(lambda connection: read_results(connection, texts))
        except (PgdynoError, psycopg.Error) as error:
            why = error.message if isinstance(error, PgdynoError) else str(error).strip()
            note = Message("query-results-left-out", "no results of {target}: {why}", target=trial.target, why=why)
            self._progress.note_once(note)
            return []
