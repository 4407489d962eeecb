"""Amazon's data about a server under load: read, aligned in time, with gaps left as gaps."""

import re

import pytest

import cloud_page
from pgdyno.targets.aws.boto3_clients import AwsError, Cloud
from pgdyno.targets.aws.observe.cloudwatch import DATABASE, HOST, LATENCIES, VOLUME, cloudwatch_figures, database
from pgdyno.targets.aws.observe.reports import METRICS as INSIGHTS
from pgdyno.targets.aws.observe.reports import insights_figures
from pgdyno.targets.aws.observe.server_log import checkpoint_of, line_us, log_part
from pgdyno.targets.rented.rental import SECOND_US, Span, missing_spans
from tests.aws.account import Account
from tests.aws.instances import make_instance
from tests.aws.simulated_metrics import PORTION
from tests.aws.simulator import REGION
from tests.aws.visibility import HIDDEN_S

AT = 1_763_769_600
"""2025-11-22 00:00:00 UTC."""


@pytest.fixture(autouse=True)
def mine(amazon: Account) -> None:
    """One instance, `mine`."""
    amazon.administrator = True
    make_instance("mine")
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
        "kind": "checkpoint",
        "phase": "completed",
        "buffers": 43,
        "slru_buffers": 2,
        "wal_added": 0,
        "wal_removed": 1,
        "wal_recycled": 33,
        "write_ms": 4221.0,
        "sync_ms": 3.0,
        "total_ms": 4301.0,
        "sync_files": 12,
        "longest_sync_ms": 2.0,
        "average_sync_ms": 1.0,
        "distance_bytes": 534013 * 1024,
        "estimate_bytes": 534013 * 1024,
        "lsn": "2/8D4F9B38",
        "redo_lsn": "2/6FA40B98",
    }
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


@pytest.mark.parametrize(
    ("action", "ask"),
    [
        ("cloudwatch:GetMetricData", lambda: cloudwatch_figures(Cloud(REGION), database("mine"), span(0, 60))),
        ("pi:GetResourceMetrics", lambda: insights_figures(Cloud(REGION), "db-ABC", span(0, 60))),
        ("rds:DescribeDBLogFiles", lambda: log_part(Cloud(REGION), "mine", span(0, 60))),
    ],
)
def test_a_permission_that_is_missing_is_named(amazon: Account, action: str, ask: object) -> None:
    amazon.denied = {action}
    with pytest.raises(AwsError) as caught:
        ask()  # type: ignore[operator]
    assert f"the permission {action} is missing" in caught.value.message


def test_stretches_without_a_sample() -> None:
    assert missing_spans(span(0, 5), 1, [AT * SECOND_US + SECOND_US]) == [span(1, 5)]
    assert missing_spans(span(0, 2), 1, [(AT + each) * SECOND_US for each in (1, 2)]) == []
