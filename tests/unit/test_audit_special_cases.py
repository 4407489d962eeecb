"""Special cases of the rules: what they allow for, and on what they give no verdict."""

import json
from collections.abc import Sequence
from dataclasses import fields, replace

import pytest

from pgdyno.audit import Severity, worst
from pgdyno.records import DuetRecord, EventEffect, EventOutcome, EventRecord, Outcome, ReplayFigures, TrialRecord
from pgdyno.store.trial_tables import EventRow
from tests.unit.audit_disturbed import NOISE, lagging, on_host, ran, rated
from tests.unit.audit_sample import (
    OTHER,
    ROW,
    FakeRun,
    Row,
    by_hosts,
    changed,
    dipping,
    of,
    on_disks,
    own,
    printed,
    probed,
)

NOTE, CAUTION, INVALID = Severity.NOTE, Severity.CAUTION, Severity.INVALID

PGBENCH = replace(ROW, tool="pgbench")


@pytest.mark.parametrize(
    ("row", "severity"),
    [
        # measured near saturation: 22 to 28 % of the clients' time
        (PGBENCH.but(latency_mean_ms=7.2), NOTE),
        (PGBENCH.but(latency_mean_ms=6.5), INVALID),
        (PGBENCH.but(latency_mean_ms=11.3), INVALID),
        (replace(PGBENCH, command="pgbench -nSC -c 8").but(latency_mean_ms=2.0), NOTE),
        (replace(PGBENCH, texts={"tps": "tps = 800.0 (including reconnection times)"}).but(latency_mean_ms=2.0), NOTE),
        (replace(ROW, tool="sysbench").but(latency_mean_ms=7.2), INVALID),
        # 1.2 ms is anything from 1.15 ms on
        (Row("a", 1, {"tps": 812.5, "latency_mean_ms": 1.2}, texts={"latency_mean_ms": "| 812.5 | 1.2 |"}), None),
        (Row("a", 1, {"tps": 812.5, "latency_mean_ms": 1.2}, texts={"latency_mean_ms": "| 812.5 | 1.200 |"}), NOTE),
        (Row("a", 1, {"tps": 860.0, "latency_mean_ms": 1.2}, texts={"latency_mean_ms": "| 860.0 | 1.200 |"}), CAUTION),
    ],
)
def test_littles_law_allows_for_what_a_tool_counts_nowhere(row: Row, severity: Severity | None) -> None:
    assert worst(of("littles-law", printed(row))) is severity


def test_the_length_of_the_windows_is_that_of_the_intervals() -> None:
    run = own()
    slow = [replace(row, from_us=3 * row.from_us, to_us=3 * row.to_us) for row in run.courses[1]]
    swinging = [replace(row, succeeded=2_000 if row.second < 10 else row.succeeded) for row in slow]
    thirty = [replace(row, from_us=row.from_us * 10, to_us=row.to_us * 10) for row in swinging]
    (finding,) = of("unsteady", replace(run, courses={1: thirty}))
    assert "in one, the slowest 30 s have only 20 % of the throughput of the fastest" in finding.message
    assert finding.trials == [1]


def test_rows_under_two_numbers_of_clients_are_both_named() -> None:
    (finding,) = of("identical-rows", printed(replace(ROW, clients=512), OTHER, replace(ROW, clients=1024)))
    assert finding.message == "512 clients of a and 1024 clients of a have the same figures"
    assert finding.trials == [1, 3]


def phased(*phases: dict[str, object]) -> dict[str, object]:
    return {"name": "x", "trial": {"seed": 1}, "phase": [{"name": f"p{at}", **each} for at, each in enumerate(phases)]}


def test_throughput_that_phases_change_is_not_called_unsteady() -> None:
    swinging = [100.0] * 30 + [400.0] * 30
    for plan in (
        phased({"rate": 100}, {"rate": 400}),
        phased({"clients": {"from": 1, "to": 4}}),
        phased({"mix": {"a": 1}}, {"mix": {"a": 2}}),
    ):
        for rule in ("unsteady", "dips-unexplained"):
            (finding,) = of(rule, own(seconds=swinging, plan=plan))
            assert not finding.checked, finding
    # a phase without a result is no part of the figures
    assert worst(of("unsteady", own(seconds=swinging, plan=phased({"result": False}, {})))) is CAUTION


