"""The failure of a trial has an ID for programs, which the reference lists."""

import re
from pathlib import Path
from typing import Any

from pgdyno.records import Failure, FailureId, Stage
from pgdyno.run.process import RELEASE
from pgdyno.run.run_trial import OF_TIMEOUT, judge
from tests.present import present
from tests.unit.events_sample import Event, SampleError, sample_events

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "run-folder.md"


def test_the_reference_lists_every_id() -> None:
    table = REFERENCE.read_text().split("| id | what went wrong |\n|---|---|\n", 1)[1].split("\n\n", 1)[0]
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
    """Events of a load whose clients gave up at an error."""
    events = sample_events(2, 1, 300, 900, errors=[SampleError(second=0, consequence="client aborted", **error)])
    events[-1] |= {"outcome": "aborted", "clients_aborted": 1, "exit_code": 2}
    return events
