"""A trial whose generator was lost, threads of later engines, its engine's record, IDs of failures, and its hooks."""

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgdyno.experiment.generators import GeneratorLostError, KnownWorkers
from pgdyno.experiment.trials.trial_runner import TrialRunner
from pgdyno.plan import PlannedTrial, load_plan
from pgdyno.records import Failure, FailureId, GeneratorHost, Outcome, Point, Stage, TrialRecord
from pgdyno.run.engine import trial_options
from pgdyno.run.hook_command import Hook, run_hook
from pgdyno.run.process import RELEASE, without_libpq
from pgdyno.run.run_trial import OF_TIMEOUT, judge
from tests.present import present
from tests.unit.audit_sample import own
from tests.unit.events_sample import Event, SampleError, sample_events

TRIAL = cast(PlannedTrial, SimpleNamespace(number=7, target="a", server="a", slug="0007-a"))
STORED = cast(TrialRecord, SimpleNamespace(failure=None))


def test_a_trial_without_a_generator_is_repeated_and_its_dataset_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: Iterator[GeneratorLostError | TrialRecord] = iter(
        [GeneratorLostError("generator 2 of 3 (b) was lost"), STORED]
    )

    def attempt(*_arguments: object) -> TrialRecord:
        found = next(attempts)
        if isinstance(found, GeneratorLostError):
            raise found
        return found

    monkeypatch.setattr(TrialRunner, "_prepare_and_measure", attempt)
    done: list[str] = []
    folder = SimpleNamespace(begin_trial=lambda slug: SimpleNamespace(abandon=lambda: done.append(f"abandon {slug}")))
    servers = SimpleNamespace(
        is_unavailable=lambda _target: False, forget=lambda target: done.append(f"forget {target}")
    )
    fakes: dict[str, Any] = {
        "context": SimpleNamespace(folder=folder),
        "progress": SimpleNamespace(note=lambda message: done.append(str(message))),
        "servers": servers,
        "generators": None,
        "hooks": None,
        "resources": SimpleNamespace(guard=None, left=None, rental=None),
        "captured": None,
    }
    assert TrialRunner(**fakes).run(TRIAL) is STORED
    assert done == ["abandon 0007-a", "forget a", "trial 7 runs again: generator 2 of 3 (b) was lost"]


# ---- the number of engine threads with which later trials of a load begin ----

POINT = Point(clients=4, scale=10)


def trial(workers: int, point: Point = POINT, outcome: Outcome = Outcome.FINISHED) -> TrialRecord:
    record = own().trials[0]
    generator = present(record.generator).model_copy(update={"workers": workers})
    return record.model_copy(update={"generator": generator, "point": point, "outcome": outcome})


def test_the_threads_of_the_first_trial_that_finished_are_those_of_its_load(tmp_path: Path) -> None:
    failed = trial(8, outcome=Outcome.FAILED)
    other = trial(16, POINT.model_copy(update={"clients": 64}))
    swept = trial(4, POINT.model_copy(update={"settings": {"work_mem": "64MB"}}))
    known = KnownWorkers([failed, other, swept, trial(2)])
    assert known.count_for(POINT) == 4
    assert known.count_for(POINT.model_copy(update={"settings": {"work_mem": "4MB"}})) == 4
    assert known.count_for(POINT.model_copy(update={"clients": 64})) == 16
    assert known.count_for(POINT.model_copy(update={"rate": 100.0})) is None
    record = trial(4)
    host = GeneratorHost.model_construct(name="a")
    several = record.model_copy(update={"generator": present(record.generator).model_copy(update={"hosts": [host]})})
    assert KnownWorkers([several]).count_for(POINT) is None
    plan = load_plan("quick").plan
    phases = tmp_path / "phases.toml"
    assert not [option for option in trial_options(plan, POINT, 1, phases) if option.startswith("--jobs")]
    assert "--jobs=4" in trial_options(plan, POINT, 1, phases, workers=4)
    planned = POINT.model_copy(update={"workers": 2})
    assert "--jobs=2" in trial_options(plan, planned, 1, phases, workers=4)


