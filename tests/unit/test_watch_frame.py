"""From a probe's lines to the figures of a frame."""

import json
import re
from pathlib import Path

import pytest

from pgdyno.watch.frame import class_of, frame_of, stepped
from pgdyno.watch.polling import increases
from pgdyno.watch.probe_stream import Row, Second, Seconds
from tests.unit.watch_sample import CPU, connected, history, line, row, sample, second, seconds, session, start, waits

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "watch.md"


def test_a_second_holds_its_looks_and_the_samples_at_its_end() -> None:
    frame = history().frame(1)
    assert frame["active"] == {"CPU": 2.0, "WAL": 1.0, "Lock": 1.0}
    assert frame["waits"] == {"CPU": 2.0, "LWLock:WALWrite": 1.0, "Lock:tuple": 1.0}
    assert frame["background"] == {"checkpointer: IO:DataFileWrite": 1.0}
    assert frame["queries"] == {"7": 4.0}
    # 1,000 commits, of which 10 looks and three others were ours, and 2 that were rolled back
    assert frame["tps"] == pytest.approx(1000 - 13 + 2)
    assert frame["cache_hit"] == pytest.approx(0.9)
    assert frame["wal_bytes_per_s"] == pytest.approx(2e6)
    assert frame["cpu"]["busy"] == pytest.approx(0.7)
    assert frame["cpu"]["steal"] == pytest.approx(0.05)
    # that of the data directory, though another is busier
    assert (frame["disks"][0]["device"], frame["disks"][0]["written_bytes_per_s"]) == ("vda", 3e6)
    assert (frame["processes"][0]["pid"], frame["processes"][0]["cpu"], frame["processes"][0]["who"]) == (
        4711,
        0.5,
        "alice@shop",
    )
    assert (frame["sessions"], frame["oldest_transaction_s"]) == (40, 1.5)


def test_several_seconds_are_one_frame_with_the_same_rates() -> None:
    told = history(5)
    assert told.frame(3)["seconds"] == 3
    assert told.frame(3)["wal_bytes_per_s"] == told.frame(1)["wal_bytes_per_s"]
    assert told.frame(3)["tps"] == pytest.approx(told.frame(1)["tps"])
    assert told.frame(60)["seconds"] == 5
    assert told.frame(3)["processes"][0]["cpu"] == told.frame(1)["processes"][0]["cpu"]


def test_a_late_sample_is_not_lost_and_a_second_waits_for_it() -> None:
    found = Seconds()
    for each in (start(), connected(), *second(1)):
        found.take(each)
    assert found.finished(1.4) == []
    (first,) = found.finished(1.5)
    assert len(first.waits) == 10
    found.take(sample("wal", 1.02, {"values": {"bytes": 5}}))
    (later,) = found.finished(2.6)
    assert [row.values for row in later.samples["wal"]] == [{"bytes": 5}]


def test_a_server_that_goes_away_is_away_until_it_is_back() -> None:
    found = Seconds()
    for each in (start(), connected(), *second(1)):
        found.take(each)
    assert [each.away for each in found.finished(1.6)] == [None]
    found.take(line("gap", 1.7, source="server", message="the session was lost: closed", reason="session_lost"))
    found.take(line("warning", 1.8, source="server", message="could not connect: refused"))
    assert [each.away for each in found.finished(3.6)] == ["could not connect: refused"] * 2
    found.take(connected(3.7))
    found.take(waits(3.8, ("client backend", "CPU", None, 1)))
    assert [each.away for each in found.finished(4.6)] == [None]
    # that it was away is shown where it belongs, not among what is missing
    assert not found.notes


def test_a_server_that_says_nothing_is_away() -> None:
    found = Seconds()
    for each in (start(), connected(), waits(0.5)):
        found.take(each)
    away = [each.away for each in found.finished(7.6)]
    assert away[:4] == [None] * 4
    assert away[5] == "no answer for 6 s"


def test_missing_data_is_reported_once() -> None:
    found = Seconds()
    for each in (start(), *[line("warning", 1, source="waits", message="GRANT pg_monitor to it")] * 2):
        found.take(each)
    found.take(line("gap", 2, source="wal", message="counters went back"))
    assert list(found.notes) == ["waits: GRANT pg_monitor to it"]


@pytest.mark.parametrize(
    ("wait", "expected"),
    [
        ("CPU", "CPU"),
        ("LWLock:WALWriteLock", "WAL"),
        ("IO:WalSync", "WAL"),
        ("IO:DataFileRead", "IO"),
        ("IPC:SyncRep", "other"),
        ("Extension", "other"),
    ],
)
def test_classes_of_waits(wait: str, expected: str) -> None:
    assert class_of(wait) == expected


def test_steps_end_with_the_last_second() -> None:
    points = [{"CPU": float(at), "tps": float(at)} for at in range(5)]
    steps = stepped([*points[:4], {**points[4], "cpu": 0.5}], 2, 10)
    assert [step["tps"] for step in steps] == [0.0, 1.5, 3.5]
    # what is known of one second alone is the step's
    assert steps[-1] == {"CPU": 3.5, "tps": 3.5, "cpu": 0.5}
    assert "cpu" not in steps[0]
    assert len(stepped(points, 1, 3)) == 3


