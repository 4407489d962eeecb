"""The answer of loads at fixed rates and in phases."""

import pytest

from pgdyno.records import ConnectFigures, ErrorCount, Imported, Latency, Point
from tests.present import present
from tests.unit.report_answer_sample import answered, at_rates, extras_of, in_phases, shown
from tests.unit.report_sample import SampleRun, add_trial, manifest, render_html


def test_a_fixed_rate_without_percentiles_is_answered_by_its_mean_latency() -> None:
    run = at_rates([1000.0])
    imported = Imported(file="pgbench.txt", line=1, last_line=9, tool="pgbench")
    run.blobs = {}
    for at, trial in enumerate(run.trials):
        summary = present(trial.summary)
        latency = present(summary.latency_ns).model_copy(
            update={"mean": 3.72e6} | dict.fromkeys(("p50", "p90", "p95", "p99", "p999"))
        )
        without = summary.model_copy(update={"latency_ns": latency})
        run.trials[at] = trial.model_copy(update={"summary": without, "imported": imported})
    assert " has a mean latency of 3.72 ms; its percentiles are unknown (" in answered(run).text


def test_a_fixed_rate_is_answered_by_its_latency() -> None:
    said = answered(at_rates([1000.0]))
    assert said.text.startswith("At 1,000 transactions a second, PostgreSQL 18.6 has a p99 of ")
    assert said.details[1].startswith("noise: p99 of the trials lies between ")
    everything = "\n".join(shown(at_rates([500.0, 1000.0])))
    assert "knee" not in everything
    assert "peak" not in everything


def test_times_to_connect_are_those_of_all_trials() -> None:
    run = at_rates([1000.0])
    for at, trial in enumerate(run.trials):
        total, start = Latency(p50=(at + 1) * 1_000_000, p99=(at + 1) * 4_000_000), Latency(mean=(at + 1) * 800_000)
        connect = ConnectFigures(count=9, total=total, socket=None, tls=None, authentication=None, backend_start=start)
        summary = present(trial.summary).model_copy(update={"connect": connect})
        run.trials[at] = trial.model_copy(update={"summary": summary})
    line = "time to connect: p50 2.00 ms, p99 8.00 ms; on average backend start 1.60 ms"
    assert line in answered(run).details


def test_rates_have_a_row_each_and_one_that_is_too_high_is_told() -> None:
    run = at_rates([500.0])
    at_rates([4000.0], served=0.8, run=run)
    said = answered(run)
    assert said.table is not None
    assert [row[:2] for row in said.table.rows] == [("500", "500"), ("4,000", "3,200")]
    behind = "PostgreSQL 18.6 does not keep up with 4,000 transactions a second: it serves 3,200, 80.0 % of those due"
    kept = "PostgreSQL 18.6 keeps up with 500 transactions a second: the rate limits throughput, not the server"
    assert said.details[:2] == (kept, behind)


def test_a_rate_at_which_nothing_succeeded_is_told() -> None:
    run = at_rates([500.0])
    point = Point(clients=8, protocol="prepared", rate=4000.0)
    add_trial(run, "pg18", 8, 0, 900, seconds=2, point=point, failed=8_000, with_latency=False)
    said = answered(run)
    assert said.table is not None
    assert [row[:3] for row in said.table.rows] == [("500", "500", "100"), ("4,000", "0", "0")]
    behind = "PostgreSQL 18.6 does not keep up with 4,000 transactions a second: it serves 0, 0 % of those due"
    assert behind in said.details


def test_failed_transactions_are_not_late() -> None:
    run = SampleRun(manifest())
    point = Point(clients=8, protocol="prepared", rate=219.0)
    add_trial(run, "pg18", 8, 216.4, 900, seconds=10, point=point, failed=26)
    assert not any("keep up" in detail for detail in answered(run).details)


