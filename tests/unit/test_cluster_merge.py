"""Events and final reports of several generators, merged into those of one."""

import copy
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pgdyno.analyse.histogram import merge
from pgdyno.generators.distributed_load import Offset, measure_offset
from pgdyno.generators.merge_events import Event, Merger
from pgdyno.generators.merge_figures import end_of_workload, one_histogram
from pgdyno.generators.shared_load import shared_out
from pgdyno.records import Outcome
from pgdyno.run.run_trial import judge
from tests.present import present
from tests.unit.events_sample import SampleError, sample_events
from tests.unit.store_sample import ingested

HOST = dict.fromkeys(("cpu_model", "pgdyno", "pgdrive"), "any") | {
    "name": "generator-1", "host": "load1", "cores": 2, "clients": 4, "clock_ahead_us": 0, "clock_round_trip_us": 100,
    "clock_ahead_after_us": 0, "report_delay_us": 2000,
}  # fmt: skip


def merged(streams: Sequence[list[Event]], offsets_us: Sequence[int] = (), hosts: Sequence[Event] = ()) -> list[Event]:
    merger = Merger(len(streams), offsets_us or [0] * len(streams))
    whole: list[Event] = []
    for together in zip_longest(*streams):
        for number, event in enumerate(together):
            if event is not None:
                whole += merger.add(number, event)
    assert merger.has_ended
    return [*whole, merger.end(hosts or [HOST] * len(streams))]


def of_kind(events: Sequence[Event], kind: str) -> list[Event]:
    return [event for event in events if event["event"] == kind]


def test_three_generators_are_one_trial(tmp_path: Path) -> None:
    errors = [SampleError(second=1, count=2)]
    streams = [sample_events(4, 3, 900 + 100 * seed, 800, 2, seed, errors, warmup_s=1) for seed in range(3)]
    events = merged(streams)
    ends = [stream[-1] for stream in streams]
    assert [event["seq"] for event in of_kind(events, "interval")] == list(range(5))
    for parts in zip(*(of_kind(stream, "interval") for stream in streams), strict=True):
        whole = of_kind(events, "interval")[parts[0]["seq"]]
        assert whole["phase"] == parts[0]["phase"]
        for script in whole["scripts"]:
            same = [each for part in parts for each in part["scripts"] if each["script"] == script["script"]]
            assert script["succeeded"] == sum(each["succeeded"] for each in same)
            assert counts([script["histogram"]]) == counts([each["histogram"] for each in same])
    result = judge(events, 0, tmp_path / "log")
    assert result.outcome is Outcome.FINISHED
    assert result.summary is not None
    assert result.summary.succeeded == sum(end["succeeded"] for end in ends)
    assert result.summary.failed == sum(end["failed"] for end in ends) == 6
    assert [error.count for error in result.summary.errors] == [6]
    of_all = present(merge([end["histogram"] for end in ends]))
    assert present(result.summary.latency_ns).p99 == of_all.percentile_ns(99)
    assert present(result.summary.latency_ns).mean == pytest.approx(
        sum(end["latency_ns"]["sum"] for end in ends) / sum(end["succeeded"] for end in ends)
    )
    assert [host.report_delay_us for host in present(result.generator).hosts] == [2000] * 3
    assert present(result.generator).workers == 3
    assert ingested(1, events).intervals


def counts(blobs: Sequence[str]) -> list[tuple[int, int]]:
    histogram = present(merge(blobs))
    return list(zip(histogram.highest_ns.tolist(), histogram.counts.tolist(), strict=True))


def test_percentiles_of_one_generator_are_its_own_and_long_ones_are_added_whole() -> None:
    stream = sample_events(4, 2, 500, 900)
    events = merged([stream])
    assert events[-1]["latency_ns"] == stream[-1]["latency_ns"]
    assert events[-1]["tps"] == pytest.approx(stream[-1]["tps"])
    from hdrh.histogram import HdrHistogram

    longest = HdrHistogram(1, 10**14, 3)
    longest.record_value(9 * 10**13, 3)
    short = HdrHistogram(1, 10**9, 3)
    short.record_value(1000, 5)
    found = counts([one_histogram([short.encode().decode(), longest.encode().decode()])])
    assert [count for _, count in found] == [5, 3]


