"""A plan under a budget: it fits, is reduced in a fixed order, and lists the reductions."""

import re
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pgdyno.analyse.series import dependent_parameters
from pgdyno.commands.support.plan_budget import within_budget
from pgdyno.doctor import System
from pgdyno.errors import UsageError
from pgdyno.plan import Plan, catalogue, load_plan, planned_trials
from pgdyno.plan.checks.question import compares_arms
from pgdyno.plan.scenario.loads import plan_of_load
from pgdyno.plan.time_budget.budget import ENDING_S, STARTING_S, Budget, Fitted, Room, fit
from pgdyno.plan.time_budget.budget_reductions import thin
from pgdyno.plan.time_budget.time_and_disk import estimated_s, loading_s, needed_s, trial_count
from pgdyno.records import Point
from pgdyno.units import parse_duration_s
from tests.present import present
from tests.unit.plan_sample import loaded as plan_of
from tests.unit.plan_sample import small_plan

GIB = 1024**3


def room(seconds: float, memory_gib: int = 24, disk_gib: int = 80) -> Room:
    return Room(seconds, memory_gib * GIB, disk_gib * GIB)


def plan(**changes: object) -> Plan:
    document: dict[str, Any] = {
        "name": "p",
        "target": {"a": {"kind": "embedded", "version": "18"}},
        "workload": {"scripts": ["select-only"], "scale": 10},
        "sweep": {"clients": [1, 2, 4, 8, 16, 32, 64, 128]},
        "trial": {"warmup": "5s", "duration": "60s", "repeats": 5},
    }
    document.update(changes)
    return Plan.model_validate(document)


def seconds(plan: Plan) -> float:
    return present(estimated_s(plan, plan.points()))


def needed(refused: pytest.ExceptionInfo[UsageError]) -> float:
    """Returns the seconds that a refusal names."""
    return parse_duration_s(present(re.search(r"about (\w+)", present(refused.value.hint)))[1])


def reductions_of(fitted: Fitted) -> list[str]:
    return [str(each) for each in fitted.gave_up]


def test_a_plan_that_fits_is_not_reduced_and_pauses_count() -> None:
    wanted = plan()
    fitted = fit(wanted, room(seconds(wanted) + 1))
    assert (fitted.plan, fitted.gave_up) == (wanted, [])
    trial = {"warmup": "5s", "duration": "60s", "repeats": 5}
    assert seconds(plan(trial={**trial, "pause": "10s"})) == pytest.approx(seconds(wanted) + 39 * 10)


def test_steps_keep_their_proportions_and_are_not_shorter_than_a_trial() -> None:
    wanted = load_plan("insert-benchmark").plan
    fitted = fit(wanted, room(300))
    assert seconds(fitted.plan) <= 300
    assert reductions_of(fitted) == ["steps have 20 % of their time and transactions"]
    fill, *_, last = planned_trials(fitted.plan)
    assert plan_of_load(fitted.plan, fill.point).trial.transactions == 2070
    assert plan_of_load(fitted.plan, last.point).trial.duration == 12
    assert len(planned_trials(fitted.plan)) == len(planned_trials(wanted))
    with pytest.raises(UsageError) as refused:
        fit(wanted, room(100))
    assert "3 trials at one point of each arm need about 2m" in present(refused.value.hint)
    assert min(each.duration or 60 for each in fit(wanted, room(145)).plan.step) >= 5


def test_exclusions_hold_for_the_scales_that_the_plan_names_and_groups_keep_their_values() -> None:
    little = room(60, 64, 10_000)
    for condition, kept in (("scale > 2000", [125]), ("scale < 2000", [93])):
        wanted = plan(sweep={"clients": 1, "scale": [1000, 3000], "exclude": condition})
        assert [point.scale for point in fit(wanted, little).plan.points()] == kept
    points = fit(plan(sweep={"clients": "scale / 100", "scale": [1000, 3000]}), little).plan.points()
    assert [(point.clients, point.scale) for point in points] == [(10, 31), (30, 93)]
    # fewer points keep the values of groups
    groups = [{"name": "a", "scripts": ["select-only"]}, {"name": "b", "scripts": ["select-only"]}]
    sweep = {"group": {"b.clients": [1, 2, 4, 8, 16, 32]}}
    wanted = plan(group=groups, sweep=sweep, workload={"scale": 1}, trial={"duration": "60s", "repeats": 3})
    fitted = fit(wanted, room(100)).plan
    assert {each.groups["b.clients"] for each in fitted.points()} < {"1", "2", "4", "8", "16", "32"}


