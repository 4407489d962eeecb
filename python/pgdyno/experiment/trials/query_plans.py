"""The query plans of a trial: EXPLAIN of each statement of the workload, just before the load."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import psycopg

from pgdyno.effect import has_plan
from pgdyno.errors import PgdynoError, UsageError
from pgdyno.experiment.resources import scripts_of
from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.messages import Message
from pgdyno.plan import LoadedPlan, PlannedTrial
from pgdyno.probe.explain import explain
from pgdyno.programs import Engine
from pgdyno.run.engine import ScriptStatement, script_statements, tpch_power_queries
from pgdyno.store.trial_tables import QueryPlanRow
from pgdyno.targets import Server

MOST_STATEMENTS = 500
_SHOWN = 80
"""Characters of a statement in a note."""


def statements_to_explain(engine: Engine, loaded: LoadedPlan, seed: int) -> list[ScriptStatement]:
    """Return the statements of the workload that have a plan, with `$1`, `$2`, … for their variables; of tpch, the
    queries of the power run with their parameters.

    Raises PgdynoError if they are not known before the load.
    """
    if loaded.plan.workload.scale_factor is not None:
        return tpch_power_queries(engine, loaded.plan.workload.scale_factor, seed, loaded.folder)
    if not loaded.plan.workload.written_scripts:
        (load,) = loaded.plan.workload.scripts
        raise UsageError(f"pgdyno explains statements of SQL scripts, and the statements of {load} are not in one")
    found = script_statements(engine, scripts_of(loaded), loaded.folder)
    return [each for each in found if has_plan(each.text)]


class QueryPlans:
    """Explains the statements of a run's workload, if the plan asks for it, and the queries of tpch.

    No failure of it fails a trial.
    """

    def __init__(self, context: RunContext, progress: RunProgress) -> None:
        self._context = context
        self._progress = progress

    def of(self, trial: PlannedTrial, server: Server) -> list[QueryPlanRow]:
        """Return the plans on `server` with the settings of the load's sessions. Notes what cannot be explained, and
        why. Raises StoreError.
        """
        plan = self._context.plan
        # tpch compares its queries by their plans, too
        if not (plan.probe.enabled and (plan.probe.plans or plan.workload.is_tpch)):
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
                shown = " ".join(text.split())[:_SHOWN]
                self._progress.note_once(
                    Message(
                        "query-plan-left-out",
                        "no query plan of {statement}: {why}",
                        statement=shown,
                        why=explained.reason,
                    )
                )
        return [
            QueryPlanRow(
                trial.number,
                each.script,
                each.id,
                each.text,
                found[each.text].shape,
                found[each.text].plan,
                found[each.text].reason,
            )
            for each in statements
        ]

    @cached_property
    def _statements(self) -> Sequence[ScriptStatement]:
        found = statements_to_explain(self._context.engine, self._context.loaded, self._context.seed)
        if len(found) > MOST_STATEMENTS:
            self._progress.note_once(
                Message(
                    "query-plans-first",
                    "query plans only of the first {most} of {all} statements",
                    most=MOST_STATEMENTS,
                    all=len(found),
                )
            )
        return found[:MOST_STATEMENTS]