def test_transactions_that_phases_require_and_nobody_starts_are_reported() -> None:
    skipping = {"scheduled": 600_000, "skipped": 12_000}
    assert worst(of("skipped", own(summary=skipping, plan=phased({"rate": 10_000})))) is CAUTION


def test_proposals_of_a_search_for_settings_are_no_arms() -> None:
    run = own(plan={"name": "x", "trial": {"seed": 1}, "search": {"find": "settings"}})

    def proposed(trial: TrialRecord) -> dict[str, object]:
        point = trial.point.model_copy(update={"settings": {"work_mem": f"{trial.number}MB"}})
        return {"point": point, "target": "a", "outcome": Outcome.FAILED if trial.number == 3 else trial.outcome}

    run = probed(changed(run, proposed), ran(where="a", trials=[5]))
    assert of("maintenance-one-arm", run) == []
    assert of("errors-one-arm", run) == []


def test_a_dataset_fits_into_the_memory_of_its_own_machine_at_its_own_scale() -> None:
    far = own(dataset_bytes=1 << 30, kind_b="dsn", asked_b={"dsn": "host=far"})
    (finding,) = of("cache-resident", far)
    assert [each.figures["target"] for each in finding.evidence] == ["a"]
    (finding,) = of("cache-resident", changed(far, lambda _: {"target": "b"}))
    assert not finding.checked

    def scaled(trial: TrialRecord) -> dict[str, object]:
        small = trial.number < 9
        point = trial.point.model_copy(update={"scale": 10 if small else 5_000})
        return {"prepare": {"dataset_bytes": 1 << (30 if small else 37)}, "point": point}

    (finding,) = of("cache-resident", changed(own(), scaled))
    assert "1.07 GB" in finding.message


def test_littles_law_allows_for_failures_and_outages_of_own_trials() -> None:
    failing_ones = {"failed": 30_000, "succeeded": 570_000, "tps": 9_500.0}
    assert of("littles-law", own(summary=failing_ones)) == []
    assert worst(of("littles-law", own(summary={**failing_ones, "failed": 3_000}))) is CAUTION
    effect = EventEffect(
        nobody_served_s=3.0, first_success_s=3.0, failed=0, lost=0, connections_lost=4, all_away_s=3.0, before_tps=None,
        lowest_tps=None, recovered_s=None,
    )  # fmt: skip
    event = EventRecord(number=1, do="restart", at_s=1, began_s=1, seconds=3, outcome=EventOutcome.DONE, effect=effect)
    outage = own(summary={"tps": 9_500.0})
    assert worst(of("littles-law", outage)) is CAUTION
    assert of("littles-law", changed(outage, lambda _: {"events": [event]})) == []


def test_one_point_that_was_measured_once_is_singular() -> None:
    run = own(repeats=1)
    (finding,) = of("no-repeats", replace(run, trials=run.trials[:1]))
    assert finding.message == "1 point of 1 was measured once: the spread between trials is unknown"


def test_drift_of_a_search_for_settings_biases_no_comparison() -> None:
    def proposed(trial: TrialRecord) -> dict[str, object]:
        point = trial.point.model_copy(update={"settings": {"work_mem": f"{1 + trial.number // 4}MB"}})
        return {"point": point, "target": "a"}

    searched = changed(rated(lambda trial: 0.97**trial.number), proposed)
    assert worst(of("drift", searched)) is INVALID
    plan = {"name": "x", "trial": {"seed": 1}, "search": {"find": "settings"}}
    manifest = searched.manifest.model_copy(update={"plan": plan})
    assert worst(of("drift", replace(searched, manifest=manifest))) is NOTE


def test_repeats_of_a_run_without_a_finished_trial_are_not_checked() -> None:
    (finding,) = of("repeats-spread", replace(own(), trials=[]))
    assert not finding.checked


def test_the_files_of_a_cluster_are_no_settings_that_differ() -> None:
    assert of("settings-differ", own(changed_b={"hba_file": "/etc/postgresql/17/b/pg_hba.conf"})) == []


