"""Less common outputs of pgbench (rates, aborted runs, parts of scripts, quotes), of sysbench and of BenchBase."""

import re
import sys
from pathlib import Path

import pytest

from pgdyno.audit import Severity, audit
from pgdyno.errors import StoreError
from pgdyno.importers.documents.read_document import read_document
from pgdyno.importers.write import import_files
from pgdyno.records import Outcome
from tests.unit.import_sample import PGBENCH_11, PGBENCH_17, SUMMARY, SYSBENCH, fields, findings, imported_run, only

PROGRESS = "".join(f"progress: {at}.0 s, 100.{at} tps, lat 7.6 ms stddev 2.9, 0 failed\n" for at in (20, 40, 60))
INCOMPLETE = "Run was aborted; the above results are incomplete."


def test_loads_that_the_means_of_pgbench_do_not_contradict(tmp_path: Path) -> None:
    lagging = SUMMARY.replace("initial conn", "rate limit schedule lag: avg 3.2 (max 30.1) ms\ninitial conn")
    for text in (f"$ pgbench -c 8 -j 2 -T 60 -R 100\npgbench (16.1)\n{SUMMARY}", lagging):
        assert "littles-law" not in findings(imported_run(tmp_path, text))
    # the same figures without a rate cannot be of 8 clients
    assert "littles-law" in findings(imported_run(tmp_path, SUMMARY))
    # a mean that includes failures is not that of successes
    run = imported_run(tmp_path, WITH_FAILURES)
    ((latency, figures),) = fields(run.trials, "summary.latency_ns imported.figures")
    assert (latency, figures["latency_with_failures_ms"]) == (None, 2.678)
    assert "latency_mean_ms" not in figures
    # 1,493 transactions a second, with those that failed, take 2.678 ms each
    assert "littles-law" not in {finding.rule for finding in audit(run)}


def test_command_lines_have_many_forms_and_are_those_above_an_output(tmp_path: Path) -> None:
    for command in (
        "PGPASSWORD=x pgbench --client=8 --jobs=2 \\\n    --time=60 --rate=100 \\\n    bench",
        "root@db:/# sudo -u postgres pgbench -nc8 -j2 -T60 -R100 bench 2>&1 | tee out.txt",
        "docker exec -it pg /usr/lib/postgresql/16/bin/pgbench -c 8 -j 2 -T 60 --rate 100 > out.txt",
        "pgbench bench -c 8 -j 2 -T 60 -R 100",
    ):
        found = only(f"{command}\n{SUMMARY}")
        assert (found.rate, found.clients, found.workers, found.duration_s) == (100, 8, 2, 60)
    # a variable scale that is no scale stays a variable
    for scale in ("9" * 20, "²", "10k", ""):
        (trial,) = imported_run(tmp_path, f"$ pgbench -c 8 -T 60 -D scale={scale}\n\n{SUMMARY}").trials
        assert trial.point.variables == {"scale": scale}
    # the command of an output is that above it
    banner = "pgbench (16.1)\nstarting vacuum...end.\n"
    found = only(f"$ pgbench -c 8 -j 2 -T 60 -R 100 -D range=5 -M simple\n{banner}{SUMMARY}")
    assert found.command is not None
    assert (found.rate, found.variables, found.version) == (100, {"range": "5"}, "16.1")
    # one that says something else is another run's
    found = only(f"$ pgbench -c 64 -j 2 -T 60 -R 100\n\n{SUMMARY}")
    assert (found.command, found.rate, found.clients) == (None, None, 8)
    for threads in ("²", "9" * 40):
        assert only(f"$ sysbench oltp_read_only --threads={threads} run\n{SYSBENCH}").clients == only(SYSBENCH).clients


def test_progress_by_the_clock_counts_from_the_start(tmp_path: Path) -> None:
    clock = "".join(f"progress: {1700000000 + at}.123 s, 100.0 tps, lat 7.6 ms stddev 2.9\n" for at in (20, 40, 60))
    rows = imported_run(tmp_path, clock + SUMMARY).intervals(1)
    assert fields(rows, "from_us to_us succeeded") == [
        (0, 20_000_000, 2000), (20_000_000, 40_000_000, 2000), (40_000_000, 60_000_000, 2000),
    ]  # fmt: skip
    single = clock.splitlines()[0] + "\n" + SUMMARY
    assert imported_run(tmp_path, single).intervals(1) == [], "one line does not say how long its stretch was"
    asked = f"$ pgbench -c 8 -T 60 -P 20 --progress-timestamp\n{single}"
    assert fields(imported_run(tmp_path, asked).intervals(1), "succeeded") == [2000]


