"""A trial whose generator was lost, the threads of later engines, and the record of the engine that made a load."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgdyno.experiment.generators import GeneratorLostError, KnownWorkers
from pgdyno.experiment.trials.trial_runner import TrialRunner
from pgdyno.plan import PlannedTrial, load_plan
from pgdyno.records import GeneratorHost, Outcome, Point, TrialRecord
from pgdyno.run.engine import trial_options
from pgdyno.run.process import without_libpq
from pgdyno.run.run_trial import judge
from tests.present import present
from tests.unit.audit_sample import own
from tests.unit.events_sample import sample_events

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