def test_many_failures_come_before_latency_with_their_messages() -> None:
    run = SampleRun(manifest())
    point = Point(clients=8, protocol="prepared", rate=219.0)
    values = [
        ErrorCount(sqlstate="22P02", message=f'invalid input syntax for type uuid: "{value}"', count=2)
        for value in range(7)
    ]
    errors = [ErrorCount(sqlstate="22P02", message="(other messages)", count=12), *values]
    add_trial(run, "pg18", 8, 216.4, 900, seconds=10, point=point, failed=26, errors=errors)
    said = answered(run)
    message = 'invalid input syntax for type uuid: "…"'
    assert said.text == "1.19 % of the 219 transactions a second fail on PostgreSQL 18.6"
    assert said.details[0].startswith("At 219 transactions a second, PostgreSQL 18.6 has a p99 of ")
    assert "the rate limits throughput" not in " ".join(said.details)
    everything = "\n".join(shown(run))
    assert "Errors of finished trials" in everything
    assert any("22P02" in line and message in line and line.endswith("14") for line in shown(run))


@pytest.mark.parametrize(("failed", "leads"), [(10, False), (26, True)])
def test_few_failures_come_after_latency(failed: int, leads: bool) -> None:
    run = SampleRun(manifest())
    point = Point(clients=8, protocol="prepared", rate=219.0)
    add_trial(run, "pg18", 8, 219.0 - failed / 10, 900, seconds=10, point=point, failed=failed)
    said = answered(run)
    assert ("fail on" in said.text) == leads
    assert ("fail on" in said.details[0]) != leads


@pytest.mark.parametrize(
    ("tps", "counted", "keeps_up"), [(3_000.0, True, False), (3_000.0, False, False), (3_970.0, True, True)]
)
def test_an_imported_rate_is_kept_up_with_only_if_throughput_reaches_it(
    tps: float, counted: bool, keeps_up: bool
) -> None:
    run = SampleRun(manifest())
    point = Point(clients=8, protocol="prepared", rate=4000.0)
    # pgbench counts no transactions that were due and had not started at the end
    record = add_trial(run, "pg18", 8, tps, 900, seconds=10, point=point)
    unknown: dict[str, object] = {} if counted else {"scheduled": None, "succeeded": None, "in_flight": None}
    summary = present(record.summary).model_copy(update=unknown)
    imported = Imported(file="pgbench.txt", line=1, last_line=9, tool="pgbench")
    run.trials[0] = record.model_copy(update={"summary": summary, "imported": imported})
    assert ("keeps up with 4,000" in " ".join(answered(run).details)) == keeps_up


@pytest.mark.parametrize("served", [1.0, 0.9])
def test_whether_a_rate_was_kept_up_with_is_said_in_the_terminal_and_on_the_page(served: float) -> None:
    run = at_rates([1000.0], served=served)
    words = (
        "PostgreSQL 18.6 keeps up with 1,000 transactions a second: the rate limits throughput, not the server."
        if served == 1.0
        else "PostgreSQL 18.6 does not keep up with 1,000 transactions a second: it serves 900, 90.0 % of those due."
    )
    assert words in shown(run, 200)
    assert words in " ".join(render_html(run, "here", extras_of(run)).split())


def test_arms_at_a_rate_say_which_of_them_kept_up() -> None:
    run = SampleRun(manifest(("pg17", "pg18")))
    at_rates([1000.0], "pg17", 0.8, run)
    at_rates([1000.0], "pg18", 1.0, run)
    details = "\n".join(answered(run).details)
    assert "pg17 does not keep up with 1,000 transactions a second: it serves 800" in details
    assert "pg18 keeps up with 1,000 transactions a second" in details


def test_arms_at_a_rate_are_compared_by_latency() -> None:
    run = SampleRun(manifest(("pg17", "pg18")))
    for target in ("pg17", "pg18"):
        at_rates([1000.0], target, run=run)
    said = answered(run)
    assert "p99 latency" in said.text
    assert said.table is not None
    assert len(said.table.rows) == 2


def test_phases_have_a_row_each() -> None:
    said = answered(in_phases())
    assert said.text == (
        "PostgreSQL 18.6 in 2 phases: 502 to 902 transactions a second; p99 2.00 to 8.00 ms, the highest in hold"
    )
    assert said.table is not None
    assert [row[:2] for row in said.table.rows] == [
        ("rise", "100 to 900"),
        ("hold", "900"),
        ("settle (not counted)", "100"),
    ]
    assert said.table.rows[1][5] == "8.00"
