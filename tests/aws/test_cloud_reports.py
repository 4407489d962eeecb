"""Late data from Amazon: pgdyno waits for it, places it by one clock, and asks again for what is missing."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgdyno.experiment.cloud_recorder import CloudRecorder
from pgdyno.experiment.generators import Generators
from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.experiment.trials import network_path
from pgdyno.plan import load_plan
from pgdyno.probe import over_ssh
from pgdyno.probe.clock_offset import Ahead
from pgdyno.records import CloudGap, CloudRecord, CloudReport, CloudSource, NetworkPathRecord, TrialRecord
from pgdyno.store import RunFolder
from pgdyno.store.cloud_metrics import stored_cloud, write_cloud
from pgdyno.targets.aws import boto3_clients
from pgdyno.targets.aws.boto3_clients import Cloud
from pgdyno.targets.aws.observe.reports import ask_until_complete
from pgdyno.targets.aws.rental import Rental
from pgdyno.targets.rented.rental import Observed
from pgdyno.targets.rented.rental_journal import Journal
from tests.aws.account import use_account
from tests.aws.instances import make_instance
from tests.aws.plans import rds, write_plan
from tests.aws.simulator import REGION, Simulator, simulated
from tests.aws.visibility import HIDDEN_S
from tests.present import present
from tests.unit.events_sample import sample_events
from tests.unit.store_sample import SETTINGS, sample_manifest, sample_record

SECOND_US = 1_000_000
LENGTH_S = 100
BEGUN = "20260101-000000-abcdef"


class Recorder(CloudRecorder):
    """With the folder into which it writes."""

    def __init__(self, context: RunContext, rental: Rental, progress: RunProgress) -> None:
        super().__init__(context, rental, progress)
        self.folder = context.folder


@pytest.fixture
def amazon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulator]:
    """An account with the instance that a run made."""
    with simulated(Simulator()) as simulator:
        use_account(simulator, monkeypatch)
        monkeypatch.setattr(boto3_clients, "time", time)
        monkeypatch.setattr(boto3_clients, "FIRST_S", 0.01)
        simulator.administrator = True
        make_instance(f"pgdyno-{BEGUN}-1")
        simulator.clock.sleep(HIDDEN_S)
        yield simulator


def run_of(
    tmp_path: Path, way: NetworkPathRecord | None = None, attempts: int = 1
) -> tuple[Recorder, TrialRecord, list[str]]:
    """A run with one complete trial, on a server that is there; and what it says."""
    plan = load_plan(write_plan(tmp_path / "plan", rds(region=f'"{REGION}"'))).plan
    journal = Journal(tmp_path / f"{BEGUN}.jsonl", plan.name, "", datetime.now(UTC))
    rental = Rental(plan, journal, lambda _: None, root=tmp_path, clouds={REGION: Cloud(REGION)})
    folder = RunFolder.create(tmp_path, sample_manifest())
    events = sample_events(4, LENGTH_S, 500, 900)
    ended = datetime.now(UTC)
    times = {"network_path": way, "started_at": ended - timedelta(seconds=LENGTH_S), "ended_at": ended}
    record = sample_record(1, events, target="rds").model_copy(update=times)
    folder.begin_trial(record.slug).commit(record, events=events, settings=SETTINGS)
    said: list[str] = []
    context = SimpleNamespace(folder=folder, plan=plan, attempt=attempts)

    def note(message: object) -> None:
        said.append(str(message))

    progress = SimpleNamespace(set_up=said.append, note=note, note_once=note)
    return Recorder(cast("RunContext", context), rental, cast("RunProgress", progress)), record, said


def kept(recorder: Recorder, record: TrialRecord) -> dict[CloudSource, list[CloudGap]]:
    found = present(stored_cloud(recorder.folder.trials_path / record.slug))
    assert [each.message for each in found.sources] == [None] * 3
    return {each.source: each.gaps for each in found.sources}


def test_pgdyno_waits_for_late_data(amazon: Simulator, tmp_path: Path) -> None:
    amazon.telling.late = 3
    recorder, record, said = run_of(tmp_path)
    recorder.collect()
    assert kept(recorder, record) == {each: [] for each in CloudSource}
    assert amazon.telling.looks["GetMetricData m0"] == 4
    assert [each for each in said if "waiting for CloudWatch's figures, up to " in each]


def test_data_that_does_not_arrive_in_time_is_a_gap(amazon: Simulator, tmp_path: Path) -> None:
    amazon.telling.late = 10**6
    recorder, record, said = run_of(tmp_path)
    recorder.collect(late_s=0.2)
    gaps = kept(recorder, record)
    assert {source for source, missing in gaps.items() if missing} == {CloudSource.METRICS, CloudSource.SESSIONS}
    assert gaps[CloudSource.METRICS][-1].to_s >= LENGTH_S
    assert any("trial 1: CloudWatch's figures are missing for" in each for each in said)


def test_requests_repeat_until_data_arrives_or_the_wait_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, waited = [0.0], []
    clock = SimpleNamespace(monotonic=lambda: now_s[0], sleep=lambda s: now_s.__setitem__(0, now_s[0] + s))
    monkeypatch.setattr(boto3_clients, "time", clock)
    asked: list[float] = []

    def ask(comes_s: float) -> Observed:
        asked.append(now_s[0])
        return Observed(60, complete=now_s[0] >= comes_s)

    assert ask_until_complete(lambda: ask(120.0), 300.0, lambda: waited.append(now_s[0])).complete
    assert 120 <= now_s[0] <= 120 + boto3_clients.LONGEST_S
    assert waited == [0.0]
    now_s[0] = 0.0
    assert not ask_until_complete(lambda: ask(301.0), 300.0, lambda: None).complete
    assert now_s[0] == 300.0
    asked.clear()
    assert not ask_until_complete(lambda: ask(9999.0), 0.0, lambda: None).complete
    assert len(asked) == 1


def test_an_interrupted_run_does_not_wait_for_data(amazon: Simulator, tmp_path: Path) -> None:
    amazon.telling.late = 1
    recorder, record, said = run_of(tmp_path)
    recorder.collect_at_once(0.0)
    assert stored_cloud(recorder.folder.trials_path / record.slug) is None
    assert said == ["Amazon was not asked for data of trial 1 and later ones"]
    recorder.collect_at_once()
    assert amazon.telling.looks["GetMetricData m0"] == 1
    assert kept(recorder, record)[CloudSource.METRICS]


@pytest.mark.parametrize("instance", [None, f"pgdyno-{BEGUN}-1", "pgdyno-another-1"])
def test_a_later_attempt_asks_the_same_server_again(amazon: Simulator, tmp_path: Path, instance: str | None) -> None:
    recorder, record, _ = run_of(tmp_path, attempts=2)
    if instance is not None:
        partly = CloudReport(source=CloudSource.METRICS, period_s=60, gaps=[CloudGap(from_s=0, to_s=60)])
        before = CloudRecord(instance=instance, shift_us=0, sources=[partly])
        write_cloud(recorder.folder.trials_path / record.slug, before, [], [], [])
    recorder.collect()
    asked = "cloudwatch:GetMetricData" in amazon.calls
    assert asked is (instance != "pgdyno-another-1")
    # what is whole is not asked for twice
    amazon.calls.clear()
    recorder.collect()
    assert "cloudwatch:GetMetricData" not in amazon.calls


def test_times_are_the_generators_whatever_this_machines_clock_says(amazon: Simulator, tmp_path: Path) -> None:
    """The server is 7 s ahead of the generator, and this machine's clock is where it likes."""
    way = NetworkPathRecord(
        round_trips=50, least_us=300, median_us=350, clock_ahead_us=7 * SECOND_US, clock_uncertainty_us=150
    )
    recorder, record, _ = run_of(tmp_path, way)
    recorder.collect()
    asked = dict(zip(amazon.calls, amazon.parameters, strict=True))["pi:GetResourceMetrics"]
    epoch_s = sample_events(4, LENGTH_S, 500, 900)[0]["epoch_us"] / SECOND_US
    begin, end = (_seconds(asked[each]) for each in ("StartTime", "EndTime"))
    assert (begin, end) == (epoch_s + 7, epoch_s + 7 + LENGTH_S)
    assert present(stored_cloud(recorder.folder.trials_path / record.slug)).shift_us == 7 * SECOND_US


def _seconds(moment: Any) -> float:
    return moment if isinstance(moment, int | float) else datetime.fromisoformat(str(moment)).timestamp()


def test_a_servers_clock_against_that_of_a_rented_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are measured from here: the server 5 ms ahead, the generator's clock is 2 s behind."""
    monkeypatch.setattr(over_ssh, "measure_ahead", lambda _spec: Ahead(-2_000_000.0, 120.5))
    rental = SimpleNamespace(load_hosts=lambda: [SimpleNamespace(ssh="a host")])
    generators = Generators(cast("Any", None), None, [])
    way = NetworkPathRecord(round_trips=50, least_us=300, median_us=350, clock_ahead_us=5_000, clock_uncertainty_us=150)
    assert network_path._clock(generators, cast("Any", rental), way) == {
        "clock_ahead_us": 2_005_000,
        "clock_uncertainty_us": 271,
    }
    assert generators.clock_ahead == Ahead(-2_000_000.0, 120.5)