# ---- the record of the engine that generated a load ----


def test_an_engine_sees_no_server_but_the_one_it_is_given() -> None:
    environ = {"PATH": "/bin", "PGSERVICE": "other", "PGOPTIONS": "-c work_mem=1GB", "PGDYNO_HOME": "/x"}
    assert without_libpq(environ) == {"PATH": "/bin", "PGDYNO_HOME": "/x"}


def test_a_load_whose_mix_is_not_the_one_asked_for_is_no_result(tmp_path: Path) -> None:
    events = sample_events(4, 2, 500, 900)
    why = "the mix is not the one asked for: Payment 31.00 %, not 43.48 %"
    events[-1] |= {"outcome": "refused", "message": why, "exit_code": 3}
    result = judge(events, 3, tmp_path / "engine.log")
    assert result.outcome is Outcome.FAILED
    assert result.failure is not None
    assert result.failure.message == why
    # its figures are kept
    assert result.summary is not None


# ---- the failure of a trial has an ID for programs, which the reference lists ----


def test_the_reference_lists_every_id() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/run-folder.md").read_text()
    table = page.split("| id | what went wrong |\n|---|---|\n", 1)[1].split("\n\n", 1)[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE) == [each.value for each in FailureId]


def test_each_failure_of_a_load_has_its_id_and_hint(tmp_path: Path) -> None:
    for fields, expected in (
        ({"reason": "not-prepared"}, FailureId.NOT_PREPARED),
        ({"reason": "not-connected"}, FailureId.NOT_CONNECTED),
        ({"reason": "not-started"}, FailureId.NOT_BEGUN),
        ({"reason": "interrupted"}, FailureId.ENGINE_STOPPED),
        ({}, FailureId.NOT_BEGUN),
        ({"lost_generator": 2}, FailureId.GENERATOR_LOST),
    ):
        start = sample_events(2, 1, 300, 900)[0]
        end = {"event": "end", "t_us": 9, "outcome": "failed", "exit_code": 1, "message": "any", **fields}
        assert present(judge([start, end], 1, tmp_path / "log").failure).id == expected
    log = tmp_path / "engine.log"
    log.write_text("pgdrive: unrecognized option '--new'\npgdrive: hint: Try \"pgdrive --help\"\n")
    usage, cut, gave_up = (
        present(judge(events, code, log).failure) for events, code in (([], 1), (aborted()[:-1], 137), (aborted(), 2))
    )
    assert (usage.message, usage.hint) == ("pgdrive: unrecognized option '--new'", RELEASE)
    ids = [FailureId.ENGINE_REFUSED, FailureId.ENGINE_ENDED, FailureId.CLIENTS_ABORTED]
    assert [usage.id, cut.id, gave_up.id] == ids
    for sqlstate, message, is_timeout in (
        ("57014", "ERROR:  canceling statement due to statement timeout", True),
        ("57014", "ERROR:  canceling statement due to user request", False),
        ("40001", "ERROR:  could not serialize access", False),
    ):
        failure = present(judge(aborted(sqlstate=sqlstate, message=message), 2, tmp_path / "engine.log").failure)
        assert (failure.hint or "").startswith(OF_TIMEOUT) is is_timeout
    # records of earlier versions have none
    assert Failure.model_validate({"stage": "run", "message": "any"}) == Failure(stage=Stage.RUN, message="any")


def aborted(**error: Any) -> list[Event]:  # noqa: ANN401
    events = sample_events(2, 1, 300, 900, errors=[SampleError(second=0, consequence="client aborted", **error)])
    events[-1] |= {"outcome": "aborted", "clients_aborted": 1, "exit_code": 2}
    return events


# ---- hooks ----


def test_ctrl_c_while_a_hook_starts_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(*args, **kwargs)  # type: ignore[call-overload]
            started.append(self)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_hook(Hook("before_run", ["sleep", "600"], tmp_path, 600.0), {}, tmp_path / "log")
    (process,) = started
    ended = process.poll()
    process.kill()
    assert ended == -signal.SIGTERM
