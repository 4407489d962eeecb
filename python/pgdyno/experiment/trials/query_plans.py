"""The query plans of a trial: EXPLAIN of each statement of the workload, just before the load."""

from collections.abc import Sequence
from functools import cached_property

import psycopg

from pgdyno.errors import PgdynoError
from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.messages import Message
from pgdyno.plan import PlannedTrial
from pgdyno.plan.workload_schema import Statement
from pgdyno.probe.explain import explain
from pgdyno.run.engine import planned_statements
from pgdyno.store.trial_tables import QueryPlanRow
from pgdyno.targets import Server

MOST_STATEMENTS = 500
_SHOWN = 80
"""Characters of a statement in a note."""


class QueryPlans:
    """Explains the statements of a run's workload, if the plan asks for it, and queries that run once.

    No failure of it fails a trial.
    """

    def __init__(self, context: RunContext, progress: RunProgress) -> None:
        self._context = context
        self._progress = progress

    def explain(self, trial: PlannedTrial, server: Server) -> list[QueryPlanRow]:
        """Return the plans on `server` with the settings of the load's sessions. Notes what cannot be explained, and
        why. Raises StoreError.
        """
        plan = self._context.plan
        # queries that run once are compared by their plans, too
        if not (plan.probe.enabled and (plan.probe.plans or plan.workload.runs_once)):
            return []
        try:
            statements = self._statements
            found = server.read_as_is(lambda connection: explain(connection, [each.text for each in statements]))
        except (PgdynoError, psycopg.Error) as error:
            why = error.message if isinstance(error, PgdynoError) else str(error).strip()
            note = Message("query-plans-left-out", "no query plans of {target}: {why}", target=trial.target, why=why)
            self._progress.note_once(note)
            return []
        for text, explained in found.items():
            if explained.reason is not None:
                said = {"statement": " ".join(text.split())[:_SHOWN], "why": explained.reason}
                self._progress.note_once(Message("query-plan-left-out", "no query plan of {statement}: {why}", **said))
        explained_by = ((each, found[each.text]) for each in statements)
        return [QueryPlanRow(trial.number, *each, of.shape, of.plan, of.reason) for each, of in explained_by]

    @cached_property
    def _statements(self) -> Sequence[Statement]:
        context = self._context
        found = planned_statements(context.engine, context.plan.workload, context.seed, context.loaded.folder)
        if len(found) > MOST_STATEMENTS:
            said = {"most": MOST_STATEMENTS, "all": len(found)}
            self._progress.note_once(
                Message("query-plans-first", "query plans only of the first {most} of {all} statements", **said)
            )
        return found[:MOST_STATEMENTS]
