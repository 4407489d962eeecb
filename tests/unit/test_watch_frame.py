"""From a probe's lines to the figures of a frame."""

import json
import re
from pathlib import Path

import pytest

from pgdyno.watch.frame import class_of, frame_of
from pgdyno.watch.polling import increases
from tests.unit.watch_sample import (
    CPU,
    connected,
    frame,
    history,
    line,
    row,
    sample,
    samples_of,
    second,
    session,
    waits,
)

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "watch.md"


def test_a_second_holds_its_looks_and_the_samples_at_its_end() -> None:
    found = frame(history())
    assert found["active"] == {"CPU": 2.0, "WAL": 1.0, "Lock": 1.0}
    assert found["waits"] == {"CPU": 2.0, "LWLock:WALWrite": 1.0, "Lock:tuple": 1.0}
    assert found["background"] == {"checkpointer: IO:DataFileWrite": 1.0}
    assert found["queries"] == {"7": 4.0}
    # 1,000 commits, of which 10 looks and three others were ours, and 2 that were rolled back
    assert found["tps"] == pytest.approx(1000 - 13 + 2)
    assert found["cache_hit"] == pytest.approx(0.9)
    assert found["wal_bytes_per_s"] == pytest.approx(2e6)
    assert found["cpu"]["busy"] == pytest.approx(0.7)
    assert found["cpu"]["steal"] == pytest.approx(0.05)
    # that of the data directory, though another is busier
    assert (found["disks"][0]["device"], found["disks"][0]["written_bytes_per_s"]) == ("vda", 3e6)
    process = found["processes"][0]
    assert (process["pid"], process["cpu"], process["who"]) == (4711, 0.5, "alice@shop")
    assert (found["sessions"], found["oldest_transaction_s"]) == (40, 1.5)


def test_several_seconds_are_one_frame_with_the_same_rates() -> None:
    one, three = frame(history(5)), frame(history(5, most=3))
    assert three["seconds"] == 3
    assert three["wal_bytes_per_s"] == one["wal_bytes_per_s"]
    assert three["tps"] == pytest.approx(one["tps"])
    assert frame(history(5, most=60))["seconds"] == 5
    assert three["processes"][0]["cpu"] == one["processes"][0]["cpu"]


def test_a_server_that_goes_away_is_away_until_it_is_back() -> None:
    samples = samples_of([connected(), *second(1)])
    assert samples.away(1.6) is None
    samples.take(line("gap", 1.7, source="server", message="the session was lost: closed", reason="session_lost"))
    samples.take(line("warning", 1.8, source="server", message="could not connect: refused"))
    assert samples.away(3.6) == "could not connect: refused"
    samples.take(connected(3.7))
    samples.take(waits(3.8, ("client backend", "CPU", None, 1)))
    assert samples.away(4.6) is None
    # that it was away is shown where it belongs, not among what is missing
    assert not samples.notes


def test_a_server_that_says_nothing_is_away() -> None:
    samples = samples_of([connected(), waits(0.5)])
    assert samples.away(4.4) is None
    assert samples.away(6.5) == "no answer for 6 s"


def test_missing_data_is_reported_once() -> None:
    samples = samples_of([line("warning", 1, source="waits", message="GRANT pg_monitor to it")] * 2)
    samples.take(line("gap", 2, source="wal", message="counters went back"))
    assert list(samples.notes) == ["waits: GRANT pg_monitor to it"]


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


def fields(value: object) -> set[str]:
    """Returns the keys of an object and of those in its lists; those of an object with names from outside excepted."""
    if isinstance(value, list):
        return {name for each in value for name in fields(each)}
    if not isinstance(value, dict):
        return set()
    named = ("active", "waits", "background", "queries")
    return value.keys() | {name for key, each in value.items() if key not in named for name in fields(each)}


def test_json_has_the_fields_that_the_reference_names_and_no_text_of_statements() -> None:
    samples = history(3, "alice", session(5, "/* x */ alter role bob password 'hunter2'"))
    samples.take(sample("statements", 3, row({"query_id": "7"}, calls=5, exec_time=50), span_s=10))
    found = frame(samples)
    assert "hunter2" not in json.dumps(found)
    assert found["backends"][0]["query"] == "ALTER ROLE"
    documented = set(re.findall(r"^\| `(\w+)`", REFERENCE.read_text(), re.MULTILINE))
    assert fields(found) == documented