def test_figures_of_the_end_are_merged() -> None:
    streams = [sample_events(4, 2, 500, 900, 2, seed) for seed in range(3)]
    names = ("left_running", "unreported_errors")
    assert not {*names} & merged(streams)[-1].keys()
    ends = [stream[-1] for stream in streams]
    figures = [{name: end[name] for name in ("latency_ns", "histogram")} for end in ends]
    of_phase = ("scheduled", "succeeded", "failed", "skipped", "in_flight", "measured_s", "latency_ns", "histogram")
    for place, end in enumerate(ends):
        for script in (script for script in end["scripts"] if script.get("histogram")):
            for statement in script["statements"]:
                statement["histogram"] = script["histogram"]
        phase: dict[str, Any] = {name: end[name] for name in of_phase}
        end["phases"] = [{**phase, "name": "peak", "result": True, "lag_ns": None, "scripts": end["scripts"]}]
        # the connections of the last one have no TLS
        tls = None if place == 2 else figures[place]
        end["connect"] = {"count": 100 + place, "total": figures[place], "tls": tls, "socket": None}
    for name in names:
        ends[1][name], ends[2][name] = 3, 4
    whole = merged(streams)[-1]
    assert [whole[name] for name in names] == [7, 7]
    assert any(script["histogram"] for script in whole["scripts"])
    for script in whole["scripts"]:
        for statement in script["statements"]:
            assert counts([statement["histogram"]]) == counts([script["histogram"]])
    connect = whole["connect"]
    assert (connect["count"], connect["socket"]) == (303, None)
    for name, parts in (("total", figures), ("tls", figures[:2])):
        assert counts([connect[name]["histogram"]]) == counts([each["histogram"] for each in parts])
        assert connect[name]["latency_ns"]["sum"] == sum(each["latency_ns"]["sum"] for each in parts)
        assert connect[name]["latency_ns"]["max"] == max(each["latency_ns"]["max"] for each in parts)
    [phase] = whole["phases"]
    assert phase["name"] == "peak"
    assert phase["succeeded"] == whole["succeeded"]
    assert phase["latency_ns"] == whole["latency_ns"]


