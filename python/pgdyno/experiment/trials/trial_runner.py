"""One trial: prepare its server, run the load, check what it left, and store everything."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from pgdyno.analyse.over_time.probe_series import background_figures
from pgdyno.errors import EngineError, PgdynoError, TargetError
from pgdyno.experiment.captured_load import CapturedLoad
from pgdyno.experiment.earlier_sessions import end_leftovers
from pgdyno.experiment.generators import GeneratorLostError, Generators
from pgdyno.experiment.resources import Resources
from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.experiment.servers import Servers
from pgdyno.experiment.trials.at_once import (
    Side,
    StartBarrier,
    do_at_once,
    duet_records,
    judged_together,
    partner_failed,
)
from pgdyno.experiment.trials.background import background_loads
from pgdyno.experiment.trials.cold_queries import ColdQueries
from pgdyno.experiment.trials.counting import CountedLoad
from pgdyno.experiment.trials.followers import archive_wal, reads_in_turn
from pgdyno.experiment.trials.hooks_and_events import (
    Hooks,
    StageFailedError,
    clients_environment,
    injector_for,
    settle,
    stage,
)
from pgdyno.experiment.trials.network_path import measure_path
from pgdyno.experiment.trials.probing import Probing
from pgdyno.experiment.trials.query_plans import QueryPlans
from pgdyno.experiment.trials.query_results import QueryResults
from pgdyno.experiment.trials.scenario import load_environment, run_step, steps_of
from pgdyno.experiment.trials.trial_record import (
    LoadOutput,
    PreparedTrial,
    failure_reason,
    inconsistency,
    name_failure,
    read_settings,
    record_of_trial,
    store_record,
)
from pgdyno.messages import Message
from pgdyno.plan import Plan, PlannedTrial
from pgdyno.plan.scenario.loads import begin_s, delay_s, plan_of_load
from pgdyno.processors import own_halves, running_on
from pgdyno.records import (
    Consistency,
    Failure,
    FailureId,
    LedgerRecord,
    NetworkPathRecord,
    Outcome,
    Preparation,
    PrepareStep,
    QueryResult,
    Stage,
    StepRecord,
    TrialRecord,
)
from pgdyno.run.engine import phases_toml, trial_options
from pgdyno.run.hook_command import HookError
from pgdyno.run.parallel_load import failed_with
from pgdyno.run.process import Event, SilenceWatch, among
from pgdyno.run.run_trial import Interval, TrialResult, run_trial
from pgdyno.signals_and_exit import signals_deferred
from pgdyno.store import TrialWriter
from pgdyno.store.run_folder import SPOOL
from pgdyno.targets import LagWatch, Server
from pgdyno.targets.response_limits import HINT
from pgdyno.targets.server import LogParts

_T = TypeVar("_T")


class TrialRunner:
    """Runs the trials of a run. It keeps nothing from one trial to the next: that is for its collaborators."""

    def __init__(
        self,
        context: RunContext,
        progress: RunProgress,
        servers: Servers,
        generators: Generators,
        hooks: Hooks,
        resources: Resources,
        captured: CapturedLoad,
    ) -> None:
        self._context = context
        self._progress = progress
        self._servers = servers
        self._generators = generators
        self._hooks = hooks
        self._query_plans = QueryPlans(context, progress)
        self._query_results = QueryResults(context, progress)
        self._cold_queries = ColdQueries(context, progress)
        self._guard = resources.guard
        self._left = resources.left
        self._captured = captured
        self._rental = resources.rental

    def run(self, trial: PlannedTrial) -> TrialRecord:
        """Prepare and run `trial`, and store it whatever its outcome.

        Raises StopRunError if the run must end, StoreError if the trial cannot be stored. After these and any other
        exception only what `TrialWriter.leave` keeps is left of the trial.
        """
        # the first trial of such a target has reported why
        was_unavailable = self._servers.is_unavailable(trial.server)
        record = None
        while record is None:
            writer = self._context.folder.begin_trial(trial.slug)
            try:
                record = self._prepare_and_measure(trial, writer)
            except GeneratorLostError as lost:
                writer.abandon()
                self._servers.forget(trial.server)
                again = Message("trial-again", "trial {trial} runs again: {why}", trial=trial.number, why=lost.message)
                self._progress.note(again)
            except BaseException:
                writer.leave()
                raise
        if record.failure is not None and not was_unavailable:
            self._progress.show(failure_reason(record))
        return record

    def run_all(self, trials: Sequence[PlannedTrial]) -> list[TrialRecord]:
        """Run the trials of one place: one, the pair of a duet, or the loads of groups and steps; see `run`."""
        is_alone = len(trials) == 1 and trials[0].point.group is None
        return [self.run(trials[0])] if is_alone else self._run_place(trials)

    def run_unstored(self, trial: PlannedTrial, use: Callable[[Server, Path, Callable[[], TrialResult]], _T]) -> _T:
        """Prepare the server of `trial`, and return the result of `use`, which runs the load.

        `use` gets the server, a folder that exists until it returns, and the load. Nothing of the trial is stored.
        Raises PgdynoError.
        """
        writer = self._context.folder.begin_trial(trial.slug)
        try:
            ready = self._prepare(trial, writer)
            if isinstance(ready, TrialRecord):
                raise TargetError(ready.failure.message if ready.failure is not None else "it is not available")

            results: list[TrialResult] = []

            def load() -> TrialResult:
                run = self._generators.run
                results.append(run(trial, lambda: self._load(trial, ready.server, writer, lambda: False, None)))
                return results[-1]

            try:
                found = use(ready.server, writer.partial, load)
            except (PgdynoError, GeneratorLostError) as error:
                self._servers.forget(trial.server)
                if isinstance(error, GeneratorLostError):
                    raise EngineError(error.message) from error
                raise
            if results:
                self._run_after_trial(trial, ready.server, writer, results[-1])
                self._verify(trial, results[-1])
            return found
        finally:
            writer.abandon()

    def _run_place(self, trials: Sequence[PlannedTrial]) -> list[TrialRecord]:
        was_unavailable = [self._servers.is_unavailable(trial.server) for trial in trials]
        with ExitStack() as undone:
            writers = []
            for trial in trials:
                writers.append(self._context.folder.begin_trial(trial.slug))
                # removes nothing of a trial that is stored
                undone.callback(writers[-1].leave)
            is_pair = trials[0].point.group is None
            measure = self._prepare_and_measure_pair if is_pair else self._prepare_and_measure_scenario
            records = measure(trials, writers)
        for record, was in zip(records, was_unavailable, strict=True):
            if record.failure is not None and not was:
                self._progress.show(failure_reason(record))
        return records

    def _prepare_and_measure(self, trial: PlannedTrial, writer: TrialWriter) -> TrialRecord:
        ready = self._prepare(trial, writer)
        if isinstance(ready, TrialRecord):
            return store_record(ready, writer)
        (loaded,) = self._measure_beside(
            [trial], ready, writer, lambda stop: [self._measure(trial, ready, writer, stop)]
        )
        return self._finish(trial, ready, loaded, writer)

    def _prepare_and_measure_scenario(
        self, trials: Sequence[PlannedTrial], writers: Sequence[TrialWriter]
    ) -> list[TrialRecord]:
        ready = self._prepare(trials[0], writers[0])
        if isinstance(ready, TrialRecord):
            return self._fail_others(trials, {trials[0].number: store_record(ready, writers[0])}, ready, writers)
        at = {trial.number: place for place, trial in enumerate(trials)}
        measured: dict[int, LoadOutput] = {}
        done: list[StepRecord] = []
        failed: TrialRecord | None = None
        for before, unsorted in steps_of(self._context.plan, trials):
            # the first has the probe and the plan's events, whose times count from the start of measuring
            loads = sorted(unsorted, key=lambda each: begin_s(self._context.plan, each.point))
            first = loads[0] if loads else trials[-1]
            try:
                done += [
                    stage(Stage.RUN, partial(run_step, self._context, ready.server, first.point, each))
                    for each in before
                ]
            except StageFailedError as error:
                why = TrialResult(Outcome.FAILED, [], None, None, name_failure(first, error))
                failed = record_of_trial(self._context, first, datetime.now(UTC), why)
                break
            if not loads:
                last = measured[first.number]
                measured[first.number] = replace(last, steps=(*last.steps, *done))
                break
            results = self._measure_at_once(loads, ready, [writers[at[trial.number]] for trial in loads])
            results[0] = replace(results[0], steps=tuple(done))
            measured |= {trial.number: each for trial, each in zip(loads, results, strict=True)}
            done = []
            if any(each.result.outcome is not Outcome.FINISHED for each in results):
                break
        return self._finish_scenario(trials, ready, measured, failed, writers)

    def _measure_at_once(
        self, loads: Sequence[PlannedTrial], ready: PreparedTrial, writers: Sequence[TrialWriter]
    ) -> list[LoadOutput]:
        plan, barrier = self._context.plan, StartBarrier(len(loads))
        others = {trial.number: tuple(each for each in loads if each is not trial) for trial in loads}

        def measure(
            trial: PlannedTrial, writer: TrialWriter, must_stop: Callable[[], bool], is_shown: bool
        ) -> LoadOutput:
            side = Side(barrier, others[trial.number], (), is_shown, delay_s(plan, trial.point))
            loaded = self._measure(trial, ready, writer, must_stop, side)
            if loaded.result.outcome is not Outcome.FINISHED:
                barrier.stop()
            return replace(loaded, beside=tuple(each.number for each in side.partners))

        def measure_all(must_stop: Callable[[], bool]) -> list[LoadOutput]:
            works = [
                partial(measure, trial, writer, must_stop, trial is loads[0])
                for trial, writer in zip(loads, writers, strict=True)
            ]
            loaded = do_at_once(works, barrier.stop)
            results = judged_together(loads, [each.result for each in loaded])
            return [replace(each, result=result) for each, result in zip(loaded, results, strict=True)]

        return self._measure_beside(loads, ready, writers[0], measure_all)

    def _measure_beside(
        self,
        trials: Sequence[PlannedTrial],
        ready: PreparedTrial,
        writer: TrialWriter,
        measure: Callable[[Callable[[], bool]], list[LoadOutput]],
    ) -> list[LoadOutput]:
        """Return what `measure` returns for `trials` while the loads in the background run; if one of these breaks,
        the trials end and fail. The first trial, whose `writer` this is, keeps their figures.
        """
        started = datetime.now(UTC)
        environment = self._environment(trials[0], ready.server)
        with background_loads(self._context, trials[0], ready.server, environment, writer) as loads:
            if any(each.broken for each in loads):
                nothing = TrialResult(Outcome.FAILED, [], None, None, None)
                loaded = [LoadOutput(started, datetime.now(UTC), nothing) for _ in trials]
            else:
                loaded = measure(lambda: any(each.broken for each in loads))
        failure = next((why for why in (each.failure() for each in loads) if why is not None), None)
        if failure is not None:
            loaded = [replace(each, result=failed_with(each.result, failure)) for each in loaded]
        found = [background_figures(each.name, each.clients, each.events, loaded[0].result.events) for each in loads]
        return [replace(loaded[0], background=[each for each in found if each is not None]), *loaded[1:]]

    def _finish_scenario(
        self,
        trials: Sequence[PlannedTrial],
        ready: PreparedTrial,
        measured: Mapping[int, LoadOutput],
        failed: TrialRecord | None,
        writers: Sequence[TrialWriter],
    ) -> list[TrialRecord]:
        """Store the loads that were measured, and those that a failure before them left out as failed."""
        found: dict[int, TrialRecord] = {}
        for trial, writer in zip(trials, writers, strict=True):
            if trial.number in measured:
                is_last = trial.number == max(measured)
                beside = [each for each in trials if each.number in measured[trial.number].beside]
                self._progress.trial_started(trial, partners=beside, is_over=True)
                found[trial.number] = self._finish(trial, ready, measured[trial.number], writer, verifies=is_last)
        first_failure = next((each for each in found.values() if each.outcome is not Outcome.FINISHED), failed)
        if failed is not None:
            found[failed.number] = store_record(failed, writers[[each.number for each in trials].index(failed.number)])
        return self._fail_others(trials, found, first_failure, writers)

    def _fail_others(
        self,
        trials: Sequence[PlannedTrial],
        found: dict[int, TrialRecord],
        cause: TrialRecord | None,
        writers: Sequence[TrialWriter],
    ) -> list[TrialRecord]:
        for trial, writer in zip(trials, writers, strict=True):
            if trial.number not in found:
                assert cause is not None
                earlier = next(each for each in trials if each.number == cause.number)
                why = TrialResult(Outcome.FAILED, [], None, None, partner_failed(earlier, cause.failure))
                found[trial.number] = store_record(
                    record_of_trial(self._context, trial, datetime.now(UTC), why), writer
                )
        return [found[trial.number] for trial in trials]

    def _prepare_and_measure_pair(
        self, trials: Sequence[PlannedTrial], writers: Sequence[TrialWriter]
    ) -> list[TrialRecord]:
        readies: list[PreparedTrial] = []
        for at, (trial, writer) in enumerate(zip(trials, writers, strict=True)):
            ready = self._prepare(trial, writer)
            if isinstance(ready, TrialRecord):
                partner, why = trials[1 - at], partner_failed(trial, ready.failure)
                other = record_of_trial(
                    self._context, partner, datetime.now(UTC), TrialResult(Outcome.FAILED, [], None, None, why)
                )
                records = [ready, other] if at == 0 else [other, ready]
                return [store_record(record, each) for record, each in zip(records, writers, strict=True)]
            readies.append(ready)
        halves, barrier = own_halves(), StartBarrier(2)
        sides = [Side(barrier, (trials[1 - at],), halves[at], is_shown=at == 0) for at in (0, 1)]

        def measure(at: int) -> LoadOutput:
            server, side = readies[at].server, sides[at]
            with running_on(side.processors), server.restrict_processors(side.processors, [*halves[0], *halves[1]]):
                (loaded,) = self._measure_beside(
                    [trials[at]],
                    readies[at],
                    writers[at],
                    lambda stop: [self._measure(trials[at], readies[at], writers[at], stop, side)],
                )
            if loaded.result.outcome is not Outcome.FINISHED:
                # nothing is gained from the other one alone
                barrier.stop()
            return loaded

        loaded = do_at_once([lambda: measure(0), lambda: measure(1)], barrier.stop)
        results = judged_together(trials, [each.result for each in loaded])
        duets = duet_records(sides, results)
        records = []
        for at, trial in enumerate(trials):
            if not sides[at].is_shown:
                self._progress.trial_started(trial, partners=trials[:1], is_over=True)
            done = replace(loaded[at], result=results[at], duet=duets[at])
            records.append(self._finish(trial, readies[at], done, writers[at]))
        return records

    def _prepare(self, trial: PlannedTrial, writer: TrialWriter) -> PreparedTrial | TrialRecord:
        """Return what the load needs, or the record of a trial that failed before it."""
        started = datetime.now(UTC)
        leftovers = None
        try:
            server = stage(Stage.TARGET, lambda: self._servers.obtain(trial))
            # before the dataset is restored: a session of an earlier trial may hold locks on it
            leftovers = stage(
                Stage.PREPARE, lambda: end_leftovers(self._context.folder.manifest, trial, server, self._progress)
            )
            prepared = stage(Stage.PREPARE, lambda: self._servers.prepare(trial))
            settings = stage(Stage.PREPARE, lambda: read_settings(server))
            prepared = stage(Stage.HOOK, lambda: self._run_before_trial(trial, server, writer, prepared))
            plans = stage(Stage.PREPARE, lambda: self._query_plans.explain(trial, server))
            path = stage(Stage.PREPARE, lambda: self._measure_path(trial, server))
        except StageFailedError as failed:
            record = record_of_trial(
                self._context, trial, started, TrialResult(Outcome.FAILED, [], None, None, name_failure(trial, failed))
            )
            return record.model_copy(update={"leftovers": leftovers})
        return PreparedTrial(server, prepared, leftovers, settings, plans, path)

    def _run_before_trial(
        self, trial: PlannedTrial, server: Server, writer: TrialWriter, prepared: Preparation
    ) -> Preparation:
        began = time.monotonic()
        if not self._hooks.around_trial("before_trial", trial, server, writer.partial):
            return prepared
        step = PrepareStep(name="hook", seconds=round(time.monotonic() - began, 6), detail="before_trial")
        changes = {"steps": [*prepared.steps, step], "seconds": prepared.seconds + step.seconds}
        return prepared.model_copy(update=changes)

    def _measure_path(self, trial: PlannedTrial, server: Server) -> NetworkPathRecord:
        return measure_path(trial, server, self._environment(trial, server), self._generators, self._rental)

    def _environment(self, trial: PlannedTrial, server: Server) -> dict[str, str]:
        return clients_environment(self._context.plan, self._context.folder.manifest, trial, server)

    def _measure(
        self,
        trial: PlannedTrial,
        ready: PreparedTrial,
        writer: TrialWriter,
        must_stop: Callable[[], bool],
        side: Side | None = None,
    ) -> LoadOutput:
        context, server = self._context, ready.server
        logs = LogParts.from_now(server)
        started = datetime.now(UTC)
        host = self._servers.probed_host(trial.server)

        if context.plan.trial.measure == "instructions":
            self._progress.trial_started(trial)
            result = CountedLoad(context, trial, server, writer.log / "engine.log").measure()
            logs.save(writer.log)
            return LoadOutput(started, datetime.now(UTC), result)
        load = partial(self._load, trial, server, writer, must_stop, side)
        if side is not None and side.is_guest:
            return LoadOutput(started, datetime.now(UTC), load())
        with (
            Probing(context.plan, context.engine, server, host, ready.settings, writer) as probe,
            LagWatch(server.address, server.replica_names(), is_logical=server.has_subscriber) as watch,
            reads_in_turn(context.plan, server) as reads,
            archive_wal(context, trial, server) as archive,
        ):
            result = self._generators.run(trial, load)
            ended = datetime.now(UTC)
        probed = probe.read(trial, result.events, self._generators.clock_ahead, self._progress)
        logs.save(writer.log)
        order, backlog = reads.order() if reads else None, archive.backlog() if archive else None
        return LoadOutput(started, ended, result, probed, backlog, order, watch.lags())

    def _finish(
        self,
        trial: PlannedTrial,
        ready: PreparedTrial,
        loaded: LoadOutput,
        writer: TrialWriter,
        *,
        verifies: bool = True,
    ) -> TrialRecord:
        server, probed = ready.server, loaded.probed
        result, ledger = self._settle(trial, server, loaded.result)
        result, results = self._read_queries(trial, server, result)
        self._run_after_trial(trial, server, writer, result)
        result, consistency = self._verify(trial, result) if verifies else (result, None)
        record = record_of_trial(self._context, trial, loaded.started, result).model_copy(
            update={
                "ended_at": loaded.ended,
                "prepare": ready.prepared,
                "leftovers": ready.leftovers,
                "network_path": ready.path,
                "consistency": consistency,
                "ledger": ledger,
                "archive": loaded.archive,
                "read_order": loaded.read_order,
                "background": loaded.background,
                "replication": loaded.lags,
                "probe": probed.record if probed else None,
                "duet": loaded.duet,
                "beside": list(loaded.beside),
                "steps": list(loaded.steps),
                "likeness": self._captured.likeness(result),
                "query_results": results,
            }
        )
        events = among(result.events, probed.events if probed else [])
        # this takes less than a second for each hour, and DuckDB would turn the signal into an error of its own
        with signals_deferred():
            writer.commit(
                record,
                events=events,
                settings=ready.settings,
                probed=probed.files if probed else (),
                query_plans=ready.query_plans,
            )
        self._generators.learn(record)
        self._progress.trial_ended(record)
        return record

    def _load(
        self, trial: PlannedTrial, server: Server, writer: TrialWriter, must_stop: Callable[[], bool], side: Side | None
    ) -> TrialResult:
        context, plan = self._context, plan_of_load(self._context.plan, trial.point)
        is_shown = side is None or side.is_shown

        def on_interval(interval: Interval) -> None:
            if side is None:
                self._progress.interval(interval)
            else:
                side.show(trial.point.group, interval, self._progress)
            self._guard.check()
            if self._left is not None:
                self._left.check_queries()

        def on_event(event: Event) -> None:
            if is_shown:
                self._progress.engine_reported(event)

        options = self._options(trial, plan, writer)
        if is_shown:
            self._progress.trial_started(trial, partners=side.partners if side else ())
        watch = SilenceWatch(server.quiet)
        running = self._generators.running
        if side is not None:
            running = side.barrier.join(running, side.delay_s)
        is_guest = side is not None and side.is_guest
        with injector_for(context, self._progress, server, trial, writer, events=not is_guest) as injector:
            result = run_trial(
                context.engine,
                [*plan.workload.engine_options(), *options],
                load_environment(context.plan, trial, server, self._environment(trial, server)),
                context.loaded.folder,
                writer.log / "engine.log",
                on_interval,
                plan.trial.max_errors,
                injector,
                lambda: must_stop() or server.pooler_failure() is not None,
                on_event,
                # an event of the plan may silence the server
                running if plan.event else watch.over(running),
                writer.spool(SPOOL),
            )
        ended = server.pooler_failure()
        for id_, why, hint in ((FailureId.SILENT, watch.reason, HINT), (FailureId.POOLER_ENDED, ended, None)):
            if why is not None:
                message = f"target {trial.server}: {why}"
                result = failed_with(result, Failure(stage=Stage.RUN, id=id_, message=message, hint=hint))
        return self._progress.with_marks(result) if is_shown else result

    def _options(self, trial: PlannedTrial, plan: Plan, writer: TrialWriter) -> Sequence[str]:
        phases = writer.phases.absolute()
        if plan.phase:
            phases.write_text(phases_toml(plan.phase), encoding="utf-8")
        workers, seed = self._generators.workers_for(trial.point), self._context.seed_of(trial)
        captured = self._captured.options(seed, workers)
        return trial_options(plan, trial.point, seed, phases, workers) if captured is None else captured

    def _settle(
        self, trial: PlannedTrial, server: Server, result: TrialResult
    ) -> tuple[TrialResult, LedgerRecord | None]:
        try:
            return result, settle(self._context.plan, server, result)
        except StageFailedError as failed:
            # of two failures the first is the reason
            return replace(result, outcome=Outcome.FAILED, failure=result.failure or name_failure(trial, failed)), None

    def _read_queries(
        self, trial: PlannedTrial, server: Server, result: TrialResult
    ) -> tuple[TrialResult, list[QueryResult]]:
        """Return what single queries returned, and the result with their cold runs."""
        if result.summary is None or result.outcome is not Outcome.FINISHED:
            return result, []
        environment = partial(self._environment, trial, server)
        results: list[QueryResult] = []
        try:
            results = stage(Stage.RUN, lambda: self._query_results.read(trial, server, environment))
            runs = stage(Stage.RUN, lambda: self._cold_queries.run(server, environment))
        except StageFailedError as failed:
            return replace(result, outcome=Outcome.FAILED, failure=name_failure(trial, failed)), results
        summary = result.summary.model_copy(update={"queries": [*result.summary.queries, *runs]})
        return replace(result, summary=summary), results

    def _run_after_trial(self, trial: PlannedTrial, server: Server, writer: TrialWriter, result: TrialResult) -> None:
        """Run after_trial; its failure is a note, because the trial's figures were taken before."""
        try:
            self._hooks.around_trial("after_trial", trial, server, writer.partial, result.outcome.value)
        except HookError as error:
            self._progress.note(
                Message("trial-hook-failed", "trial {trial}: {reason}", trial=trial.number, reason=error.reason)
            )

    def _verify(self, trial: PlannedTrial, result: TrialResult) -> tuple[TrialResult, Consistency | None]:
        if result.outcome is not Outcome.FINISHED:
            self._servers.forget(trial.server)
            return result, None
        try:
            found = stage(Stage.VERIFY, lambda: self._servers.check(trial.server))
        except StageFailedError as failed:
            return replace(result, outcome=Outcome.FAILED, failure=name_failure(trial, failed)), None
        if found is None or not found.violations:
            return result, found
        failure = inconsistency(self._context.plan, found)
        return replace(result, outcome=Outcome.FAILED, failure=failure), found
