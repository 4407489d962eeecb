"""A load compared with its capture: shares, times and errors by class of statements."""

import pytest

from pgdyno.analyse.likeness import MOST_CLASSES, likeness, modelled_statements, replayed_statements
from pgdyno.records.capture import LeftOut, StatementClass
from tests.unit.capture_sample import capture
from tests.unit.events_sample import blob_of


def statement(number: int, executions: int, failures: int = 0, **more: object) -> dict[str, object]:
    latency = {"p50": 1_000_000, "p99": 3_000_000} if executions else None
    return {"id": number, "executions": executions, "failures": failures, "latency_ns": latency, **more}


def end_of(*scripts: list[dict[str, object]]) -> dict[str, object]:
    return {"scripts": [{"script": at, "statements": statements} for at, statements in enumerate(scripts)]}


def test_classes_of_a_replay_are_compared_by_their_number() -> None:
    end = end_of([statement(0, 2), statement(1, 1), statement(2, 0, failures=1), statement(3, 1)])
    found = likeness(capture(), replayed_statements(end))
    assert found.largest_difference == 0
    assert (found.captured_calls, found.calls, found.outside, found.not_modelled) == (5, 5, 0, 0)
    # most time in the capture first
    assert [each.number for each in found.classes] == [0, 2, 3, 1]
    first, failed = found.classes[:2]
    assert (first.captured_share, first.share, first.captured_p50_us, first.p50_us) == (0.4, 0.4, 800, 1000)
    assert (failed.captured_errors, failed.errors, failed.calls, failed.p50_us) == (1, 1, 1, None)
    assert [(wait.wait, wait.sessions) for wait in found.waits] == [("CPU", 0.5), ("Lock:tuple", 0.25)]
    # a class that is missing
    found = likeness(capture(), replayed_statements(end_of([statement(1, 1), statement(2, 1), statement(3, 1)])))
    assert found.largest_difference == pytest.approx(0.4)
    assert found.unlike_class == 0
    assert found.not_modelled == pytest.approx(0.4)
    # without statements, there are no shares
    left = [LeftOut(reason="copy-data", count=3), LeftOut(reason="background", count=9)]
    found = likeness(capture(left_out=left), [])
    assert (found.copies_left_out, found.calls) == (3, 0)
    assert all(each.share == 0 for each in found.classes)


def test_commands_of_several_scripts_make_a_class_with_percentiles_if_there_are_histograms() -> None:
    fast, slow = blob_of(((1_000_000, 99),)).decode(), blob_of(((9_000_000, 1),)).decode()
    start = {
        "scripts": [
            {"id": 0, "name": "a.sql", "statements": [{"id": 2}, {"id": 4}]},
            {"id": 1, "name": "b.sql", "statements": [{"id": 0}]},
            {"id": 2, "name": "other.sql", "statements": [{"id": 0}]},
        ]
    }
    end = end_of(
        [statement(2, 99, histogram=fast), statement(4, 50)], [statement(0, 1, histogram=slow)], [statement(0, 50)]
    )
    commands: dict[str, list[int | None]] = {"a.sql": [0, None], "b.sql": [0]}
    found = likeness(capture(), modelled_statements(start, end, commands))
    assert found.outside == 100
    assert found.unlike_class is None
    assert found.largest_difference == pytest.approx(0.5)
    (first,) = [each for each in found.classes if each.number == 0]
    assert (first.calls, first.share) == (100, 0.5)
    # of the merged histograms, within 0.1 %
    assert first.p50_us == pytest.approx(1000, rel=0.002)
    assert first.p99_us == pytest.approx(1000, rel=0.002)
    start = {"scripts": [{"id": 0, "name": "a.sql", "statements": [{"id": 0}, {"id": 1}]}]}
    end = end_of([statement(0, 5), statement(1, 5)])
    found = likeness(capture(), modelled_statements(start, end, {"a.sql": [0, 0]}))
    (first,) = [each for each in found.classes if each.number == 0]
    assert (first.calls, first.p50_us, first.p99_us) == (10, None, None)


def test_a_record_keeps_the_classes_with_the_most_time_and_those_that_are_named() -> None:
    many = [StatementClass(text=f"SELECT {'x' * 500} {at}", calls=1, total_us=at) for at in range(MOST_CLASSES + 7)]
    found = likeness(capture(statements=many), replayed_statements(end_of([statement(0, 1)])), {2, MOST_CLASSES})
    assert [each.number for each in found.classes][MOST_CLASSES:] == [2]
    assert found.classes_left_out == 6
    assert found.classes[0].number == MOST_CLASSES + 6
    assert len(found.classes[0].text) == 200