def test_an_interval_waits_for_all_that_have_not_ended() -> None:
    one, other = sample_events(2, 3, 300, 900), sample_events(2, 3, 300, 900, seed=1)
    merger = Merger(2, [0, 0])
    heard = [whole for event in one for whole in merger.add(0, event)]
    assert heard == []
    heard = [whole for event in other[:3] for whole in merger.add(1, event)]
    assert [event["event"] for event in heard] == ["start", "connected", "interval"]
    long, short = sample_events(2, 5, 300, 900), sample_events(2, 2, 300, 900, seed=1)
    merger = Merger(2, [0, 0])
    for event in short:
        list(merger.add(1, event))
    heard = [whole for event in long for whole in merger.add(0, event)]
    # warm-up is none: seconds 0 to 4, what each drained
    assert [event["from_us"] // 1_000_000 for event in of_kind(heard, "interval")] == [0, 1, 2, 2, 3, 4, 5]
    assert merger.end([HOST, HOST])["measured_s"] == long[-1]["measured_s"]


def test_lulls_are_those_of_all_and_times_those_of_our_clock() -> None:
    streams = [sample_events(2, 1, 300, 900, seed=seed) for seed in range(2)]
    lulls = [[[100_000, 300_000], [500_000, 600_000]], [[200_000, 550_000]]]
    for stream, own in zip(streams, lulls, strict=True):
        of_kind(stream, "interval")[0]["lulls_us"] = own
    first = of_kind(merged(streams), "interval")[0]
    assert first["lulls_us"] == [[200_000, 300_000], [500_000, 550_000]]
    streams = [sample_events(2, 1, 300, 900, errors=[SampleError(second=0)]) for _ in range(2)]
    # the second generator's clock is a second ahead, and its engine was started 70 ms before the other
    for event in streams[1]:
        event["t_us"] += 70_000
    streams[1][1]["origin_us"] += 70_000
    streams[1][0]["epoch_us"] += 1_000_000 - 70_000
    events = merged(streams, [0, 1_000_000])
    assert [event["t_us"] for event in of_kind(events, "error")] == [of_kind(streams[0], "error")[0]["t_us"]] * 2
    assert [event["generator"] for event in of_kind(events, "error")] == [1, 2]
    assert events[0]["epoch_us"] == streams[0][0]["epoch_us"]


def test_the_first_that_fails_is_the_reason(tmp_path: Path) -> None:
    streams = [sample_events(2, 1, 300, 900)[:1] for _ in range(3)]
    merger = Merger(3, [0, 0, 0])
    for number in (0, 1, 2):
        list(merger.add(number, streams[number][0]))
    end_of_one = {"event": "end", "t_us": 9, "outcome": "failed", "exit_code": 1}
    for number, why, reason in (
        (1, "connection refused", "not-connected"),
        (0, "interrupted while connecting", "interrupted"),
        (2, "interrupted", "interrupted"),
    ):
        list(merger.add(number, {**end_of_one, "message": why, "reason": reason}))
    end = merger.end([HOST] * 3)
    assert end["message"] == "generator 2 of 3 (load1): connection refused"
    assert end["reason"] == "not-connected"
    # it is known before the others have ended, and is the end where one ends without a word
    another = Merger(3, [0] * 3)
    assert another.failure([HOST] * 3) is None
    list(another.add(0, streams[0][0]))
    list(
        another.add(0, {"event": "end", "t_us": 9, "outcome": "failed", "exit_code": 1, "message": "no such database"})
    )
    early = present(another.failure([HOST] * 3))
    assert early["message"] == "generator 1 of 3 (load1): no such database"
    assert [each["outcome"] for each in early["generators"]] == ["failed", None, None]
    failure = present(judge([streams[0][0], end], 1, tmp_path / "log").failure)
    assert failure.message == end["message"]


def test_clients_that_gave_up_are_told_by_host(tmp_path: Path) -> None:
    error = SampleError(second=1, consequence="client aborted")
    streams = [sample_events(4, 2, 300, 900, seed=seed, errors=[error] * (seed == 1)) for seed in range(3)]
    # the second host's way to the server is cut
    streams[1][-1] |= {"clients_aborted": 4, "outcome": "aborted", "exit_code": 2}
    hosts = [{**HOST, "name": f"generator-{number}", "host": f"load{number}"} for number in (1, 2, 3)]
    result = judge(merged(streams, hosts=hosts), 2, tmp_path / "log")
    assert result.outcome is Outcome.FAILED
    assert result.failure is not None
    assert result.failure.message.endswith(", and 3 more clients aborted: 4 of 4 clients of generator-2 (load2)")
    assert [host.clients_aborted for host in present(result.generator).hosts] == [0, 4, 0]
    assert present(result.summary).clients_aborted == 4


def test_the_outcome_is_the_worst() -> None:
    for outcomes, whole in (
        (["finished", "finished"], "finished"),
        (["finished", "interrupted"], "interrupted"),
        (["interrupted", "aborted"], "aborted"),
    ):
        stream = sample_events(2, 1, 300, 900)
        streams = [copy.deepcopy(stream) for _ in outcomes]
        for each, outcome in zip(streams, outcomes, strict=True):
            each[-1]["outcome"] = outcome
        assert merged(streams)[-1]["outcome"] == whole


def test_files_go_with_the_options(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 1;\n")
    (tmp_path / "plan").mkdir()
    (tmp_path / "plan" / "phases.toml").write_text("")
    options = ["-f", "../a.sql@3", "-b", "select-only@2", "--parent-lease", "--client=7", "--phases=phases.toml"]
    shared = shared_out(options, tmp_path / "plan")
    assert shared.clients == 7
    share = shared.part(2, 3)
    assert share.options_here == ["--part=2/3", *(option for option in options if option != "--parent-lease")]
    assert share.options_there == [
        *("--part=2/3", "-f", "up/a.sql@3", "-b", "select-only@2", "--client=7", "--phases=phases.toml")
    ]
    assert share.files == {"up/a.sql": b"SELECT 1;\n", "phases.toml": b""}
    assert shared.names == {"up/a.sql": "../a.sql"}


def test_the_offset_is_that_of_the_quickest_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    now_us = 1_000_000_000
    answers = iter([(5_000_000, 20_000), (2_000_000, 300), (3_000_000, 20_000)])

    def ask() -> int:
        nonlocal now_us
        ahead_us, way_us = next(answers)
        now_us += way_us
        other_us = now_us + ahead_us
        now_us += way_us
        return other_us

    clock = SimpleNamespace(monotonic_ns=lambda: now_us * 1000, time_ns=lambda: now_us * 1000)
    monkeypatch.setattr("pgdyno.generators.distributed_load.time", clock)
    assert measure_offset(ask, 3) == Offset(2_000_000, 600)


# ---- final reports of workloads ----

MERGED: Event = {"outcome": "finished", "measured_s": 60.0, "latency_ns": None, "scripts": []}
SECOND = 1_000_000


def outage(began_s: float, length_s: float | None, *all_away_s: tuple[float, float], lost: int = 2) -> Event:
    return {
        "number": 7,
        "began_us": int(began_s * SECOND),
        "began_epoch_us": int(began_s * SECOND) + 10**15,
        "length_us": None if length_s is None else int(length_s * SECOND),
        "first_success_us": None if length_s is None else int(length_s * SECOND) // 2,
        "all_away_in_us": [[int(since * SECOND), int(to * SECOND)] for since, to in all_away_s],
        "all_away_us": 0,
        "clients": lost,
        "connections_lost": lost,
        "transactions_lost": 1,
        "reconnects": lost,
        "failed_attempts": 3,
        "clients_never_back": 0 if length_s is not None else lost,
    }


def outages(*parts: list[Event]) -> list[Event]:
    ends: list[Event] = [
        {"outages": part, "connections_lost": 1, "reconnects": 1, "failed_attempts": 0} for part in parts
    ]
    fields = end_of_workload(ends, [2] * len(parts), MERGED)
    assert fields["outage_count"] == len(fields["outages"])
    assert fields["connections_lost"] == len(parts)
    found: list[Event] = fields["outages"]
    return found


def test_outages_that_touch_are_one_and_one_without_an_end_belongs_to_all() -> None:
    one, other = outages([outage(3, 2, (3.5, 4.5)), outage(20, 1)], [outage(3.2, 3, (3.2, 4.0), (4.2, 6.0))])
    assert (one["number"], one["began_us"], one["length_us"]) == (1, 3 * SECOND, 3_200_000)
    assert (one["connections_lost"], one["clients"], one["failed_attempts"]) == (4, 4, 6)
    # the first success of anybody who had been away
    assert one["first_success_us"] == SECOND
    assert one["all_away_in_us"] == [[3_500_000, 4_000_000], [4_200_000, 4_500_000]]
    assert one["all_away_us"] == 800_000
    assert (other["number"], other["began_us"], other["all_away_us"]) == (2, 20 * SECOND, 0)
    # a client that is lost twice in one outage is one client
    (one,) = outages([outage(3, 1, lost=2), outage(6, 1, lost=1)], [outage(3.5, 3, lost=2)])
    assert (one["connections_lost"], one["clients"]) == (5, 4)
    assert len(outages([outage(3, 1)], [outage(4.9, 1)])) == 1
    assert len(outages([outage(3, 1)], [outage(5.1, 1)])) == 2
    (one,) = outages([outage(3, None), outage(30, 1)], [outage(9, 1)])
    assert (one["length_us"], one["clients_never_back"]) == (None, 2)
    # it is no outage of all while one generator is connected
    (one,) = outages([outage(3, 1, (3, 4))], [])
    assert one["all_away_us"] == 0


def tpcc(count: int = 1000, **changes: object) -> dict[str, Any]:
    mix = [{"script": 0, "name": "Payment", "count": each, "asked_percent": 50.0} for each in (count, 1000)]
    return {
        "types": [{"scripts": [number], "count": one["count"]} for number, one in enumerate(mix)],
        "mix": mix,
        "new_orders": {"committed": 0, "rolled_back": 0},
        "deferred": None,
        "server": {"message": "the first generator counts"},
        "mix_is_one": True,
        "refused": None,
    } | changes


@pytest.mark.parametrize(("count", "is_one", "refused"), [(1020, True, False), (600, True, True), (600, False, False)])
def test_the_mix_is_judged_over_all(count: int, *, is_one: bool, refused: bool) -> None:
    fields = end_of_workload([{"tpcc": tpcc(count, mix_is_one=is_one)}] * 3, [4] * 3, MERGED)
    found = fields["tpcc"]
    assert [one["count"] for one in found["mix"]] == [3 * count, 3000]
    assert (found["refused"] is not None, fields.get("outcome"), fields.get("exit_code")) == (
        (True, "refused", 3) if refused else (False, None, None)
    )
    # as in crates/pgdrive/src/tpcc/mix_and_pauses.rs: five deviations, and a transaction under way for each client
    total = 3 * (count + 1000)
    allowed = 100 * (5 * (0.25 / total) ** 0.5 + 12 / total)
    assert found["mix"][0]["chance_percent"] == pytest.approx([50 - allowed, 50 + allowed])


def test_the_servers_counts_are_those_of_who_ended_last() -> None:
    counts = [{"nopm": 60.0 * orders / s, "new_orders": orders, "seconds": s} for orders, s in ((90, 1.0), (300, 4.0))]
    silent = tpcc()["server"]
    for servers, of_all in (([*counts, silent], counts[1]), ([silent, silent], silent)):
        ends = [{"tpcc": tpcc(server=server)} for server in servers]
        assert end_of_workload(ends, [4] * len(ends), MERGED)["tpcc"]["server"] == of_all


def test_ledgers_and_lua_statements_are_added() -> None:
    names = ("reads", "writes", "others", "queries", "ignored_errors", "reconnects")
    page = {"last": 3, "unknown": [[2, 2]], "refused": []}

    def end(client: int, mean: float) -> Event:
        fairness = {"mean": mean, "stddev": 0.0, "min": mean, "max": mean}
        return {
            "ledger": {"acknowledged": 2, "unknown": 1, "refused": 0, "clients": [{"client": client, **page}]},
            "statements": dict.fromkeys(names, 5) | {"p95_ns": 1, "fairness": fairness},
        }

    fields = end_of_workload([end(1, 10.0), end(0, 20.0)], [1, 3], {**MERGED, "latency_ns": {"p95": 77}})
    assert [one["client"] for one in fields["ledger"]["clients"]] == [0, 1]
    assert (fields["ledger"]["acknowledged"], fields["ledger"]["unknown"]) == (4, 2)
    assert {fields["statements"][name] for name in names} == {10}
    assert fields["statements"]["p95_ns"] == 77
    # of the clients 10, 20, 20, 20
    assert fields["statements"]["fairness"] == pytest.approx(
        {"mean": 17.5, "stddev": 18.75**0.5, "min": 10.0, "max": 20.0}
    )
