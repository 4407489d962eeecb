"""Final reports of workloads from several generators."""

from typing import Any

import pytest

from pgdyno.generators.merge_events import Event
from pgdyno.generators.merge_figures import end_of_workload

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