@pytest.mark.parametrize(
    ("dsn", "differs"),
    [
        ("host=localhost", "connection"),
        ("host=/var/run/postgresql", None),
        ("postgresql://%2Fvar%2Frun/postgres", None),
        ("postgresql:///x?host=far", "machine"),
        ("postgresql://user@[2001:db8::2]:5432/x", "machine"),
    ],
)
def test_a_server_at_an_address_of_this_machine_is_not_on_another(dsn: str, differs: str | None) -> None:
    found = of("placement-differs", own(kind_b="dsn", asked_b={"dsn": dsn}))
    assert [set(each.evidence[1].figures) - {"target"} for each in found] == ([{differs}] if differs else [])


def test_two_addresses_of_ipv6_are_two_machines() -> None:
    run = own(kind_b="dsn", asked_b={"dsn": "postgresql://[2001:db8::2]:5432/x"})
    a, b = run.manifest.targets
    near = a.model_copy(update={"kind": "dsn", "asked": {"dsn": "postgresql://[2001:db8::1]:5432/x"}})
    (finding,) = of("placement-differs", replace(run, manifest=run.manifest.model_copy(update={"targets": [near, b]})))
    assert "a: 2001:db8::1; b: 2001:db8::2" in finding.message


def test_the_trials_choose_between_singular_and_plural_of_disagreements() -> None:
    names = ("sessions", "sessions_begun", "sessions_lost", "statements", "done", "not_started")
    replay = ReplayFigures.model_validate({**dict.fromkeys(names, 9), "disagreements": {"new_errors": 6}})
    run = own(summary={"replay": replay})
    (finding,) = of("unlike-capture", replace(run, trials=run.trials[:1]))
    assert "6 statements of a replay returned" in finding.message
    assert "in 1 trial:" in finding.message


def test_clients_that_have_sent_their_transactions_may_wait_for_the_last_one() -> None:
    run = own(latency={"mean": 0.3})
    assert worst(of("littles-law", run)) is INVALID
    counted = [trial.model_copy(update={"duration_s": None}) for trial in run.trials]
    assert of("littles-law", replace(run, trials=counted)) == []


def test_standbys_and_generators_of_a_trial_are_no_other_load() -> None:
    busy = on_host(others=0.3)
    assert worst(of("other-load", own(probe_rows=busy))) is CAUTION
    assert of("other-load", replace(lagging(), probe_rows=busy)) == []
    assert of("other-load", by_hosts(own(probe_rows=busy), (2, 5_000.0, 0.3), (2, 5_000.0, 0.3))) == []


def test_a_replay_is_not_judged_as_a_load_that_is_constant() -> None:
    plan = {"name": "x", "trial": {"seed": 1}, "workload": {"replay": "captured", "pace": "max"}}
    run = own(plan=plan, summary={"tps": 5_000.0}, seconds=[100.0] * 30 + [400.0] * 30)
    for rule in ("unsteady", "dips-unexplained", "littles-law"):
        (finding,) = of(rule, run)
        assert finding.message == "not checked: the capture determines the load during a trial"


@pytest.mark.parametrize(("ramp", "severity"), [(4, CAUTION), ({"from": 1, "to": 4}, None)])
def test_clients_that_a_phase_adds_late_are_not_served_unequally(ramp: object, severity: Severity | None) -> None:
    unequal = {"workers": [{"cpu_share": 0.3}], "statements": {"fairness": {"mean": 100.0, "stddev": 50.0}}}

    class Unequal(FakeRun):
        def events(self) -> Sequence[EventRow]:
            return [replace(row, detail=json.dumps(unequal)) if row.kind == "end" else row for row in super().events()]

    run = own(plan=phased({"clients": ramp}))
    served = Unequal(**{each.name: getattr(run, each.name) for each in fields(run)})
    assert worst(of("load-imbalance", served)) is severity


def test_one_trial_without_a_probe_hides_no_dip_of_the_others() -> None:
    run = changed(own(seconds=dipping(4)), lambda trial: {"probe": None} if trial.number == 2 else {})
    assert worst(of("dips-unexplained", run)) is CAUTION


def test_an_arm_without_counts_hides_no_failed_trial() -> None:
    def broken(trial: TrialRecord) -> dict[str, object]:
        if trial.number == 1:
            return {"outcome": Outcome.FAILED}
        return {"summary": {"succeeded": 0, "tps": 0.0}} if trial.target == "a" else {}

    (finding,) = of("errors-one-arm", changed(own(), broken))
    assert (finding.id, finding.trials) == ("errors-one-arm-trials", [1])


