"""Trials that count instructions in place of times. See docs/design/counting.md."""

import json
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from pgdyno.errors import PgdynoError
from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.trials.hooks_and_events import clients_environment
from pgdyno.instructions.counting import Counted, counter_of, counting_server
from pgdyno.plan import PlannedTrial
from pgdyno.plan.workload import parse_script
from pgdyno.plan.workload_schema import Workload
from pgdyno.prepare.cache import prewarm
from pgdyno.records import (
    Failure,
    FailureId,
    InstructionCounts,
    Outcome,
    ScriptInstructions,
    Stage,
    StatementInstructions,
)
from pgdyno.run.engine import trial_options
from pgdyno.run.run_trial import TrialResult, run_trial
from pgdyno.targets import Server

LEAST_SHARE = 1 / 20_000
"""Of a transaction: functions with fewer instructions are stored as one."""
STACKED = 5
"""Counted transactions of a flame graph: callers cost Valgrind ten times as long."""


class _LoadFailedError(PgdynoError):
    def __init__(self, result: TrialResult) -> None:
        super().__init__(result.failure.message if result.failure is not None else "it was interrupted")
        self.result = result


class CountedLoad:
    """The scripts of one trial, each of which runs alone."""

    def __init__(self, context: RunContext, trial: PlannedTrial, server: Server, log: Path) -> None:
        """The engine's messages go to `log`."""
        self._context = context
        self._trial = trial
        self._server = server
        self._log = log
        self._last: TrialResult | None = None

    def measure(self) -> TrialResult:
        """Return the result, with the counts in its summary; of a failure, with its reason."""
        try:
            counts = self._count()
        except PgdynoError as error:
            cause = error if isinstance(error, _LoadFailedError) else error.__cause__
            if isinstance(cause, _LoadFailedError) and cause.result.failure is not None:
                failure = cause.result.failure.model_copy(update={"message": error.message})
                return replace(cause.result, outcome=Outcome.FAILED, failure=failure)
            failure = Failure(stage=Stage.RUN, id=FailureId.COUNT, message=error.message, hint=error.hint)
            return TrialResult(Outcome.FAILED, [], None, None, failure)
        assert self._last is not None
        assert self._last.summary is not None
        return replace(self._last, summary=self._last.summary.model_copy(update={"instructions": counts}))

    def stacks(self) -> Counter[str]:
        """Return the instructions of STACKED transactions by stack, of all scripts by their weights.

        Raises PgdynoError.
        """
        found = Counter[str]()
        with counting_server(self._server, callers=True) as server:
            prewarm(self._server)
            for script in self._context.plan.workload.scripts:
                counted = server.count(partial(self._run, script), STACKED)
                for stack, count in counted.functions.items():
                    found[stack] += round(count * STACKED * self._share(script))
        return found

    def _count(self) -> InstructionCounts:
        plan = self._context.plan
        transactions = plan.trial.transactions
        assert transactions is not None
        counter = counter_of(plan.trial.counter)
        scripts: list[ScriptInstructions] = []
        functions: dict[str, float] = {}
        with counting_server(self._server, counter) as server:
            prewarm(self._server)
            for script in plan.workload.scripts:
                counted = server.count(partial(self._run, script), transactions)
                choice = parse_script(script)
                scripts.append(
                    ScriptInstructions(
                        name=choice.name,
                        weight=choice.weight,
                        instructions=counted.instructions,
                        statements=self._statements(self._alone(script), counted),
                    )
                )
                for name, count in counted.functions.items():
                    functions[name] = functions.get(name, 0.0) + self._share(script) * count
            jit = self._server.read_as_is(lambda connection: connection.execute(_JIT).fetchone())
        total = sum(
            self._share(script) * of.instructions for script, of in zip(plan.workload.scripts, scripts, strict=True)
        )
        return InstructionCounts(
            counter=counter,
            transactions=transactions,
            instructions=total,
            scripts=scripts,
            functions=_largest(functions, LEAST_SHARE * total),
            jit=jit is not None and jit[0] == "on",
        )

    def _share(self, script: str) -> float:
        weights = [parse_script(each).weight for each in self._context.plan.workload.scripts]
        return parse_script(script).weight / sum(weights)

    def _alone(self, script: str) -> Workload:
        return self._context.plan.workload.model_copy(update={"scripts": [script]})

    def _run(self, script: str, transactions: int) -> None:
        """Raise _LoadFailedError if the load does not come to its end."""
        context, trial = self._context, self._trial
        plan = context.plan
        plan = plan.model_copy(update={"trial": plan.trial.model_copy(update={"transactions": transactions})})
        options = trial_options(plan, trial.point, context.seed_of(trial), self._log, 1)
        self._last = run_trial(
            context.engine,
            [*self._alone(script).engine_options(), *options],
            # a restarted server may listen at another port
            clients_environment(plan, context.folder.manifest, trial, self._server),
            context.loaded.folder,
            self._log,
            lambda _interval: None,
        )
        if self._last.outcome is not Outcome.FINISHED:
            raise _LoadFailedError(self._last)

    def _statements(self, workload: Workload, counted: Counted) -> list[StatementInstructions]:
        """Return the costs with the texts that the engine knows; nothing if their numbers differ."""
        options = workload.listing_options(0)
        if options is None or not counted.statements:
            return []
        engine = self._context.engine
        printed = subprocess.run(
            [str(engine.path), *options], cwd=self._context.loaded.folder, capture_output=True, check=False
        ).stdout
        texts = [json.loads(line)["text"].rstrip("; \n") for line in printed.splitlines()]
        if len(texts) != len(counted.statements):
            return []
        pairs = zip(texts, counted.statements, strict=True)
        return [StatementInstructions(text=text, instructions=cost) for text, cost in pairs]


_JIT = "SELECT pg_catalog.current_setting('jit', true)"


def _largest(functions: Mapping[str, float], least: float) -> dict[str, float]:
    kept = {name: count for name, count in functions.items() if count >= least}
    others = sum(functions.values()) - sum(kept.values())
    ordered = dict(sorted(kept.items(), key=lambda each: (-each[1], each[0])))
    return ordered | ({InstructionCounts.OTHERS: others} if others else {})
