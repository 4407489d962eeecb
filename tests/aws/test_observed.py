"""Amazon's data about a server under load: read, aligned in time, with gaps left as gaps, and waited for."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import cloud_page
from pgdyno.experiment.cloud_recorder import CloudRecorder
from pgdyno.experiment.generators import Generators
from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.experiment.trials import network_path
from pgdyno.plan import load_plan
from pgdyno.probe import over_ssh
from pgdyno.probe.clock_offset import Ahead
from pgdyno.records import CloudGap, CloudRecord, CloudReport, CloudSource, NetworkPathRecord
from pgdyno.store import RunFolder
from pgdyno.store.cloud_metrics import stored_cloud, write_cloud
from pgdyno.targets.aws import boto3_clients
from pgdyno.targets.aws.boto3_clients import AwsError, Cloud
from pgdyno.targets.aws.observe.cloudwatch import DATABASE, HOST, LATENCIES, VOLUME, cloudwatch_figures, database
from pgdyno.targets.aws.observe.reports import METRICS as INSIGHTS
from pgdyno.targets.aws.observe.reports import ask_until_complete, insights_figures
from pgdyno.targets.aws.observe.server_log import checkpoint_of, line_us, log_part
from pgdyno.targets.aws.rental import Rental
from pgdyno.targets.rented.rental import SECOND_US, Observed, Span, missing_spans
from pgdyno.targets.rented.rental_journal import Journal
from tests.aws.account import Account, make_instance
from tests.aws.plans import rds, write_plan
from tests.aws.simulated_metrics import PORTION
from tests.aws.simulator import REGION
from tests.aws.visibility import HIDDEN_S
from tests.present import present
from tests.unit.events_sample import sample_events
from tests.unit.store_sample import SETTINGS, sample_manifest, sample_record

AT = 1_763_769_600
"""2025-11-22 00:00:00 UTC."""
LENGTH_S = 100
BEGUN = "20260101-000000-abcdef"


@pytest.fixture(autouse=True)
def mine(amazon: Account) -> None:
    """The instance `mine`, and the one of a run."""
    amazon.administrator = amazon.is_left = True
    make_instance("mine")
    make_instance(f"pgdyno-{BEGUN}-1")
    amazon.clock.sleep(HIDDEN_S)


def span(begin_s: float, end_s: float) -> Span:
    """Seconds after AT."""
    return Span(round((AT + begin_s) * SECOND_US), round((AT + end_s) * SECOND_US))


def test_cloudwatch_is_asked_for_whole_minutes_and_told_at_their_ends(amazon: Account) -> None:
    found = cloudwatch_figures(Cloud(REGION), database("mine"), span(30, 200))
    assert found.complete
    assert found.gaps == []
    cpu = [each for each in found.figures if each.metric == "cpu"]
    assert [(each.t_us // SECOND_US - AT, each.span_us) for each in cpu] == [
        (end, 60 * SECOND_US) for end in (60, 120, 180, 240)
    ]
    assert {round(each.value, 6) for each in cpu} == {0.425}
    assert {each.value for each in found.figures if each.metric == "read_latency"} == {0.5}
    # what the instance does not have is not there, and no gap
    assert "cpu_credits" not in {each.metric for each in found.figures}
    for named in (DATABASE, HOST, VOLUME):
        assert len({each.metric for each in named}) == len({each.name for each in named}) == len(named)
    assert amazon.calls[-1] == "cloudwatch:GetMetricData"


def test_minutes_that_do_not_come_are_gaps_and_late_ones_are_not_there_yet(amazon: Account) -> None:
    amazon.telling.lost, amazon.telling.late = frozenset({1, 2}), 1
    found = cloudwatch_figures(Cloud(REGION), database("mine"), span(0, 300))
    assert not found.complete
    assert found.gaps == [span(60, 180), span(240, 300)]
    found = cloudwatch_figures(Cloud(REGION), database("mine"), span(0, 300))
    assert found.complete
    assert found.gaps == [span(60, 180)]
    nobody = cloudwatch_figures(Cloud(REGION), database("theirs"), span(0, 60))
    assert (nobody.figures, nobody.gaps, nobody.complete) == ([], [span(0, 60)], False)


def test_performance_insights_tells_each_second_by_wait(amazon: Account) -> None:
    amazon.telling.lost = frozenset({4})
    # more than is asked for at once
    found = insights_figures(Cloud(REGION), "db-ABC", span(0.5, 400))
    assert amazon.calls.count("pi:GetResourceMetrics") == 4
    assert found.gaps == [span(4, 5), span(304, 305)]
    load = [each for each in found.figures if each.metric == "load"]
    assert len(load) == 398
    assert {each.value for each in load} == {0.75}
    waits = {each.labels: each.value for each in found.figures if each.metric == "sessions"}
    # waits without sessions are omitted, as by the probe
    assert waits == {(("wait", ""), ("wait_type", "CPU")): 0.5, (("wait", "WALSync"), ("wait_type", "IO")): 0.25}


def test_the_documented_figures_are_those_that_are_kept() -> None:
    documented = re.findall(r"^\| `(\w+)` \|", cloud_page.page().partition("## Checks")[0], re.MULTILINE)
    kept = [each.metric for each in (*DATABASE, *HOST, *VOLUME)]
    assert documented == [*kept, *(metric for metric, *_ in LATENCIES), *(metric for metric, *_ in INSIGHTS)]


LINES = """\
2025-11-21 23:59:59 UTC::@:[41]:LOG:  checkpoint starting: time
2025-11-22 00:00:03 UTC::@:[41]:LOG:  checkpoint starting: wal
2025-11-22 00:00:04 UTC:10.0.0.7(5432):bench@bench:[77]:ERROR:  division by zero
	in two lines
