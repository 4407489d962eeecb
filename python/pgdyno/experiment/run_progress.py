"""The progress of a run: its trials, and what it reports to its view and its manifest."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pgdyno.analyse.series import Series, dependent_parameters, label, varying_parameters
from pgdyno.errors import StopRunError
from pgdyno.messages import Message
from pgdyno.plan import Plan, PlannedTrial
from pgdyno.plan.workload import trial_s
from pgdyno.records import KeptMessage, Outcome, TrialRecord
from pgdyno.report.run_events import (
    BestSeen,
    EngineReported,
    GridTrial,
    IntervalEnded,
    Looked,
    NoRequests,
    Noted,
    Requests,
    RunBegan,
    RunEnded,
    SetUp,
    TrialEnded,
    TrialStarted,
)
from pgdyno.report.terminal.progress import LiveView, figures
from pgdyno.run.process import among
from pgdyno.run.run_trial import Interval, TrialResult
from pgdyno.store import RunFolder
from pgdyno.units import first_names, quantity

SHORTEST_SHOWN_S = 0.5
NO_OTHERS: Mapping[str, Interval] = {}
MOST_NAMED = 10


class RunProgress:
    """Owns the list of trials and the connection to those who watch the run."""

    def __init__(
        self,
        plan: Plan,
        folder: RunFolder,
        view: LiveView,
        trials: Sequence[PlannedTrial],
        requests: Requests | None = None,
    ) -> None:
        """`trials` are all trials of the plan that are known, including those that earlier attempts completed."""
        self._plan = plan
        self._folder = folder
        self._view = view
        self._requests = requests or NoRequests()
        self._trials = list(trials)
        self._places = _places(plan, self._trials)
        self._labels = _labels(plan, self._places)
        self.later = 0
        """How many places follow the current one; 0 in a search, which does not know."""

    @property
    def trials(self) -> Sequence[PlannedTrial]:
        return self._trials

    def add(self, trial: PlannedTrial) -> None:
        """Add a trial that a search has chosen. Raises StoreError."""
        self._trials.append(trial)
        self._places = _places(self._plan, self._trials)
        self._labels = _labels(self._plan, self._places)
        self._folder.update_manifest(trials_planned=len(self._trials))

    def note(self, message: Message) -> None:
        """Show `message` and store it in the manifest. Raises StoreError."""
        self._view.event(Noted(str(message), message))
        before = self._folder.manifest
        self._folder.update_manifest(
            notes=[*before.notes, str(message)], note_details=[*before.note_details, KeptMessage.from_message(message)]
        )

    def note_once(self, message: Message) -> None:
        """Note `message` unless the manifest contains it: a problem of every trial is one note. See `note`."""
        if str(message) not in self._folder.manifest.notes:
            self.note(message)

    def show(self, text: str) -> None:
        """Show `text` without storing it."""
        self._view.event(Noted(text))

    def set_up(self, text: str) -> None:
        """Show the current step of a preparation or a check."""
        self._view.event(SetUp(text))

    def run_began(self) -> None:
        series, names = _series(self._plan, self._trials)
        grid = [
            GridTrial(trial.number, trial.slug, label(series[trial.number], names), trial.point.planned_clients)
            for trial in self._trials
        ]
        self._view.event(RunBegan(self._folder.path, grid))

    def run_ended(self, how: str, outcome: Outcome) -> None:
        self._view.event(RunEnded(how, outcome))

    def trial_started(
        self, trial: PlannedTrial, *, partners: Sequence[PlannedTrial] = (), is_over: bool = False
    ) -> None:
        """Show `trial`, which runs at the same time as `partners`; `is_over` for one of them that ran unseen."""
        name, seconds = self._labels[trial.number], trial_s(self._plan)
        if partners and trial.point.group is None:
            name = f"{name}, duet with trial {partners[0].number}"
        elif partners:
            name = f"{name}, beside {first_names([str(each.point.group) for each in partners], MOST_NAMED)}"
        is_open = self._plan.search is not None
        self._view.event(TrialStarted(trial.number, len(self._trials), name, seconds, self.later, is_over, is_open))

    def interval(self, interval: Interval, beside: Mapping[str, Interval] = NO_OTHERS) -> None:
        """Show a second of a trial, and the last second of each group `beside` it."""
        # the shortened interval at the end of a phase is too short for a meaningful throughput
        if interval.seconds >= SHORTEST_SHOWN_S and not self._plan.workload.runs_once:
            others = (f"{name} {figures(each.tps, each.p99_ms)}" for name, each in sorted(beside.items()))
            self._view.event(IntervalEnded(interval.tps, interval.p99_ms, "; ".join([interval.phase, *others])))

    def engine_reported(self, event: Mapping[str, Any]) -> None:
        self._view.event(EngineReported(event))

    def trial_ended(self, record: TrialRecord) -> None:
        summary = record.summary
        tps, composite = (summary.rate_tps, summary.composite) if summary is not None else (None, None)
        latency = summary.latency_ns if summary is not None and tps is not None else None
        p99_ms = latency.p99 / 1e6 if latency and latency.p99 is not None else None
        counts = summary.instructions if summary is not None else None
        instructions = counts.instructions if counts is not None else None
        queries_s = summary.queries_s if summary is not None else None
        self._view.event(TrialEnded(record.outcome, tps, p99_ms, composite, instructions, queries_s))

    def report_look(self, look: Looked) -> None:
        self._view.event(look)

    def best(self, best: BestSeen) -> None:
        self._view.event(best)

    def check_requests(self) -> None:
        """Raise StopRunError if somebody who watches asked for the end of the run."""
        wanted = self._requests.stop_wanted()
        if wanted is not None:
            raise StopRunError(wanted)

    def left_out_points(
        self, trials: Sequence[PlannedTrial], done: Sequence[TrialRecord], budget: str
    ) -> list[Message]:
        """Return in words which points and repeats the run leaves out for its `budget`; `done` are its trials."""
        measured = {(each.target, each.point.model_dump_json()) for each in done}
        missing = [trial for trial in trials if (trial.target, trial.point.model_dump_json()) not in measured]
        points = list(dict.fromkeys(" at ".join(filter(None, self._places[each.number])) for each in missing))
        repeats = len(trials) - len(missing)
        notes = []
        if points:
            named = first_names(points, MOST_NAMED)
            notes.append(
                Message(
                    "budget-points-dropped",
                    "completed within the {budget}; {count} point is not measured: {points}",
                    "completed within the {budget}; {count} points are not measured: {points}",
                    count=len(points),
                    budget=budget,
                    points=named,
                )
            )
        if repeats:
            notes.append(
                Message(
                    "budget-repeats-dropped",
                    "completed within the {budget}, without {count} repeat of its points",
                    "completed within the {budget}, without {count} repeats of its points",
                    count=repeats,
                    budget=budget,
                )
            )
        return notes

    def with_marks(self, result: TrialResult) -> TrialResult:
        """Return `result` with the moments that were marked among its events, in the engine's time."""
        marks = self._requests.marks()
        start = next((event for event in result.events if event["event"] == "start"), None)
        if start is None or not marks:
            return result
        events = [{"event": "mark", "t_us": each.wall_us - start["epoch_us"], "message": each.text} for each in marks]
        return replace(result, events=among(result.events, events))


def _series(plan: Plan, trials: Sequence[PlannedTrial]) -> tuple[dict[int, Series], list[str]]:
    follow = dependent_parameters(plan.as_resolved(), (trial.point for trial in trials))
    series = {trial.number: Series.from_point(trial.target, trial.point, follow) for trial in trials}
    return series, varying_parameters(list(series.values()))


def _places(plan: Plan, trials: Sequence[PlannedTrial]) -> dict[int, tuple[str, str]]:
    series, names = _series(plan, trials)
    return {
        trial.number: (
            label(series[trial.number], names) if names else "",
            quantity(trial.point.planned_clients, "client"),
        )
        for trial in trials
    }


def _labels(plan: Plan, places: Mapping[int, tuple[str, str]]) -> dict[int, str]:
    workload = "" if plan.has_group_trials or plan.workload.query_files else ", ".join(plan.workload.scripts)
    return {number: " ".join(filter(None, (name, workload, clients))) for number, (name, clients) in places.items()}
