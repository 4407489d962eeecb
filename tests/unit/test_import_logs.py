"""Logs of pgbench: which of them are one run, and what their columns show about rate, retries and skipped ones."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pgdyno.audit import Severity
from pgdyno.errors import StoreError
from pgdyno.metrics import openmetrics
from pgdyno.records import Imported, Summary
from pgdyno.store import RunData
from tests.present import present
from tests.unit.audit_sample import of
from tests.unit.import_sample import fields, imported_run
from tests.unit.openmetrics_check import CATALOGUE, parsed

START_S = 1_700_000_000
CLIENTS = 4


def closed(more: Callable[[int], str] = lambda _: "", clients: Sequence[int] = range(CLIENTS)) -> str:
    """Return a log of clients that send 300 transactions of 5 ms each without a pause; `more` returns further columns
    by the transaction's number.
    """
    return "".join(
        f"{client} {number} 5000 0 {START_S + number * 5000 // 1_000_000} {number * 5000 % 1_000_000}{more(number)}\n"
        for number in range(1, 301)
        for client in clients
    )


def paced(more: Callable[[int], str], time: Callable[[int], str] = lambda _: "500") -> str:
    """Return a log of clients that each start a transaction every 20 ms, and are idle for most of the time."""
    return "".join(
        f"{client} {number} {time(number)} 0 {START_S + number // 50} {number % 50 * 20_000}{more(number)}\n"
        for number in range(1, 301)
        for client in range(CLIENTS)
    )


def imported(tmp_path: Path, logs: dict[str, str], target: str | None = None) -> RunData:
    return imported_run(tmp_path, *logs.values(), names=[*logs], target=target)


def only(run: RunData) -> tuple[Summary, Imported]:
    (trial,) = run.trials
    return present(trial.summary), present(trial.imported)


def aggregates(line: str) -> str:
    return "".join(f"{START_S + 5 * at} {line}\n" for at in range(4))


# ---- which logs are one run ----


def test_a_log_belongs_to_a_thread_beside_a_first_one(tmp_path: Path) -> None:
    for names, trials in (
        (["pgbench_log.7", "pgbench_log.7.1"], {"pgbench_log.7": 2}),
        # a prefix may end in a number
        (["pg17.2.4711", "pg17.2.5122"], {"pg17.2.4711": 1, "pg17.2.5122": 1}),
        (["pg17.2.47", "pg17.2.47.1", "pg17.2.51"], {"pg17.2.47": 2, "pg17.2.51": 1}),
    ):
        logs = {name: closed(clients=[2, 3] if name.endswith(".1") else [0, 1]) for name in names}
        assert {trial.target: trial.point.workers for trial in imported(tmp_path, logs).trials} == trials


def test_logs_that_are_no_whole_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"log\.2 and log\.2\.7 as logs of one run of pgbench: both have client 0"):
        imported(tmp_path, {"log.2": closed(), "log.2.7": closed()})
    for more in ("", " 70", " 70 0"):
        whole = closed(more.format).splitlines(keepends=True)
        part = [line for at, line in enumerate(whole) if at % 10 == 3]
        with pytest.raises(StoreError, match="transactions are missing, as client 1 has 60 of") as caught:
            imported(tmp_path, {"log.7": "".join(part)})
        assert "--sampling-rate" in str(caught.value.hint)
    # times without benchmarks
    for more in ("500 0 99999999999 0", "500 0 -1700000000 0", "9000000000000000 0 1700000001 0"):
        log = f"0 1 500 0 1700000000 0\n0 2 500 0 1700000001 0\n0 3 {more}\n"
        with pytest.raises(
            StoreError, match=r"cannot read the log .*log\.7: a transaction began or ended .* after 1970"
        ):
            imported(tmp_path, {"log.7": log})
    # one whose beginning and end were cut is whole in between
    cut = closed().splitlines(keepends=True)[400:-200]
    assert only(imported(tmp_path, {"log.7": "".join(cut)}))[0].succeeded == 600


# ---- rate and retries ----


def test_a_log_under_a_rate_is_an_open_loop(tmp_path: Path) -> None:
    for log, lag_ms in (
        # -R: the lag is a large part of some latencies
        (paced(lambda number: " 450" if number == 7 else " 63"), 0.06429),
        # -R with --max-tries
        (paced(lambda _: " 40 0"), 0.04),
        # -R with -L: the lag of a skipped transaction counts for nothing
        (paced(lambda _: " 63", lambda number: "skipped" if number == 9 else "50000"), 0.063),
        # made without -R's column
        (paced(lambda _: "", lambda number: "skipped" if number == 9 else "500"), None),
    ):
        run = imported(tmp_path, {"log.7": log})
        summary, source = only(run)
        assert source.load == {"loop": "open"}
        assert source.figures.get("schedule_lag_ms") == (None if lag_ms is None else pytest.approx(lag_ms, rel=1e-3))
        assert (summary.retried, summary.retries) == (0, 0)
        assert [finding.checked for finding in of("littles-law", run)] == [False]
        assert of("skipped", run) == []


def test_logs_of_other_loads_and_lengths_are_no_repeats(tmp_path: Path) -> None:
    logs = {"a.1": closed(), "a.2": closed(), "b.1": paced(lambda number: f" {number}")}
    assert fields(imported(tmp_path, logs, target="pg").trials, "target repeat point.variables") == [
        ("pg", 1, {"loop": "closed"}), ("pg", 2, {"loop": "closed"}), ("pg", 1, {"loop": "open"}),
    ]  # fmt: skip
    long = intervals([1000] * 60)
    run = imported(tmp_path, {"a.1": intervals([1000] * 10), "a.2": long, "a.3": long}, target="pg")
    assert fields(run.trials, "repeat") == [1, 1, 2]
    assert len({trial.point.variables["duration_s"] for trial in run.trials}) == 2
    # of which the transactions are as many
    same = {"a.1": intervals([1, 300, 300]), "a.2": intervals([1, 100, 100, 100, 100, 100, 100])}
    run = imported(tmp_path / "t", same, target="pg")
    assert fields(run.trials, "repeat point.variables") == [(1, {}), (2, {})]


def test_what_a_log_lacks_is_no_error(tmp_path: Path) -> None:
    # skipped transactions are a caution
    time = ["skipped", "900", "900", "900"]
    (finding,) = of("skipped", imported(tmp_path, {"log.7": paced(lambda _: " 40", lambda number: time[number % 4])}))
    assert finding.checked
    assert "25.0 % of the transactions" in finding.message
    # pgbench -C: half of each client's time
    (finding,) = of("littles-law", imported(tmp_path, {"log.7": paced(lambda _: "", lambda _: "10000")}))
    assert (finding.checked, finding.severity) == (True, Severity.NOTE)
    # a seventh column that may be lag or retries is neither
    # 12 tries of 5 ms, or a lag of 12 µs
    run = imported(tmp_path, {"log.7": closed(lambda _: " 12")})
    summary, source = only(run)
    assert (source.load, source.figures) == ({}, {})
    assert (summary.retried, summary.retries) == (None, None)
    (finding,) = of("littles-law", run)
    assert not finding.checked
    assert "does not show whether a rate" in finding.message


def test_retries_are_those_of_the_log(tmp_path: Path) -> None:
    for more, retried, retries in (
        # --max-tries
        (lambda number: f" {number % 3}", 800, 1200),
        (lambda _: " 0", 0, 0),
        # -R and --max-tries: the seventh column is the lag
        (lambda number: f" 70 {number % 3}", 800, 1200),
    ):
        run = imported(tmp_path, {"log.7": closed(more)})
        summary, _ = only(run)
        assert (summary.retried, summary.retries) == (retried, retries)
        rows = run.intervals(1)
        assert len(rows) > 1
        assert (sum(row.retried for row in rows), sum(row.retries for row in rows)) == (retried, retries)


def test_retries_of_failed_transactions_count_and_a_log_with_retries_is_a_closed_loop(tmp_path: Path) -> None:
    log = closed(lambda number: f" 70 {number % 3}")
    log += f"0 301 failed 0 {START_S + 1} 600000 70 19\n0 302 skipped 0 {START_S + 1} 600000 70 4294967295\n"
    summary, _ = only(imported(tmp_path, {"log.7": log}))
    assert (summary.failed, summary.skipped, summary.retried, summary.retries) == (1, 1, 801, 1219)
    # a failure has each word of pgbench and pgdrive
    for word in ("failed", "serialization", "deadlock", "other", "lost"):
        summary, _ = only(imported(tmp_path, {"log.7": f"{closed()}0 301 {word} 0 {START_S + 1} 600000\n"}))
        assert (summary.succeeded, summary.failed) == (1200, 1), word
    run = imported(tmp_path, {"log.7": closed(lambda number: f" {number % 3}")})
    assert only(run)[1].load == {"loop": "closed"}
    assert of("littles-law", run) == []
    late = imported(tmp_path, {"log.8": paced(lambda number: f" {number % 3}")})
    assert [finding.checked for finding in of("littles-law", late)] == [True]


# ---- aggregate logs ----


def test_aggregate_logs_of_all_versions_are_read(tmp_path: Path) -> None:
    for more, loop, lag_ms in (
        ("", "closed", None),
        # before PostgreSQL 15 with -R, then with -L, where skipped transactions are in the first count
        (" 50000 1 0 70", "open", 0.01),
        (" 50000 1 0 70 2500", "open", 0.01),
        # since
        (" 0 0 0 0 0 0 0 0 0", "closed", None),
        (" 50000 1 0 70 2500 0 0 0 0", "open", 0.01),
        # from 19 on with other failures, and pgdrive's with lost transactions
        (" 50000 1 0 70 2500 0 0 0 0 0", "open", 0.01),
        (" 0 0 0 0 0 0 0 0 0 0 0", "closed", None),
    ):
        is_skipped = " 2500" in more
        count = 7500 if is_skipped and len(more.split()) == 5 else 5000
        run = imported(tmp_path, {"log.7": aggregates(f"{count} 20000000 80000000000 3000 9000{more}")})
        summary, source = only(run)
        assert (summary.succeeded, summary.tps) == (15_000, 1000)
        latency = present(summary.latency_ns)
        assert (latency.mean, latency.min, latency.max, latency.p99) == (4_000_000, 3_000_000, 9_000_000, None)
        assert fields(run.intervals(1), "succeeded") == [5000] * 4
        assert source.load == {"loop": loop}
        assert source.figures == ({} if lag_ms is None else {"schedule_lag_ms": lag_ms})
        assert (summary.skipped, summary.scheduled) == ((7500, 22_500) if is_skipped else (0, 15_000))
        skipped = [True] if is_skipped else [] if loop == "open" else [False]
        assert [finding.checked for finding in of("skipped", run)] == skipped
        assert of("arithmetic", run) == []


def test_aggregate_logs_count_failures_of_every_kind_and_export_what_they_have(tmp_path: Path) -> None:
    run = imported(tmp_path, {"log.7": aggregates("5000 20000000 80000000000 3000 9000 0 0 0 0 0 7 8 1 2 4 8")})
    summary, _ = only(run)
    assert (summary.succeeded, summary.failed, summary.retried, summary.retries) == (15_000, 45, 21, 24)
    assert fields(run.intervals(1), "failed") == [15] * 4
    # without latencies: a histogram of no transaction would contradict their count
    run = imported(tmp_path, {"log.7": aggregates("5000 20000000 80000000000 3000 9000 0 0 0 0 0 0 0 0 0 0 0")})
    families = parsed(b"".join(openmetrics(run, None, CATALOGUE)).decode())
    counts = [each.value for each in families["pgdyno_transactions"].samples if each.labels["outcome"] == "succeeded"]
    assert counts == [5000, 10_000, 15_000, 20_000]
    assert not {"pgdyno_latency_seconds", "pgdyno_clients"} & families.keys()
    assert families["pgdyno_trial"].samples[0].labels["clients"] == ""


def intervals(counts: Sequence[int], start_s: int = START_S) -> str:
    """Return an aggregate log by 2 s; each transaction took 1 ms."""
    return "".join(
        f"{start_s + 2 * at} {n} {n * 1000} {n * 1_000_000} 1000 1000{' 0' * 9}\n" for at, n in enumerate(counts)
    )


def test_only_complete_intervals_of_aligned_threads_count(tmp_path: Path) -> None:
    for logs, tps in (
        # pgbench dates the first interval back to a whole second, and leaves out the last one unless it is complete
        ([[70, 200, 200, 200]], 100),
        ([[10, 200]], 100),
        # two threads
        ([[70, 200, 200], [60, 300, 300]], 250),
        # with -t, one of them ended sooner
        ([[70, 200, 200, 200], [60, 300]], 250),
    ):
        names = ["log.7", "log.7.1"]
        run = imported(tmp_path, {name: intervals(counts) for name, counts in zip(names, logs, strict=False)})
        assert only(run)[0].tps == tps
        assert of("arithmetic", run) == []
    apart = {"log.7": intervals([20, 200, 200, 200]), "log.7.1": intervals([190, 200, 200, 200], START_S + 1)}
    run = imported(tmp_path, apart)
    assert only(run)[0].tps == 200
    assert fields(run.intervals(1), "succeeded") == [210, 400, 400, 400]


def test_an_aggregate_log_of_which_nothing_is_complete_is_refused(tmp_path: Path) -> None:
    for logs, wrong in (
        ([intervals([200])], "it has only one interval, whose length is unknown"),
        ([intervals([200, 200]) + intervals([200])], "it has two intervals with the same start"),
        ([intervals([200, 200]) + intervals([200], 99_999_999_999)], "a transaction began or ended 100,000,000,"),
        # threads without a common complete interval
        ([intervals([70, 200, 200]), intervals([70])], "it has no complete interval.*log a longer run"),
        (
            [aggregates("10 40000 160000000 3000 9000 1 1 0 1 11")],
            f"the interval {START_S} has 10 transactions, of which 11 were skipped",
        ),
    ):
        with pytest.raises(StoreError) as caught:
            imported(tmp_path, dict(zip(("log.7", "log.7.1"), logs, strict=False)))
        assert re.search(wrong, f"{caught.value} {caught.value.hint}")
