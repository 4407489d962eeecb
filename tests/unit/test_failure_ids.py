"""The failure of a trial has an ID for programs, which the reference lists."""

import re
from pathlib import Path
from typing import Any

import pytest

from pgdyno.records import Failure, FailureId, Stage
from pgdyno.run.process import RELEASE
from pgdyno.run.run_trial import OF_TIMEOUT, judge
from tests.present import present
from tests.unit.events_sample import Event, SampleError, sample_events

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "run-folder.md"


def test_the_reference_lists_every_id() -> None:
    table = REFERENCE.read_text().split("| id | what went wrong |\n|---|---|\n", 1)[1].split("\n\n", 1)[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE) == [each.value for each in FailureId]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"reason": "not-prepared"}, FailureId.NOT_PREPARED),
        ({"reason": "not-connected"}, FailureId.NOT_CONNECTED),
        ({"reason": "not-started"}, FailureId.NOT_BEGUN),
        ({"reason": "interrupted"}, FailureId.ENGINE_STOPPED),
        ({}, FailureId.NOT_BEGUN),
        ({"lost_generator": 2}, FailureId.GENERATOR_LOST),
    ],
)
def test_a_load_without_a_begin_has_a_reason(fields: dict[str, Any], expected: FailureId, tmp_path: Path) -> None:
    start = sample_events(2, 1, 300, 900)[0]
    end = {"event": "end", "t_us": 9, "outcome": "failed", "exit_code": 1, "message": "any", **fields}
    assert present(judge([start, end], 1, tmp_path / "log").failure).id == expected


def aborted(**error: Any) -> list[Event]:  # noqa: ANN401
    """Events of a load whose clients gave up at an error."""
    events = sample_events(2, 1, 300, 900, errors=[SampleError(second=0, consequence="client aborted", **error)])
    events[-1] |= {"outcome": "aborted", "clients_aborted": 1, "exit_code": 2}
    return events


def test_clients_that_gave_up_and_engines_without_an_end_have_their_ids(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("pgdrive: unrecognized option '--new'\npgdrive: hint: Try \"pgdrive --help\"\n")
    usage, cut, gave_up = (
        present(judge(events, code, log).failure) for events, code in (([], 1), (aborted()[:-1], 137), (aborted(), 2))
    )
    assert (usage.message, usage.hint) == ("pgdrive: unrecognized option '--new'", RELEASE)
    expected = [FailureId.ENGINE_REFUSED, FailureId.ENGINE_ENDED, FailureId.CLIENTS_ABORTED]
    assert [usage.id, cut.id, gave_up.id] == expected


@pytest.mark.parametrize(
    ("sqlstate", "message", "is_timeout"),
    [
        ("57014", "ERROR:  canceling statement due to statement timeout", True),
        ("57014", "ERROR:  canceling statement due to user request", False),
        ("40001", "ERROR:  could not serialize access", False),
    ],
)
def test_a_timeout_of_the_role_is_named_as_the_cause(
    sqlstate: str, message: str, is_timeout: bool, tmp_path: Path
) -> None:
    failure = present(judge(aborted(sqlstate=sqlstate, message=message), 2, tmp_path / "engine.log").failure)
    assert (failure.hint or "").startswith(OF_TIMEOUT) is is_timeout


def test_records_of_earlier_versions_have_none() -> None:
    assert Failure.model_validate({"stage": "run", "message": "any"}) == Failure(stage=Stage.RUN, message="any")
