"""The results of the queries of a run, which must be the same in all arms, and what they cost the server."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import psycopg

from pgdyno.errors import PgdynoError
from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.experiment.trials.cold_queries import run_alone
from pgdyno.instructions.counting import counter_of, counting_server
from pgdyno.messages import Message
from pgdyno.plan import PlannedTrial
from pgdyno.probe.query_results import read_results
from pgdyno.records import QueryResult
from pgdyno.run.engine import planned_statements
from pgdyno.targets import Server

COUNTED, WARMUP = 2, 1
"""Runs of a query in a server under Valgrind, in which each takes 50 times as long."""
SERIAL = "-c max_parallel_workers_per_gather=0"
"""Other processes are not counted."""


class QueryResults:
    """Reads them after the first trial of each arm at each point. A result that cannot be read fails no trial."""

    def __init__(self, context: RunContext, progress: RunProgress) -> None:
        self._context = context
        self._progress = progress
        self._known: set[tuple[str, str]] = set()

    def read(
        self, trial: PlannedTrial, server: Server, environment: Callable[[], Mapping[str, str]]
    ) -> list[QueryResult]:
        """Return the results; `environment` is that of the load's clients, which a restart may change.

        Raises PgdynoError if the plan asks for instructions, and they could not be counted.
        """
        workload, key = self._context.plan.workload, (trial.server, trial.point.model_dump_json())
        if not workload.query_files or key in self._known:
            return []
        self._known.add(key)
        found = self._read(trial, server)
        return self._count(found, server, environment) if workload.counts_queries else found

    def _read(self, trial: PlannedTrial, server: Server) -> list[QueryResult]:
        context, workload = self._context, self._context.plan.workload
        try:
            statements = planned_statements(context.engine, workload, context.seed, context.loaded.folder)
            texts = {workload.query_files[each.id]: each.text for each in statements}
            known = workload.known_results
            return server.read_as_is(lambda connection: read_results(connection, texts, known))
        except (PgdynoError, psycopg.Error) as error:
            why = error.message if isinstance(error, PgdynoError) else str(error).strip()
            note = Message("query-results-left-out", "no results of {target}: {why}", target=trial.target, why=why)
            self._progress.note_once(note)
            return []

    def _count(
        self, results: Sequence[QueryResult], server: Server, environment: Callable[[], Mapping[str, str]]
    ) -> list[QueryResult]:
        found = {each.query: each for each in results}
        with counting_server(server, counter_of("auto"), warmup=WARMUP) as counter:
            for query in self._context.plan.workload.query_files:
                self._progress.show(f"counting the instructions of {query}")
                client = environment()
                client = {**client, "PGOPTIONS": f"{client.get('PGOPTIONS', '')} {SERIAL}"}
                counted = counter.count(partial(self._run, query, client), COUNTED)
                result = found.setdefault(query, QueryResult(query=query))
                found[query] = result.model_copy(update={"instructions": counted.instructions})
        return list(found.values())

    def _run(self, query: str, environment: Mapping[str, str], times: int) -> None:
        run_alone(self._context, query, times, environment, "the count")