def test_progress_belongs_to_the_summary_before_it() -> None:
    document = read_document(f"{SUMMARY}{PROGRESS}\n$ pgbench -c 8 -T 60\npgbench (16.1)\n{SUMMARY}{PROGRESS}")
    assert [fields(each.progress, "at_s") for each in document.outputs] == [[20, 40, 60], [20, 40, 60]]
    assert document.unread == []
    alone = read_document(f"{PROGRESS}\nsome text\n")
    assert alone.outputs == []
    assert fields(alone.unread, "line text") == [(1, "3 progress lines without a summary")]


def test_progress_without_a_transaction_or_beyond_all_benchmarks_hides_no_result(tmp_path: Path) -> None:
    for mean in ("-nan", "nan", "-nan(ind)", "NaN", "-NaN"):
        stalled = f"progress: 40.0 s, 0.0 tps, lat {mean} ms stddev {mean}, lag {mean} ms\n"
        first, _, last = PROGRESS.splitlines(keepends=True)
        rows = imported_run(tmp_path, f"{first}{stalled}{last}{SUMMARY}").intervals(1)
        assert fields(rows, "to_us") == [20_000_000, 40_000_000, 60_000_000]
        assert (rows[1].succeeded, rows[1].latency_sum_ns) == (0, None)
    for text in (
        PROGRESS.replace("60.0 s, ", "999999999999.0 s, 999999999999.0 tps, lat 1.0 ms stddev 1.0\nx ") + SUMMARY,
        re.sub(r"(\[ *10s \] thds: .*?lat \(ms,95%\): )[\d.]+", rf"\g<1>{'9' * 30}", SYSBENCH),
        re.sub(r"(\[ *10s \] thds: \d+ tps: )[\d.]+", rf"\g<1>{'9' * 15}", SYSBENCH),
    ):
        (tps,) = fields(imported_run(tmp_path, text).trials, "summary.tps")
        assert tps > 0


@pytest.mark.parametrize("begin", ["", "pgbench: error: "])
def test_an_aborted_run_is_no_result(begin: str, tmp_path: Path) -> None:
    complaint = "pgbench: error: client 3 aborted in command 5 (SQL) of script 0; perhaps the backend died\n"
    run = imported_run(tmp_path, f"{PROGRESS}{complaint}{SUMMARY}{begin}{INCOMPLETE}\n")
    assert fields(run.trials, "outcome summary.clients_aborted") == [(Outcome.FAILED, 1)]
    assert "the above results are incomplete" in fields(run.trials, "failure.message")[0]
    assert len(run.intervals(1)) == 3
    # without a rate, it is listed
    document = read_document(f"{SUMMARY.partition('latency average')[0]}pgbench: fatal: {INCOMPLETE}\n")
    assert document.outputs == []
    assert fields(document.unread, "line text") == [(1, "no throughput, as the run was aborted")]
    # one of several scripts
    assert only(f"{RETRIED}{begin}{INCOMPLETE}\n").aborted is not None


GAVE_UP = "pgbench: error: client {} script 0 aborted in command 1 query 0: ERROR:  division by zero\n"
TWO_GAVE_UP = GAVE_UP.format(3) + GAVE_UP.format(0)


def test_clients_that_gave_up_are_counted_with_their_run_and_are_a_finding(tmp_path: Path) -> None:
    for text, aborted in (
        (f"pgbench (15.18)\n{TWO_GAVE_UP}{SUMMARY}", [2]),
        (f"{TWO_GAVE_UP.replace('pgbench: error: ', '')}{SUMMARY}", [2]),
        (f"{SUMMARY}{TWO_GAVE_UP}", [2]),
        (f"{TWO_GAVE_UP}{SUMMARY}pgbench: error: {INCOMPLETE}\n", [2]),
        # the second run's, whether a banner separates the runs or nothing
        (f"{SUMMARY}pgbench (15.18)\n{TWO_GAVE_UP}{SUMMARY}", [0, 2]),
        (f"{SUMMARY}{TWO_GAVE_UP}{SUMMARY}", [0, 2]),
        (f"{TWO_GAVE_UP}{SUMMARY}{GAVE_UP.format(1)}{SUMMARY}", [2, 1]),
        # standard error after standard output
        (f"{SUMMARY}{PROGRESS}{TWO_GAVE_UP}", [2]),
        # of a run without a summary
        (f"pgbench (15.18)\n{TWO_GAVE_UP}pgbench (15.18)\n{SUMMARY}", [0]),
        (f"$ pgbench -c 8 -T 60\n{TWO_GAVE_UP}\n$ pgbench -c 8 -T 60\n{SUMMARY}", [0]),
        (f"# One\n\n{TWO_GAVE_UP}\n# Two\n\n{SUMMARY}", [0]),
    ):
        assert fields(read_document(text).outputs, "clients_aborted") == aborted
    counted = SUMMARY.replace("latency average", "number of failed transactions: 0 (0.000%)\nlatency average")
    run = imported_run(tmp_path, f"pgbench (15.18)\n{TWO_GAVE_UP}{counted}")
    assert fields(run.trials, "summary.clients_aborted") == [2]
    assert "errors" in findings(run)


