"""The capture of a run: its statements as a file for the engine, and how like it each trial's load was."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pgdyno.analyse.likeness import likeness, modelled_statements, replayed_statements
from pgdyno.capture.key_columns import keys_used
from pgdyno.capture.left_out import lacks
from pgdyno.capture.replay_file import write_replay_file
from pgdyno.effect.short_statement import short_statement
from pgdyno.errors import TargetError
from pgdyno.experiment.limits.disk_guard import DiskGuard
from pgdyno.experiment.resources import Resources
from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.messages import Message
from pgdyno.plan import Plan
from pgdyno.plan.targets import NetworkTarget
from pgdyno.records import Likeness
from pgdyno.records.capture import Capture, Source, as_reported
from pgdyno.run.run_trial import TrialResult
from pgdyno.store import read_capture_of
from pgdyno.targets.dsn.reach import Reached

REPLAY_FILE = ".replay.jsonl"
"""In the run folder while the run is active. It is hidden: listings and copies of the run leave it out."""


def refuse_captured(plan: Plan, capture: Capture | None, resources: Resources) -> None:
    """Raise TargetError if a target is the database that was captured, and the plan does not allow it."""
    if capture is None or capture.server is None or plan.workload.allow_captured:
        return
    for name, found in resources.found.items():
        spec = resources.servers[name]
        is_own = isinstance(spec, NetworkTarget) and spec.database == capture.database
        if is_own and isinstance(found, Reached) and found.identity.is_same(capture.server):
            raise TargetError(
                f"target {name}: the database {capture.database} of this server was captured, and the load would "
                "change it",
                hint="name a copy of it on another server; if this one may be changed: "
                "--set workload.allow_captured=true",
            )


class CapturedLoad:
    """Owns the replay file of a run, which is written once, before the first trial, and removed after the last."""

    def __init__(self, context: RunContext, progress: RunProgress, guard: DiskGuard) -> None:
        """Raise StoreError if the run's copy of capture.json cannot be read."""
        self._context = context
        self._progress = progress
        self._guard = guard
        self._path = context.folder.path.absolute() / REPLAY_FILE
        captured = context.plan.workload.capture is not None
        self._capture: Capture | None = read_capture_of(context.folder.path) if captured else None
        for message in lacks(self._capture) if self._capture is not None else ():
            progress.note_once(message)

    @contextmanager
    def file(self) -> Iterator[None]:
        """Keep the replay file for the block, if the plan replays a capture. Raises StoreError, StopRunError."""
        workload = self._context.plan.workload
        if not workload.replays or workload.capture is None or self._capture is None:
            yield
            return
        if self._capture.source is Source.LOG:
            self._note_keys(self._capture)
        self._progress.set_up(f"writing the replay file of {self._capture.calls:,} statements")
        folder = self._context.loaded.folder / workload.capture
        try:
            write_replay_file(
                folder, self._capture, self._path, lambda _rows: self._guard.check(), in_order=workload.keeps_order
            )
            yield
        finally:
            self._path.unlink(missing_ok=True)

    def _note_keys(self, capture: Capture) -> None:
        calls, makers = 0, [""]
        # a replay of a log does without the parser
        with suppress(ImportError):
            calls, makers = keys_used(capture.statements)
        if calls:
            message = Message(
                "replay-captured-keys",
                "{calls:,} statements may name keys that the server made, as in {example}: without answers in a log, "
                "they name the captured ones. Set the sequences to where they were (README.md of the capture), with "
                'workload.order = "captured"; or capture with --proxy',
                calls=calls,
                example=short_statement(makers[0], 60),
            )
            self._progress.note_once(message)

    def options(self, seed: int, workers: int | None) -> list[str] | None:
        """Return the engine's options of a trial; None if the plan replays nothing."""
        plan = self._context.plan
        if self._capture is None:
            return None
        return plan.workload.replay_options(self._capture, self._path, seed, workers, plan.trial.duration)

    def likeness(self, result: TrialResult) -> Likeness | None:
        """Compare the load of a trial with the capture; None without a capture or figures."""
        if self._capture is None or result.summary is None:
            return None
        start, end = (next(each for each in result.events if each["event"] == name) for name in ("start", "end"))
        if self._context.plan.workload.replays:
            worst = result.summary.replay.worst if result.summary.replay is not None else []
            named = {each.id for each in worst}
            found = likeness(as_reported(self._capture)[0], replayed_statements(end), named)
            return found.model_copy(update={"true_to": self._context.plan.workload.least_agreement})
        commands = self._capture.commands
        return likeness(self._capture, modelled_statements(start, end, commands)) if commands else None