def test_statements_are_those_of_the_last_sample_the_dearest_first() -> None:
    texts = {"7": "SELECT secret FROM t WHERE id = 5", "8": ""}
    labels = [{"query_id": each, "user": "ann", "database": "shop"} for each in ("8", "7")]
    cheap, dear = row(labels[0], calls=5, exec_time=50), row(labels[1], calls=100, exec_time=20_000, rows=300)
    samples = samples_of([sample("statements", 1, cheap, dear, span_s=10)], second(2), most=1)
    first, other = frame_of(samples, 0.0, texts, away=None, queries=False)["statements"]
    assert (first["query_id"], first["query"], first["user"]) == ("7", "SELECT", "ann")
    assert (first["sessions"], first["calls_per_s"], first["mean_ms"], first["rows_per_s"]) == (2.0, 10.0, 200.0, 30.0)
    assert (other["query"], other["mean_ms"]) == ("", 10.0)
    whole = frame_of(samples, 0.0, texts, away=None, queries=True)
    assert whole["statements"][0]["query"] == "SELECT secret FROM t WHERE id = ?"


def test_figures_from_before_an_outage_are_not_shown() -> None:
    samples = history(3, "alice", session(5, "SELECT 1"), most=2)
    samples.take(sample("statements", 3, row({"query_id": "7"}, calls=5, exec_time=50), span_s=10))
    found = frame(samples, away="gone")
    assert (found["away"], found["tps"], found["active"], found["seconds"]) == ("gone", None, None, 1)
    assert not any(found[name] for name in ("statements", "backends", "blockers"))
    # the host is there
    assert found["cpu"]["busy"] == pytest.approx(0.7)


def test_counters_grow_when_a_database_is_dropped_and_are_unknown_when_one_is_reset() -> None:
    small, large = [1.0, 0.0, 10.0, 90.0, 0.0, 0.0], [9.0, 1.0, 5000.0, 90000.0, 0.0, 0.0]
    more = [201.0, 0.0, 110.0, 1090.0, 0.0, 0.0]
    # one is gone, and another is new
    assert increases({1: small, 2: large}, {1: more, 3: small}) == [201.0, 0.0, 110.0, 1090.0, 0.0, 0.0]
    assert increases({1: more, 3: small}, {1: small, 3: small}) is None


def test_a_second_without_counters_does_not_lower_the_rates_of_several() -> None:
    whole = frame(history(5, most=3))["tps"]
    samples = history(5, most=4)
    samples.recent.append([])
    for each in second(6):
        samples.take(each)
    assert frame(samples)["tps"] == pytest.approx(whole)
    alone = frame(samples_of(second(1)))
    assert (alone["tps"], alone["rollbacks_per_s"]) == (None, None)


def test_wal_is_not_0_in_a_second_in_which_its_counters_were_reset() -> None:
    found = frame(samples_of([sample("wal", 1, row()), sample("wal_position", 1, row(inserted=5e6))]))
    assert (found["wal_bytes_per_s"], found["wal_syncs_per_s"]) == (5e6, None)


def test_a_process_that_was_sampled_late_used_no_more_than_its_core() -> None:
    used = row({"pid": "7", "kind": "walwriter"}, cpu=1.5e6, written=4e6)
    late = [sample("cpu", 2, row(**CPU), span_s=2.0), sample("process", 2, used, span_s=2.0)]
    (process,) = frame(samples_of(late))["processes"]
    assert (process["cpu"], process["written_bytes_per_s"]) == (0.75, 2e6)


def test_busy_cores_are_not_busier_than_all_of_the_time() -> None:
    # as the kernel counted on two busy cores
    counted = CPU | {"user": 0.995, "system": 0.01, "iowait": 0.0, "steal": 0.0}
    cpu = frame(samples_of([sample("cpu", 1, row(**counted), span_s=1.000016)]))["cpu"]
    assert cpu["busy"] == pytest.approx(1.0)
    assert cpu["busy"] <= 1.0