def test_parts_of_scripts_are_kept_with_their_retries(tmp_path: Path) -> None:
    parts = (
        "SQL script 1: a.sql\n - weight: 9 (targets 90.0% of total)\n"
        " - 5382 transactions (90.0% of total, tps = 90.1)\n"
        " - number of failed transactions: 2 (0.037%)\n - latency average = 7.1 ms\n - latency stddev = 2.1 ms\n"
        " - statement latencies in milliseconds and failures:\n         7.001           0 SELECT 1;\n"
        "SQL script 2: b.sql\n - weight: 1 (targets 10.0% of total)\n - 598 transactions (10.0% of total, tps = 9.9)\n"
        " - latency average = 12.1 ms\n - statement latencies in milliseconds and failures:\n"
        "         12.001           0 SELECT 2;\n"
    )
    run = imported_run(tmp_path, SUMMARY.replace("<builtin: TPC-B (sort of)>", "multiple scripts") + parts)
    (scripts,) = fields(run.trials, "summary.scripts")
    assert fields(scripts, "name weight succeeded failed latency_ns.mean") == [
        ("a.sql", 9, 5382, 2, 7_100_000), ("b.sql", 1, 598, 0, 12_100_000),
    ]  # fmt: skip
    assert fields(run.statements(1), "script text") == [(0, "SELECT 1;"), (1, "SELECT 2;")]
    assert fields([run.manifest], "imported.unread") == [[]]
    run = imported_run(tmp_path, RETRIED)
    ((scripts, load),) = fields(run.trials, "summary.scripts imported.load")
    assert fields(scripts, "failed retried retries") == [(663, 1162, 2026), (0, 0, 0)]
    assert load["scripts"] == "a.sql@3, b.sql@1"
    assert fields(run.statements(1), "script failures") == [(0, 0), (0, 515), (1, 0)]
    assert fields([run.manifest], "imported.unread") == [[]]
    # statements of two scripts, and of several tries, do not add up to the mean; failed tries are in no latency
    found = findings(run)
    assert "arithmetic" not in found
    assert found["littles-law"] is Severity.NOTE
    # a line that a later pgbench adds to a script ends nothing
    later = only(RETRIED.replace(" - latency average = 0.769", " - number of dreams: 7\n - latency average = 0.769"))
    assert fields(later.scripts, "latency_mean_ms") == [0.769, 0.093]
    progress = "progress: 1.0 s, 1466.9 tps, lat 1.339 ms stddev 2.405, 3 failed, 5 retried, 8 retries\n"
    rows = imported_run(tmp_path, RETRIED.replace("transaction type", f"{progress}transaction type")).intervals(1)
    assert fields(rows, "failed retried retries") == [(3, 5, 8)]


RETRIED = """\
pgbench (15.18 (Debian 15.18-0+deb12u1))
transaction type: multiple scripts
scaling factor: 1
query mode: simple
number of clients: 4
number of threads: 2
maximum number of tries: 3
duration: 1 s
number of transactions actually processed: 3151
number of failed transactions: 663 (17.383%)
number of transactions retried: 1162 (30.467%)
total number of retries: 2026
latency average = 0.569 ms
initial connection time = 17.089 ms
tps = 3189.542431 (without initial connection time)
SQL script 1: a.sql
 - weight: 3 (targets 75.0% of total)
 - 2220 transactions (70.5% of total, tps = 2247.154616)
 - number of failed transactions: 663 (22.997%)
 - number of serialization failures: 663 (22.997%)
 - number of deadlock failures: 0 (0.000%)
 - number of transactions retried: 1162 (40.305%)
 - total number of retries: 2026
 - latency average = 0.769 ms
 - latency stddev = 1.219 ms
 - statement latencies in milliseconds, failures and retries:
         0.220           0           0  SELECT sum(abalance) FROM pgbench_accounts WHERE aid < 20;
         0.135         515        1456  UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;
SQL script 2: b.sql
 - weight: 1 (targets 25.0% of total)
 - 931 transactions (29.5% of total, tps = 942.387814)
 - number of transactions retried: 0 (0.000%)
 - total number of retries: 0
 - latency average = 0.093 ms
 - statement latencies in milliseconds, failures and retries:
         0.093           0           0  SELECT 1;
"""


