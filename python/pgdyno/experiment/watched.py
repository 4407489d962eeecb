"""What those who watch a run are told, and what they say."""

from __future__ import annotations

from dataclasses import replace

from pgdyno.analyse.series import Series, following, label, varying
from pgdyno.experiment.state import RunState
from pgdyno.report.run_events import GridTrial, RunBegan
from pgdyno.run import TrialResult
from pgdyno.run.stream import among


def tell_watchers(state: RunState) -> None:
    """Says where the run is, and which trials there are."""
    follow = following(state.plan.as_resolved(), (trial.point for trial in state.trials))
    series = {trial.number: Series.of(trial.target, trial.point, follow) for trial in state.trials}
    names = varying(list(series.values()))
    trials = [
        GridTrial(trial.number, trial.slug, label(series[trial.number], names), trial.point.clients)
        for trial in state.trials
    ]
    state.view.event(RunBegan(state.folder.path, trials))


def with_marks(state: RunState, result: TrialResult) -> TrialResult:
    """`result` with the moments that were marked among its events, in the engine's times."""
    marks = state.requests.marks()
    start = next((event for event in result.events if event["event"] == "start"), None)
    if start is None or not marks:
        return result
    said = [{"event": "mark", "t_us": each.wall_us - start["epoch_us"], "message": each.text} for each in marks]
    return replace(result, events=among(result.events, said))