def test_the_duration_goes_first_then_repeats_then_points_and_the_dataset_last() -> None:
    wanted = plan()
    fitted = fit(wanted, room(seconds(wanted) / 2)).plan
    assert 5 <= present(fitted.trial.duration) < 60
    assert (fitted.trial.repeats, len(fitted.points()), fitted.workload.scale) == (5, 8, 10)
    fewer_repeats = fit(wanted, room(240)).plan
    assert (fewer_repeats.trial.repeats, len(fewer_repeats.points())) == (4, 8)
    fewer_points = fit(wanted, room(80)).plan
    assert fewer_points.trial.repeats == 3
    assert [point.clients for point in fewer_points.points()][:: len(fewer_points.points()) - 1] == [1, 128]
    assert fewer_points.workload.scale == 10


TRIAL = {"warmup": "5s", "duration": "60s", "repeats": 8}
TWO = {name: {"kind": "embedded", "version": name[2:]} for name in ("pg17", "pg18")}


def test_points_go_before_a_verdict_between_arms_does() -> None:
    for changes in (
        {"target": TWO},
        {"sweep": {"clients": [1, 2, 4, 8, 16, 32], "settings": {"work_mem": ["4MB", "64MB"]}}},
    ):
        wanted = plan(trial=TRIAL, **changes)
        for time in (900, 400, 150):
            fitted = fit(wanted, room(time)).plan
            assert fitted.trial.most_repeats >= 6
            assert seconds(fitted) <= time
            arms = {name for point in fitted.points() for name in point.settings.items()} or fitted.target
            assert len(arms) == 2
        with pytest.raises(UsageError) as refused:
            fit(wanted, room(60))
        assert re.fullmatch(
            r"6 trials at one point of each arm need about \w+, and a verdict needs that many: give a longer --budget, "
            r"or remove arms",
            present(refused.value.hint),
        )
        assert fit(wanted, room(needed(refused) + 1)).plan.trial.repeats == 6
    # fewer pairs than a verdict needs stay where the plan asks for them
    assert fit(plan(target=TWO, trial={**TRIAL, "repeats": 2}), room(100)).plan.trial.repeats == 2


def test_a_dataset_is_made_smaller_for_the_time_and_for_the_disk() -> None:
    wanted = plan(workload={"scripts": ["select-only"]}, sweep={"clients": 8, "scale": [100, 1000, 10_000]})
    fitted = fit(wanted, room(300))
    scales = [point.scale or 0 for point in fitted.plan.points()]
    assert len(scales) == 3
    assert scales[1] == pytest.approx(scales[2] / 10, abs=1)
    assert "scale-reduced" in [each.id for each in fitted.gave_up]
    wanted = plan(workload={"scripts": ["select-only"], "scale": 10_000})
    small = fit(wanted, room(10_000_000, disk_gib=10)).plan
    assert small.workload.scale * 15_000_000 <= 10 * GIB
    # a slow machine gets a smaller one
    wanted = plan(workload={"scripts": ["select-only"], "scale": 100}, sweep={"clients": 8})
    assert fit(wanted, room(300)).plan.workload.scale == 100
    slow = fit(wanted, replace(room(300), load_s_a_scale=2.0)).plan
    assert loading_s(slow, slow.points(), 2.0) <= 75
    assert present(needed_s(slow, slow.points(), 2.0)) <= 300


def with_settings(**settings: object) -> dict[str, object]:
    return {"kind": "embedded", "version": "18", "settings": settings}


def test_settings_and_transactions_come_down_to_the_machine() -> None:
    target = with_settings(shared_buffers="50GB", work_mem=4096)
    fitted = fit(plan(target={"a": target, "b": target}), room(10_000_000))
    assert {spec.settings["shared_buffers"] for spec in fitted.plan.target.values()} == {"3072MB"}
    assert {spec.settings["work_mem"] for spec in fitted.plan.target.values()} == {"4096"}
    assert reductions_of(fitted) == ["shared_buffers is 3072MB instead of 50GB"]
    wal = fit(plan(target={"a": with_settings(max_wal_size="150GB", min_wal_size="30GB")}), room(100_000))
    assert reductions_of(wal) == ["max_wal_size is 12288MB instead of 150GB", "min_wal_size is 3072MB instead of 30GB"]
    assert fit(wal.plan, room(100_000)).gave_up == []
    fitted = fit(plan(trial={"transactions": 90_000}), room(200))
    assert fitted.plan.trial.transactions is None
    assert reductions_of(fitted)[0].endswith("instead of 90,000 transactions per client")


