"""What sysbench and BenchBase print."""

import re
from pathlib import Path

import pytest

from pgdyno.audit import Severity
from pgdyno.errors import StoreError
from pgdyno.importers.documents.read_document import read_document
from tests.unit.import_sample import SYSBENCH, fields, findings, imported_run, only


def test_sysbench_keeps_threads_rate_and_intervals_also_at_its_limit(tmp_path: Path) -> None:
    text = "".join(
        f"$ sysbench oltp_read_only --threads={threads} --rate={25 * threads} run\n"
        + RATE_LIMITED.format(threads=threads, rate=25 * threads)
        for threads in (2, 4)
    )
    run = imported_run(tmp_path, text)
    assert fields(run.trials, "point.clients point.rate repeat") == [(2, 50, 1), (4, 100, 1)]
    for number, (load, command) in enumerate(fields(run.trials, "imported.load imported.command"), 1):
        assert (load["loop"], bool(command)) == ("open", True)
        rows = fields(run.intervals(number), "to_us succeeded failed")
        assert rows == [(1_000_000, 47, 0), (3_000_000, 78, 4)]
    assert fields([run.manifest], "imported.unread") == [[]]
    # if it reached its limit, too
    limit = "Time limit exceeded, exiting...\n(last message repeated 15 times)\nDone.\n\nSQL statistics:"
    rate = "Target transaction rate: 760/sec\nReport intermediate"
    text = SYSBENCH.replace("SQL statistics:", limit).replace("Report intermediate", rate)
    found = only(text.partition("\n")[2])
    assert (found.clients, found.rate, found.tps) == (16, 760, 760.09)
    assert len(found.progress) == 1


def test_benchbase_on_one_line_and_in_its_log() -> None:
    found = only(
        '{"Benchmark Type": "tpcc", "terminals": "4", "Throughput (requests/second)": 33.43, '
        '"Goodput (requests/second)": 33.31, "Latency Distribution": {"Median Latency (microseconds)": 28860, '
        '"99th Percentile Latency (microseconds)": 60269}}'
    )
    assert (found.tool, found.tps, found.requests_per_s, found.clients) == ("benchbase", 33.31, 33.43, 4)
    assert found.percentiles_ms == {50.0: 28.86, 99.0: 60.269}
    logged = only(
        "[INFO ] 12:00 - Results(state=EXIT, nanoSeconds=60000083167, measuredRequests=201) = "
        "3.349995 requests/sec (throughput), 3.299995 requests/sec (goodput)"
    )
    assert (logged.tps, logged.transactions, logged.failed) == (3.299995, 198, 3)
    assert (logged.requests_per_s, logged.requests) == (3.349995, 201)


BENCHBASE = """\
{
    "Elapsed Time (nanoseconds)": 60000000000,
    "Benchmark Type": "tpcc",
    "Measured Requests": 60000,
    "terminals": "8",
    "Latency Distribution": {
        "Average Latency (microseconds)": 8000
    },
    "Throughput (requests/second)": 1000.0,
    "Goodput (requests/second)": 400.0
}
"""


def test_requests_that_benchbase_does_not_complete_have_failed(tmp_path: Path) -> None:
    run = imported_run(tmp_path, BENCHBASE)
    assert fields(run.trials, "summary.tps summary.succeeded summary.failed") == [(400.0, 24_000, 36_000)]
    (figures,) = fields(run.trials, "imported.figures")
    assert (figures["requests"], figures["requests_per_s"]) == (60_000, 1000.0)
    # latencies are those of all requests, and rollbacks may be intended
    found = findings(run)
    assert "littles-law" not in found
    assert found["errors"] is Severity.CAUTION
    # a goodput that counts the warm-up shows no failures
    for before, after in ((": 400.0", ": 1200.0"), (',\n    "Goodput (requests/second)": 400.0', "")):
        assert fields([only(BENCHBASE.replace(before, after))], "tps transactions failed") == [(1000.0, 60_000, None)]


def test_figures_of_benchbase_that_cannot_be_and_fractions_of_a_scale(tmp_path: Path) -> None:
    for rate in ("1e400", "-5.0", "1e12"):
        document = read_document(BENCHBASE.replace("1000.0", rate))
        assert document.outputs == [], rate
        assert document.unread
    for name, value in (("terminals", '"-8"'), ("Elapsed Time (nanoseconds)", "-60000000000")):
        with pytest.raises(StoreError) as caught:
            imported_run(tmp_path, re.sub(rf"({re.escape(name)}\": ).*?,", rf"\g<1>{value},", BENCHBASE))
        assert "a figure is negative" in str(caught.value.hint)
    # fractions of a scale are other points
    texts = [BENCHBASE.replace('"8"', f'"8",\n    "scalefactor": {scale}') for scale in ("0.1", '"0.5"', "2.0")]
    run = imported_run(tmp_path, "".join(texts), target="pg18")
    assert fields(run.trials, "point.scale point.variables") == [
        (None, {"scalefactor": "0.1"}), (None, {"scalefactor": "0.5"}), (2, {}),
    ]  # fmt: skip


