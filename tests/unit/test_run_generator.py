"""The record of the engine that generated a load."""

from pathlib import Path

from pgdyno.records import Outcome
from pgdyno.run.process import without_libpq
from pgdyno.run.run_trial import judge
from tests.unit.events_sample import sample_events


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