def curve(*clients: int) -> list[Point]:
    return [Point(clients=each, scale=1) for each in clients]


def test_thinned_curves_keep_both_ends_an_even_spread_and_their_axes() -> None:
    assert [point.clients for point in thin(curve(*range(2, 162, 2)), 5)] == [2, 6, 18, 54, 160]
    # one client belongs to the curve of its proportion
    points = [Point(clients=clients, workers=max(1, clients // 2)) for clients in (1, 4, 16, 32, 48, 64, 80, 96)]
    assert [point.clients for point in thin(points, 3)][::2] == [1, 96]
    # of a curve with one point left the middle stays: with one client a server is idle, with the most overloaded
    points = curve(1, 2, 4, 8, 16, 32, 64, 128, 256)
    assert [point.clients for point in thin(points, 1)] == [16]
    arms = [point.model_copy(update={"settings": {"work_mem": size}}) for size in ("4MB", "64MB") for point in points]
    assert [point.clients for point in thin(arms, 2, fewest_clients=1)] == [16, 16]
    # axes stay crossed when curves have to go
    points = [
        Point(clients=clients, workers=clients // share, scale=scale)
        for scale in (100, 300, 1000, 3000)
        for share in (1, 2)
        for clients in range(2, 162, 2)
    ]
    kept = thin(points, 18)
    assert {(point.scale, point.workers == point.planned_clients) for point in kept if point.planned_clients > 2} == {
        (scale, alone) for scale in (100, 3000) for alone in (True, False)
    }
    assert len(kept) == 18
    # levels are even over their axis, and thousands are thinned in seconds
    points = [Point(clients=8, scale=1, rate=float(rate)) for rate in range(1, 5_001)]
    assert [point.rate for point in thin(points[:40], 4)] == [1, 14, 27, 40]
    began_s = process_time()
    assert len(thin(points, 2_500)) == 2_500
    assert process_time() - began_s < 5


@settings(max_examples=40)
@example(clients=[1], scales=[1], repeats=6, duration=6, budget=60)
@given(
    clients=st.lists(st.integers(1, 500), min_size=1, max_size=40, unique=True),
    scales=st.lists(st.integers(1, 5_000), min_size=1, max_size=4, unique=True),
    repeats=st.integers(1, 10),
    duration=st.integers(1, 3600),
    budget=st.integers(60, 7200),
)
def test_a_reduced_plan_fits(clients: list[int], scales: list[int], repeats: int, duration: int, budget: int) -> None:
    wanted = plan(
        sweep={"clients": clients, "scale": scales},
        trial={"warmup": "2s", "duration": f"{duration}s", "repeats": repeats},
    )
    fitted = fit(wanted, room(budget))
    assert seconds(fitted.plan) <= budget
    assert fitted.plan.points()
    assert (fitted.plan == wanted) == (not fitted.gave_up)
    assert fit(fitted.plan, room(budget)).gave_up == []


@pytest.mark.parametrize("name", [entry.name for entry in catalogue()])
def test_every_plan_of_the_catalogue_fits_into_ten_minutes(name: str) -> None:
    loaded = load_plan(name).plan
    fitted = fit(loaded, room(600)).plan
    assert seconds(fitted) <= 600
    assert fitted.trial.most_repeats >= 6 or not compares_arms(fitted, fitted.points())


def test_values_computed_from_the_clients_stay_computed() -> None:
    sweep = {
        "clients": "1..128 doubling",
        "workers": "max(1, clients / 2)",
        "settings": {"max_connections": "clients + 20", "work_mem": "8MB"},
    }
    fitted = fit(plan(sweep=sweep), room(90)).plan
    assert 1 < len(fitted.points()) < 8
    assert fitted.sweep.workers == ["max(1, clients / 2)"]
    assert dependent_parameters(fitted.as_resolved(), fitted.points()) == {"workers", "settings.max_connections"}
    assert {point.settings["work_mem"] for point in fitted.points()} == {"8MB"}


def tpch(**sweep: object) -> Plan:
    return plan(workload={"name": "tpch", "scale_factor": 1}, sweep=sweep, trial={"repeats": 6})


def test_trials_of_tpch_keep_their_queries_so_that_the_scale_factor_is_reduced() -> None:
    wanted = tpch(clients=2, session_settings={"work_mem": ["4MB", "64MB"]})
    assert fit(wanted, room(seconds(wanted) + 1)).plan == wanted
    fitted = fit(wanted, room(300))
    workload = fitted.plan.workload
    factor = workload.model_dump()["scale_factor"]
    assert factor < 1
    assert workload.scale == round(100 * factor)
    assert fitted.plan.trial == wanted.trial
    assert len(fitted.plan.points()) == 2
    # decimal units, as in reports
    shown = rf"the scale factor is {re.escape(f'{factor:g}')} \([0-9.]+ [MG]B\) instead of 1"
    assert re.fullmatch(shown, "; ".join(reductions_of(fitted)))
    assert Plan.from_resolved(fitted.plan.as_resolved()).workload == workload


def test_numbers_of_streams_are_dropped_before_the_scale_factor_is_reduced() -> None:
    wanted = tpch(clients=[1, 2, 4, 8, 16])
    fitted = fit(wanted, room(seconds(wanted) / 4)).plan
    assert (fitted.workload.scale, fitted.trial.repeats) == (100, 3)
    assert 1 <= len(fitted.points()) < 5


def test_a_search_gets_shorter_trials_and_a_finer_one_more_steps() -> None:
    wanted = plan(search={"find": "peak"})
    fitted = fit(wanted, room(300))
    assert [point.clients for point in fitted.plan.points()] == [point.clients for point in wanted.points()]
    assert seconds(fitted.plan) <= 300
    assert (fitted.plan.trial.duration or 0) < 60
    assert fitted.plan.trial.most_repeats >= 3
    assert fitted.gave_up[-1].id == "search-estimated"
    with pytest.raises(UsageError, match="is too small for p") as caught:
        fit(wanted, room(60))
    assert "3 trials at all steps need about" in (caught.value.hint or "")

    def trials(precision: str) -> int:
        sweep = {"clients": 8, "rate": [100, 10_000]}
        search = {"find": "capacity", "latency": "p99 < 10ms", "precision": precision}
        searching = plan(sweep=sweep, search=search)
        return trial_count(searching, searching.points())

    # doublings from the lowest rate to the highest, halvings of the last of them, two that disagree
    assert trials("5%") == 5 * (8 + 4 + 2)
    assert trials("1%") == 5 * (8 + 7 + 2)


def test_standbys_take_time_disk_and_memory() -> None:
    target = with_settings(shared_buffers="6GB")
    standbys = {"a": {**target, "replicas": {"count": 2}}}
    alone, three = plan(target={"a": target}), plan(target=standbys)
    loaded = plan(target=standbys, replica_load={"scripts": ["select-only"], "clients": 4})
    assert seconds(alone) < seconds(three) < seconds(loaded)
    big = {"scripts": ["select-only"], "scale": 1000}
    scales = [
        fit(each, room(100_000, disk_gib=1)).plan.workload.scale
        for each in (plan(workload=big), plan(target=standbys, workload=big))
    ]
    assert scales[1] <= scales[0] / 3 + 1
    assert fit(alone, room(100_000)).gave_up == []
    assert reductions_of(fit(three, room(100_000))) == ["shared_buffers is 2048MB instead of 6GB"]


def test_a_budget_includes_start_end_and_downloads_and_the_one_named_in_the_error_is_enough() -> None:
    nine = {f"pg{version}": {"kind": "embedded", "version": str(version)} for version in range(10, 19)}
    wanted = plan(target=nine)
    with pytest.raises(UsageError) as refused:
        fit(wanted, room(60))
    assert fit(wanted, room(needed(refused) + 1)).plan.trial.repeats == 5
    # it includes the start and the end of the run, and what downloads took
    budget = Budget(plan(), room(600))
    assert seconds(budget.fit().plan) <= 600 - STARTING_S - ENDING_S
    assert seconds(budget.fit(120.0).plan) <= 480 - STARTING_S - ENDING_S
    with pytest.raises(UsageError) as refused:
        Budget(plan(), room(60)).fit(50.0)
    assert refused.value.message == "a budget of 1 min is too small for p, because 50 s of it passed before"
    # the next run does not wait for what is downloaded now
    assert Budget(plan(), room(needed(refused) + 1)).fit().plan.trial.repeats == 3


def test_a_limit_of_the_control_group_is_the_machine_s_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path))
    monkeypatch.setattr(System, "memory_limit_bytes", lambda _: GIB)
    text = small_plan().replace("[workload]", 'settings = { shared_buffers = "900MB" }\n[workload]')
    limited = within_budget(plan_of(tmp_path, text), "10h")
    assert [str(each) for each in limited.gave_up] == ["shared_buffers is 256MB instead of 900MB"]
