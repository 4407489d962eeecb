"""`pgdyno gate --confirm`: measures a suspected regression again, on fresh instances."""

from dataclasses import dataclass, replace
from pathlib import Path

from pgdyno.analyse.gate import Gate, GateVerdict, gate
from pgdyno.commands.comparison.compared_runs import Compared, ComparedRuns
from pgdyno.commands.support.carry_out import How, Output, carry_out, exit_code, experiment_of
from pgdyno.errors import ExitCode, PgdynoError, UsageError
from pgdyno.experiment.resume import loaded_of, refuse_changed_scripts
from pgdyno.messages import Message
from pgdyno.plan import LoadedPlan
from pgdyno.report.answers.refusal import reason_lines
from pgdyno.store import RunData
from pgdyno.store.object_storage.address import is_remote
from pgdyno.targets import Use, WhenBusy


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A gate after the second measurement."""

    judged: Gate
    notes: list[Message]
    """What was measured again, where, and with what result."""


def confirm_gate(suspected: Gate, what: Compared, runs: ComparedRuns, *, json: bool) -> Confirmed:
    """Measures the runs of a gate again and lets the new figures alone decide about the points that it suspects.

    If they cannot be measured, or may not be compared, the suspicion stands, with the reason. Raises UsageError for
    runs that cannot be repeated.
    """
    sources = [run for run in (runs.first, runs.second) if run is not None]
    plans = [_plan_of(run, name) for run, name in zip(sources, (what.first, what.second), strict=False)]
    points = sum(point.verdict is GateVerdict.REGRESSION for point in suspected.points)
    try:
        folders = [_measure(plan, what.runs, json=json) for plan in plans]
        again = replace(what, first=str(folders[0]), second=str(folders[1]) if len(folders) > 1 else None)
        repeated = ComparedRuns.read(again)
        reasons = repeated.reasons()
        if reasons and not what.force:
            return _leave_unconfirmed(suspected, "; ".join(reason_lines(reasons)))
        (arms,) = repeated.arms()
        second = gate(arms, suspected.limit)
    except PgdynoError as error:
        return _leave_unconfirmed(suspected, str(error))
    judged = merge_gates(suspected, second)
    still = sum(point.verdict is GateVerdict.REGRESSION for point in judged.points)
    note = Message(
        "gate-confirmed",
        "measured again on fresh instances, into {folders}: {still} of {points} suspected regressions confirmed",
        folders=" and ".join(map(str, folders)),
        still=still,
        points=points,
    )
    return Confirmed(judged, [note])


def merge_gates(suspected: Gate, second: Gate) -> Gate:
    """Return `suspected` with second verdicts at points with a regression; inconclusive where one is missing."""
    found = {str(point.compared.label): point for point in second.points}
    points = tuple(
        found.get(str(point.compared.label), replace(point, verdict=GateVerdict.INCONCLUSIVE))
        if point.verdict is GateVerdict.REGRESSION
        else point
        for point in suspected.points
    )
    return replace(suspected, points=points)


def _leave_unconfirmed(suspected: Gate, reason: str) -> Confirmed:
    note = Message(
        "gate-not-confirmed", "could not measure the regression again, so it still counts: {reason}", reason=reason
    )
    return Confirmed(suspected, [note])


def _plan_of(run: RunData, name: str | None) -> LoadedPlan:
    folder = run.folder
    if name is not None and is_remote(name):
        raise UsageError("--confirm cannot repeat runs on object storage", hint="download the runs with pgdyno copy")
    if run.manifest.imported is not None:
        raise UsageError(f"--confirm cannot repeat {run.manifest.run}: pgdyno did not measure it")
    loaded = loaded_of(folder)
    refuse_changed_scripts(folder, loaded, "repeat")
    targets = {
        name: target.model_copy(update={"keep_data": False}) if getattr(target, "keep_data", False) else target
        for name, target in loaded.plan.target.items()
    }
    trial = loaded.plan.trial.model_copy(update={"seed": None})
    return replace(loaded, plan=loaded.plan.model_copy(update={"target": targets, "trial": trial}))


def _measure(loaded: LoadedPlan, runs: Path, *, json: bool) -> Path:
    """Run a plan and return the folder of the run. Raises PgdynoError, also if one of its trials failed."""
    output = Output(html=None, csv=None, quiet=json, json=json)
    experiment = experiment_of(loaded, How(runs, output, check_first=False))
    finished = carry_out(output, Use(loaded.plan.name, WhenBusy.WAIT), experiment)
    if exit_code(finished) is not ExitCode.OK:
        raise UsageError(f"{finished.folder.path}: not all of its trials finished")
    return finished.folder.path