def test_retries_that_one_arm_does_not_show_are_not_compared() -> None:
    def told(trial: TrialRecord) -> dict[str, object]:
        return {"summary": {"retried": 5_000 if trial.target == "a" else None}}

    assert of("errors-one-arm", changed(own(), told)) == []


def test_a_minimum_latency_of_one_target_only_is_not_enough() -> None:
    slow = replace(OTHER, figures={name: each for name, each in OTHER.figures.items() if name != "latency_min_ms"})
    (finding,) = of("network-floor", printed(ROW.but(latency_min_ms=1.0), slow))
    assert finding.message == "not checked: the minimum latency of only a is reported"


@pytest.mark.parametrize(
    ("rule", "word", "reason"),
    [
        ("hardware-differs", "host", "no machine is named for b"),
        ("version-differs", "server_version", "no server version is reported for b"),
    ],
)
def test_what_is_named_for_one_target_only_is_not_compared(rule: str, word: str, reason: str) -> None:
    named = replace(ROW, words={word: "x"})
    (finding,) = of(rule, printed(named, OTHER))
    assert finding.message == f"not checked: {reason}"
    # with one target there is nothing to compare
    assert of(rule, printed(named)) == []


def test_a_share_of_unsafe_trials_is_of_those_with_known_settings() -> None:
    run = own(only_b={"fsync": "off"})
    (finding,) = of("durability", replace(run, server={number: run.server[number] for number in range(1, 5)}))
    assert finding.message == "fsync is off in only 2 of 4 trials"


def test_samples_of_the_warm_up_are_due_as_well() -> None:
    assert of("probe-gap", changed(own(probe={"late": 40}), lambda _: {"warmup_s": 60.0})) == []
    assert worst(of("probe-gap", own(probe={"late": 40}))) is NOTE


@pytest.mark.parametrize(
    ("line", "is_off"),
    [
        ("fsync = off    # flush data to disk for crash safety", True),
        ("fsync\toff\ton", True),
        ("| fsync | off | on |", True),
        ("fsync is off", True),
        ("fsync = 'off';", True),
        ("fsync = on    # do not turn it off", False),
    ],
)
def test_a_setting_of_a_document_is_off_in_any_column_and_before_a_comment(line: str, is_off: bool) -> None:
    for rule, name in (("durability", "fsync"), ("autovacuum-off", "autovacuum")):
        found = of(rule, printed(ROW, facts={name: [line.replace("fsync", name)]}))
        assert worst(found) is (CAUTION if is_off else None)


def test_memory_is_what_the_control_group_allows() -> None:
    limited = on_disks("ext4", None)
    limited = limited.model_copy(update={"host": limited.host.model_copy(update={"memory_limit_bytes": 1 << 30})})
    assert of("cache-resident", own(dataset_bytes=1 << 30, fingerprint=limited)) == []
    assert worst(of("cache-resident", own(dataset_bytes=1 << 30))) is NOTE


def test_the_two_trials_of_a_duet_are_at_one_place_in_the_order() -> None:
    falling = rated(lambda trial: 0.97 ** ((trial.number + 1) // 2) * NOISE[trial.number % 5] ** 0.1)

    def paired(trial: TrialRecord) -> dict[str, object]:
        partner = trial.number + (1 if trial.number % 2 else -1)
        return {"duet": DuetRecord(partner=partner, processors=[0])}

    assert worst(of("drift", falling)) is not NOTE
    assert worst(of("drift", changed(falling, paired))) is NOTE


def test_data_of_sql_files_with_other_variables_are_other_datasets() -> None:
    def swept(trial: TrialRecord) -> dict[str, object]:
        small = trial.number < 7
        point = trial.point.model_copy(update={"scale": 1, "variables": {"rows": "10" if small else "99"}})
        share = 1.0 if small else 0.5
        return {"prepare": {"shared_buffers_share": share, "page_cache_share": share}, "point": point}

    plan: dict[str, object] = {"name": "x", "trial": {"seed": 1}, "workload": {"scripts": ["read.sql"]}}
    (finding,) = of("cache-cold", changed(own(plan=plan), swept))
    assert "50 % to 100 % of the dataset" in finding.message
    plan["workload"] = {"scripts": ["read.sql"], "dataset": {"name": "shop", "sql": [], "variables": {"rows": "10"}}}
    assert of("cache-cold", changed(own(plan=plan), swept)) == []