WITH_FAILURES = """\
pgbench (15.18 (Debian 15.18-0+deb12u1))
transaction type: ./a.sql
scaling factor: 1
query mode: simple
number of clients: 4
number of threads: 2
maximum number of tries: 2
duration: 2 s
number of transactions actually processed: 1553
number of failed transactions: 1017 (39.572%)
latency average = 2.678 ms (including failures)
initial connection time = 288.906 ms
tps = 902.453127 (without initial connection time)
"""


@pytest.mark.parametrize("mark", ["> ", ">", "> > ", ">> ", "    > "])
@pytest.mark.parametrize("text", [PGBENCH_11, PGBENCH_17, SYSBENCH])
def test_quoted_output_is_read_as_what_was_quoted(mark: str, text: str) -> None:
    plain, quoted = only(text), only("".join(f"{mark}{line}\n" for line in text.splitlines()))
    assert (quoted.tps, quoted.clients, quoted.latency_mean_ms) == (plain.tps, plain.clients, plain.latency_mean_ms)
    assert len(quoted.progress) == len(plain.progress)
    assert len(quoted.statements) == len(plain.statements)


def test_comments_of_a_shell_are_no_targets_and_commas_decimal_as_the_rate_shows() -> None:
    text = f"```\n$ export PGHOST=a\n# warm cache first\n# pgbench -c 8 -T 60\n{SUMMARY}```\n"
    assert only(text).target is None
    assert only(f"$ ls\n# the run\n$ pgbench -c 8 -T 60\n{SUMMARY}").target is None
    assert only(f"# A heading\n\n{SUMMARY}").target == "A heading"
    commas = SUMMARY.replace("100.955497", "994,433833").replace("7.613", "10,056").replace("397.804", "1.010,5")
    found = only(commas)
    assert (found.tps, found.latency_mean_ms, found.latency_stddev_ms) == (994.433833, 10.056, 2.898)
    assert found.connect_ms == 1010.5
    thousands = only(SUMMARY.replace("100.955497", "994,433").replace("7.613", "10,056"))
    assert (thousands.tps, thousands.latency_mean_ms) == (994_433, 10_056)
    assert only("$ pgbench -c 8 -T 60\n\ntps = 1,234.5, which is the most\n").tps == 1234.5


def test_files_of_other_kinds(tmp_path: Path) -> None:
    # Windows's text
    (tmp_path / "out.txt").write_bytes(SUMMARY.replace("\n", "\r\n").encode("utf-16"))
    assert import_files([tmp_path / "out.txt"], tmp_path / "runs").trials == 1
    # a thousand outputs
    assert sys.getrecursionlimit() < 2000
    assert len(read_document(f"$ pgbench -c 8\n{SUMMARY}\n" * 1000).outputs) == 1000
    # a rate that is cited again is no second trial
    headless = SUMMARY.partition("\n")[2]
    bare = "tps = 100.955497 (without initial connection time)\n"
    document = read_document(f"$ pgbench -c 8 -T 60\n{SUMMARY}\nBefore:\n\n{headless}\nand\n\n{bare}")
    assert fields(document.outputs, "line") == [1]
    assert ["cited from line 12" in each.text for each in document.unread] == [True, True]


def test_a_file_may_end_behind_a_figure_but_not_within_it() -> None:
    for text in (
        SUMMARY.replace("tps = 100.955497 (without initial connection time)\n", "tps = 10"),
        # the second rate
        PGBENCH_11.partition("tps = 15509")[0] + "tps = 15",
        SYSBENCH.partition("1.05\n")[0],
        '{\n "Measured Requests": 61422,\n "terminals": 8,\n "Throughput (requests/second)": 102',
    ):
        document = read_document(text)
        line, last = text.count("\n") + 1, text.rsplit("\n", 1)[1].strip()
        assert [each.printed["tps"][1] for each in document.outputs if each.printed["tps"][0] >= line] == []
        assert fields(document.unread, "line text") == [(line, f"no result: the file ends within this figure: {last}")]
    complete = {
        SUMMARY.rstrip(): 100.955497,
        PGBENCH_11.rstrip(): 15509.3943,
        f"{SUMMARY.partition('tps')[0]}tps = 100.9\n": 100.9,
        SYSBENCH.rstrip(): 760.09,
        SYSBENCH.partition("         95th")[0].rstrip(): 760.09,
        '{\n "terminals": 8,\n "Throughput (requests/second)": 1024.5}': 1024.5,
        "$ pgbench -c 8\ntps = 12.5": 12.5,
    }
    for text, tps in complete.items():
        document = read_document(text)
        assert [each.tps for each in document.outputs] == [tps]
        assert document.unread == []


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
        f"{THREADS}\nPrime numbers limit: 10000\n\nThreads started!\n\n{CPU}", THREADS + MEMORY, THREADS, CPU,
        "$ sysbench cpu --threads=4 run\n", "$ sysbench --test=mutex --num-threads=4 run\n",
    ):  # fmt: skip
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
