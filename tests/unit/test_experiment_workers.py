"""The number of engine threads with which later trials of a load begin."""

from pathlib import Path

from pgdyno.experiment.generators import KnownWorkers
from pgdyno.plan import load_plan
from pgdyno.records import GeneratorHost, Outcome, Point, TrialRecord
from pgdyno.run.engine import trial_options
from tests.present import present
from tests.unit.audit_sample import own

POINT = Point(clients=4, scale=10)


def trial(workers: int, point: Point = POINT, outcome: Outcome = Outcome.FINISHED) -> TrialRecord:
    record = own().trials[0]
    generator = present(record.generator).model_copy(update={"workers": workers})
    return record.model_copy(update={"generator": generator, "point": point, "outcome": outcome})


def test_the_first_trial_that_finished_decides_for_its_load() -> None:
    failed = trial(8, outcome=Outcome.FAILED)
    other = trial(16, POINT.model_copy(update={"clients": 64}))
    swept = trial(4, POINT.model_copy(update={"settings": {"work_mem": "64MB"}}))
    known = KnownWorkers([failed, other, swept, trial(2)])
    assert known.of(POINT) == 4
    assert known.of(POINT.model_copy(update={"settings": {"work_mem": "4MB"}})) == 4
    assert known.of(POINT.model_copy(update={"clients": 64})) == 16
    assert known.of(POINT.model_copy(update={"rate": 100.0})) is None


def test_several_generators_have_no_common_number() -> None:
    record = trial(4)
    host = GeneratorHost.model_construct(name="a")
    several = record.model_copy(update={"generator": present(record.generator).model_copy(update={"hosts": [host]})})
    assert KnownWorkers([several]).of(POINT) is None


def test_a_known_number_is_asked_for_unless_the_plan_has_one(tmp_path: Path) -> None:
    plan = load_plan("quick").plan
    phases = tmp_path / "phases.toml"
    assert not [option for option in trial_options(plan, POINT, 1, phases) if option.startswith("--jobs")]
    assert "--jobs=4" in trial_options(plan, POINT, 1, phases, workers=4)
    planned = POINT.model_copy(update={"workers": 2})
    assert "--jobs=2" in trial_options(plan, planned, 1, phases, workers=4)
