"""The failure of a trial has an ID for programs, which the reference lists."""

import re
from pathlib import Path
from typing import Any

import pytest

from pgdyno.records import Failure, FailureId, Stage
from pgdyno.run.process import RELEASE
from pgdyno.run.run_trial import OF_TIMEOUT, judge
from tests.unit.events_sample import SampleError, sample_events

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
    failure = judge([start, end], 1, tmp_path / "log").failure
    assert failure is not None
    assert failure.id == expected


def test_clients_that_gave_up_and_engines_without_an_end_have_their_ids(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("pgdrive: unrecognized option '--new'\npgdrive: hint: Try \"pgdrive --help\"\n")
    usage = judge([], 1, log).failure
    assert usage is not None
    assert (usage.message, usage.hint) == ("pgdrive: unrecognized option '--new'", RELEASE)
    events = sample_events(2, 1, 300, 900, errors=[SampleError(second=0, consequence="client aborted")])
    cut = judge(events[:-1], 137, log).failure
    events[-1] |= {"outcome": "aborted", "clients_aborted": 1, "exit_code": 2}
    aborted = judge(events, 2, log).failure
    assert [each.id for each in (usage, cut, aborted) if each is not None] == [
        FailureId.ENGINE_REFUSED,
        FailureId.ENGINE_ENDED,
        FailureId.CLIENTS_ABORTED,
    ]


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
    events = sample_events(2, 1, 300, 900, errors=[SampleError(second=0, consequence="client aborted")])
    for event in events:
        if event["event"] == "error":
            event |= {"sqlstate": sqlstate, "message": message}
    events[-1] |= {"outcome": "aborted", "clients_aborted": 1, "exit_code": 2}
    failure = judge(events, 2, tmp_path / "engine.log").failure
    assert failure is not None
    assert (failure.hint or "").startswith(OF_TIMEOUT) is is_timeout


def test_records_of_earlier_versions_have_none() -> None:
    assert Failure.model_validate({"stage": "run", "message": "any"}) == Failure(stage=Stage.RUN, message="any")