def fields(value: object) -> set[str]:
    """Returns the keys of an object and of those in its lists; those of an object with names from outside excepted."""
    if isinstance(value, list):
        return {name for each in value for name in fields(each)}
    if not isinstance(value, dict):
        return set()
    named = ("active", "waits", "background", "queries")
    return value.keys() | {name for key, each in value.items() if key not in named for name in fields(each)}


def test_json_has_the_fields_that_the_reference_names_and_no_text_of_statements() -> None:
    private = session(5, "/* x */ alter role bob password 'hunter2'")
    told = history(3)
    (added,) = seconds(1, "alice", private)
    added.samples["statements"] = [Row(10.0, {"query_id": "7"}, {"calls": 5, "exec_time": 50})]
    told.add(added)
    frame = told.frame(1)
    assert "hunter2" not in json.dumps(frame)
    assert frame["backends"][0]["query"] == "ALTER ROLE"
    documented = set(re.findall(r"^\| `(\w+)`", REFERENCE.read_text(), re.MULTILINE))
    assert fields(frame) == documented


def test_statements_are_those_of_the_last_sample_the_dearest_first() -> None:
    told = history(3)
    told.texts = {"7": "SELECT secret FROM t WHERE id = 5", "8": ""}
    labels = [{"query_id": each, "user": "ann", "database": "shop"} for each in ("8", "7")]
    found = Seconds()
    cheap, dear = row(labels[0], calls=5, exec_time=50), row(labels[1], calls=100, exec_time=20_000, rows=300)
    for each in (start(), connected(), *second(1), sample("statements", 1, cheap, dear, span_s=10), *second(2)):
        found.take(each)
    for finished in found.finished(3):
        told.add(finished)
    first, other = told.frame(1)["statements"]
    assert (first["query_id"], first["query"], first["user"]) == ("7", "SELECT", "ann")
    assert (first["sessions"], first["calls_per_s"], first["mean_ms"], first["rows_per_s"]) == (2.0, 10.0, 200.0, 30.0)
    assert (other["query"], other["mean_ms"]) == ("", 10.0)
    assert told.query_ids() == {"7", "8"}
    told.queries = True
    assert told.frame(1)["statements"][0]["query"] == "SELECT secret FROM t WHERE id = ?"
    found.take(line("warning", 2.5, source="server", message="gone"))
    for finished in found.finished(4):
        told.add(finished)
    assert told.frame(1)["away"] == "gone"
    assert told.frame(1)["statements"] == []


def test_counters_grow_when_a_database_is_dropped_and_are_unknown_when_one_is_reset() -> None:
    small, large = [1.0, 0.0, 10.0, 90.0, 0.0, 0.0], [9.0, 1.0, 5000.0, 90000.0, 0.0, 0.0]
    more = [201.0, 0.0, 110.0, 1090.0, 0.0, 0.0]
    # one is gone, and another is new
    assert increases({1: small, 2: large}, {1: more, 3: small}) == [201.0, 0.0, 110.0, 1090.0, 0.0, 0.0]
    assert increases({1: more, 3: small}, {1: small, 3: small}) is None


def test_a_second_without_counters_does_not_lower_the_rates_of_several() -> None:
    told = history(5)
    whole = told.frame(3)["tps"]
    told.add(seconds(1)[0])
    assert told.frame(1)["tps"] is None
    assert told.frame(1)["rollbacks_per_s"] is None
    assert told.frame(4)["tps"] == pytest.approx(whole)


def test_wal_is_not_0_in_a_second_in_which_its_counters_were_reset() -> None:
    added = Second(1.0)
    added.samples["wal"] = [Row(1.0, {}, {})]
    added.samples["wal_position"] = [Row(1.0, {}, {"inserted": 5e6})]
    frame = frame_of([added], queries=False)
    assert (frame["wal_bytes_per_s"], frame["wal_syncs_per_s"]) == (5e6, None)


def test_a_process_that_was_sampled_late_used_no_more_than_its_core() -> None:
    added = Second(2.0)
    added.samples["cpu"] = [Row(2.0, {}, CPU)]
    added.samples["process"] = [Row(2.0, {"pid": "7", "kind": "walwriter"}, {"cpu": 1.5e6, "written": 4e6})]
    (process,) = frame_of([added], queries=False)["processes"]
    assert (process["cpu"], process["written_bytes_per_s"]) == (0.75, 2e6)


def test_busy_cores_are_not_busier_than_all_of_the_time() -> None:
    added = Second(1.0)
    # as the kernel counted on two busy cores
    added.samples["cpu"] = [Row(1.000016, {}, CPU | {"user": 0.995, "system": 0.01, "iowait": 0.0, "steal": 0.0})]
    cpu = frame_of([added], queries=False)["cpu"]
    assert cpu["busy"] == pytest.approx(1.0)
    assert cpu["busy"] <= 1.0