RATE_LIMITED = """\
sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: {threads}
Target transaction rate: {rate}/sec
Report intermediate results every 1 second(s)

Threads started!

[ 1s ] thds: {threads} tps: 46.91 qps: 750.51 (r/w/o: 656.69/0.00/93.81) lat (ms,95%): 6.32 err/s: 0.00 reconn/s: 0.00
[ 1s ] queue length: 0, concurrency: 0
[ 3s ] thds: {threads} tps: 39.02 qps: 624.26 (r/w/o: 546.23/0.00/78.03) lat (ms,95%): 3.75 err/s: 2.00 reconn/s: 0.00
[ 3s ] queue length: 1, concurrency: 1
SQL statistics:
    transactions:                        86     (42.30 per sec.)
    ignored errors:                      4      (1.87 per sec.)
General statistics:
    total time:                          3.0315s
Latency (ms):
         avg:                                    2.19
         95th percentile:                        6.21

"""


def test_errors_of_sysbench_and_its_output_without_percentiles(tmp_path: Path) -> None:
    # reconnects are no failures
    text = SYSBENCH.replace("reconnects:                          0 ", "reconnects:                          9 ")
    assert fields(imported_run(tmp_path, text).trials, "summary.failed summary.scheduled") == [(1, 45619)]
    # those of old intervals are kept
    old = (
        "[   2s] threads: 4, tps: 60.00, reads: 840.00, writes: 240.00, response time: 2.50ms (95%), errors: 1.50, "
        "reconnects:  0.00"
    )
    found = only(f"Number of threads: 4\n{old}\nOLTP test statistics:\n    transactions: 120 (60.00 per sec.)\n")
    assert fields(found.progress, "failed") == [3.0]
    # an output without percentiles does not end there
    text = RATE_LIMITED.format(threads=4, rate=100).replace("Target transaction rate: 100/sec\n", "")
    text = text.replace("95th percentile:                        6.21", "percentile stats:               disabled")
    run = imported_run(tmp_path, text.replace("(ms,95%): 6.32", "(ms,0%): 0.00") * 2)
    assert fields(run.trials, "target repeat") == [("out", 1), ("out", 2)]


def test_tests_of_sysbench_without_a_database_and_checkpoints_are_no_results() -> None:
    for head in (
        f"{THREADS}\nPrime numbers limit: 10000\n\nThreads started!\n\n{CPU}",
        THREADS + MEMORY,
        THREADS,
        CPU,
        "$ sysbench cpu --threads=4 run\n",
        "$ sysbench --test=mutex --num-threads=4 run\n",
    ):
        document = read_document(head + EVENTS)
        assert document.outputs == []
        assert ["uses no database" in unread.text for unread in document.unread] == [True]
    assert only(f"$ sysbench oltp_read_only --threads=4 run\n{EVENTS}").tps == 4022.32
    # a run with checkpoints is listed
    part = "".join(RATE_LIMITED.partition("SQL statistics:")[1:])
    head = "Running the test with following options:\nNumber of threads: 4\nReport checkpoint(s) at 1, 2 seconds\n"
    interval = (
        "[ 3s ] thds: 4 tps: 46.91 qps: 7.5 (r/w/o: 6.5/0.00/1.00) lat (ms,95%): 6.32 err/s: 0.00 reconn/s: 0.00\n"
    )
    parts = f"{head}\n[ 1s ] Checkpoint report:\n{part}[ 2s ] Checkpoint report:\n{part}{interval}{part}"
    document = read_document(f"{parts}sysbench 1.0.20\n{RATE_LIMITED.format(threads=4, rate=100)}")
    assert fields(document.outputs, "clients") == [4]
    ((line, said),) = fields(document.unread, "line text")
    assert line == 1
    assert "statistics restart at each checkpoint" in said


EVENTS = """\
Throughput:
    events/s (eps):                      4022.3200
    time elapsed:                        10.0006s
    total number of events:              40226

Latency (ms):
         avg:                                    0.99
         95th percentile:                        1.01
"""
CPU = "CPU speed:\n    events per second:  4022.32\n\n"
MEMORY = """\
Running memory speed test with the following options:
  block size: 1KiB

Total operations: 40226 (4022.32 per second)

"""
THREADS = "sysbench 1.1.0\n\nRunning the test with following options:\nNumber of threads: 4\n\n"