2025-11-22 00:00:09 UTC::@:[41]:LOG:  checkpoint complete: wrote 43 buffers (0.3%), wrote 2 SLRU buffers; \
0 WAL file(s) added, 1 removed, 33 recycled; write=4.221 s, sync=0.003 s, total=4.301 s; sync files=12, \
longest=0.002 s, average=0.001 s; distance=534013 kB, estimate=534013 kB; lsn=2/8D4F9B38, redo lsn=2/6FA40B98
2025-11-22 00:00:10 UTC::@:[41]:LOG:  checkpoint starting: time
"""


def test_the_log_of_a_stretch_and_its_checkpoints(amazon: Account) -> None:
    filler = "2025-11-21 23:00:00 UTC::@:[1]:LOG:  what was before\n" * (PORTION // 20)
    amazon.hosts.log = lambda: filler + LINES  # type: ignore[method-assign]
    part = log_part(Cloud(REGION), "mine", span(0, 9.5))
    assert part.lines == LINES.splitlines()[1:5]
    assert not part.cut
    (began, started), (ended, completed) = part.checkpoints
    assert (began // SECOND_US - AT, ended // SECOND_US - AT) == (3, 9)
    assert started == {"kind": "checkpoint", "phase": "started", "reason": "wal"}
    assert completed == {
        "kind": "checkpoint", "phase": "completed", "buffers": 43, "slru_buffers": 2, "wal_added": 0, "wal_removed": 1,
        "wal_recycled": 33, "write_ms": 4221.0, "sync_ms": 3.0, "total_ms": 4301.0, "sync_files": 12,
        "longest_sync_ms": 2.0, "average_sync_ms": 1.0, "distance_bytes": 534013 * 1024,
        "estimate_bytes": 534013 * 1024, "lsn": "2/8D4F9B38", "redo_lsn": "2/6FA40B98",
    }  # fmt: skip
    assert amazon.calls.count("rds:DownloadDBLogFilePortion") > 2


def test_lines_of_other_versions_and_of_none() -> None:
    of_12 = (
        "2025-11-22 00:00:09.25 UTC::@:[41]:LOG:  checkpoint complete: wrote 1 buffers (0.0%); 0 WAL file(s) added, "
        "0 removed, 0 recycled; write=0.1 s, sync=0.0 s, total=0.2 s; sync files=1, longest=0.0 s, average=0.0 s; "
        "distance=1 kB, estimate=2 kB"
    )
    assert line_us(of_12) == AT * SECOND_US + 9_250_000
    found = checkpoint_of(of_12)
    assert found is not None
    assert (found["total_ms"], "lsn" in found) == (200.0, False)
    assert checkpoint_of("2025-11-22 00:00:09 UTC::@:[41]:LOG:  checkpoints are occurring too frequently") is None
    assert line_us("\tin two lines") is None


def test_a_permission_that_is_missing_is_named(amazon: Account) -> None:
    cloud, minute = Cloud(REGION), span(0, 60)
    for action, ask in (
        ("cloudwatch:GetMetricData", lambda: cloudwatch_figures(cloud, database("mine"), minute)),
        ("pi:GetResourceMetrics", lambda: insights_figures(cloud, "db-ABC", minute)),
        ("rds:DescribeDBLogFiles", lambda: log_part(cloud, "mine", minute)),
    ):
        amazon.denied = {action}
        with pytest.raises(AwsError, match=f"the permission {action} is missing"):
            ask()


def test_stretches_without_a_sample() -> None:
    assert missing_spans(span(0, 5), 1, [AT * SECOND_US + SECOND_US]) == [span(1, 5)]
    assert missing_spans(span(0, 2), 1, [(AT + each) * SECOND_US for each in (1, 2)]) == []


def run_of(
    tmp_path: Path, way: NetworkPathRecord | None = None, attempts: int = 1
) -> tuple[CloudRecorder, Path, list[str]]:
    """A run with one complete trial, on a server that is there; its folder, and what it says."""
    plan = load_plan(write_plan(tmp_path / "plan", rds(region=f'"{REGION}"'))).plan
    journal = Journal(tmp_path / f"{BEGUN}.jsonl", plan.name, "", datetime.now(UTC))
    rental = Rental(plan, journal, lambda _: None, root=tmp_path, clouds={REGION: Cloud(REGION)})
    folder = RunFolder.create(tmp_path / "run", sample_manifest())
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
    recorder = CloudRecorder(cast("RunContext", context), rental, cast("RunProgress", progress))
    return recorder, folder.trials_path / record.slug, said


def stored_gaps(trial: Path) -> dict[CloudSource, list[CloudGap]]:
    found = present(stored_cloud(trial))
    assert [each.message for each in found.sources] == [None] * 3
    return {each.source: each.gaps for each in found.sources}


def test_pgdyno_waits_for_late_data(amazon: Account, tmp_path: Path) -> None:
    amazon.telling.late = 3
    recorder, trial, said = run_of(tmp_path)
    recorder.collect()
    assert stored_gaps(trial) == {each: [] for each in CloudSource}
    assert amazon.telling.looks["GetMetricData m0"] == 4
    assert [each for each in said if "waiting for CloudWatch's figures, up to " in each]


def test_data_that_does_not_arrive_in_time_is_a_gap(amazon: Account, tmp_path: Path) -> None:
    amazon.telling.late = 10**6
    recorder, trial, said = run_of(tmp_path)
    recorder.collect(late_s=0.2)
    gaps = stored_gaps(trial)
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


def test_an_interrupted_run_does_not_wait_for_data(amazon: Account, tmp_path: Path) -> None:
    amazon.telling.late = 1
    recorder, trial, said = run_of(tmp_path)
    recorder.collect_at_once(0.0)
    assert stored_cloud(trial) is None
    assert said == ["Amazon was not asked for data of trial 1 and later ones"]
    recorder.collect_at_once()
    assert amazon.telling.looks["GetMetricData m0"] == 1
    assert stored_gaps(trial)[CloudSource.METRICS]


@pytest.mark.parametrize("instance", [None, f"pgdyno-{BEGUN}-1", "pgdyno-another-1"])
def test_a_later_attempt_asks_the_same_server_again(amazon: Account, tmp_path: Path, instance: str | None) -> None:
    recorder, trial, _ = run_of(tmp_path, attempts=2)
    if instance is not None:
        partly = CloudReport(source=CloudSource.METRICS, period_s=60, gaps=[CloudGap(from_s=0, to_s=60)])
        before = CloudRecord(instance=instance, shift_us=0, sources=[partly])
        write_cloud(trial, before, [], [], [])
    recorder.collect()
    asked = "cloudwatch:GetMetricData" in amazon.calls
    assert asked is (instance != "pgdyno-another-1")
    # what is whole is not asked for twice
    amazon.calls.clear()
    recorder.collect()
    assert "cloudwatch:GetMetricData" not in amazon.calls


def test_times_are_the_generators_whatever_this_machines_clock_says(amazon: Account, tmp_path: Path) -> None:
    """The server is 7 s ahead of the generator, and this machine's clock is where it likes."""
    way = NetworkPathRecord(
        round_trips=50, least_us=300, median_us=350, clock_ahead_us=7 * SECOND_US, clock_uncertainty_us=150
    )
    recorder, trial, _ = run_of(tmp_path, way)
    recorder.collect()
    asked = dict(zip(amazon.calls, amazon.parameters, strict=True))["pi:GetResourceMetrics"]
    epoch_s = sample_events(4, LENGTH_S, 500, 900)[0]["epoch_us"] / SECOND_US
    begin, end = (_seconds(asked[each]) for each in ("StartTime", "EndTime"))
    assert (begin, end) == (epoch_s + 7, epoch_s + 7 + LENGTH_S)
    assert present(stored_cloud(trial)).shift_us == 7 * SECOND_US


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
