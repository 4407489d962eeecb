"""Documents that contain outputs of other tools: every output, its figures, its line."""

import pytest

from pgdyno.importers.documents.prose import claims_in, evaluate
from pgdyno.importers.documents.read_document import read_document
from pgdyno.importers.parsed import Output

PGBENCH_9_5 = """\
starting vacuum...end.
progress: 5.0 s, 1021.4 tps, lat 7.820 ms stddev 3.1
transaction type: TPC-B (sort of)
scaling factor: 10
query mode: simple
number of clients: 8
number of threads: 2
duration: 10 s
number of transactions actually processed: 10214
latency average: 7.831 ms
latency stddev: 3.105 ms
tps = 1020.731 (including connections establishing)
tps = 1021.902 (excluding connections establishing)
"""

PGBENCH_11 = """\
-bash-4.2$ pgbench -U postgres -c 64 -t 5000 -M extended -j 64 -P 10 shop
starting vacuum...end.
progress: 10.0 s, 15344.0 tps, lat 4.166 ms stddev 2.496
progress: 20.0 s, 15826.2 tps, lat 4.043 ms stddev 2.430
transaction type: <builtin: TPC-B (sort of)>
scaling factor: 100
query mode: extended
number of clients: 64
number of threads: 64
number of transactions per client: 5000
number of transactions actually processed: 320000/320000
latency average = 4.093 ms
latency stddev = 2.453 ms
tps = 15502.717309 (including connections establishing)
tps = 15509.394300 (excluding connections establishing)
"""

PGBENCH_17 = """\
pgbench (17.2, server 16.4)
transaction type: rw.sql
scaling factor: 1
query mode: prepared
number of clients: 4
number of threads: 1
maximum number of tries: 3
duration: 30 s
number of transactions actually processed: 51234
number of failed transactions: 12 (0.023%)
number of transactions retried: 40 (0.078%)
total number of retries: 41
latency average = 2.339 ms
latency stddev = 0.902 ms
initial connection time = 5.123 ms
tps = 1707.812345 (without initial connection time)
statement latencies in milliseconds, failures and retries:
         0.002           0           0  \\set aid random(1, 100000 * :scale)
         0.431           3          11  UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;
         1.804           9          30  END;
"""

SYSBENCH = """\
$ sysbench oltp_read_write --tables=4 --table-size=10000 --threads=16 --time=60 run
sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: 16
Report intermediate results every 10 second(s)
Initializing random number generator from current time

[ 10s ] thds: 16 tps: 751.13 qps: 15037.12 (r/w/o: 10527.62/3005.44/1504.06) lat (ms,95%): 23.10 err/s: 0.10
SQL statistics:
    queries performed:
        read:                            638652
        write:                           182472
        other:                           91236
        total:                           912360
    transactions:                        45618  (760.09 per sec.)
    queries:                             912360 (15201.71 per sec.)
    ignored errors:                      1      (0.02 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          60.0155s
    total number of events:              45618

Latency (ms):
         min:                                   19.55
         avg:                                   21.05
         max:                                   33.94
         95th percentile:                       21.89
         sum:                               960222.54

Threads fairness:
    events (avg/stddev):           2851.1250/5.62
    execution time (avg/stddev):   60.0139/0.00
"""

SWEEP = """\
### 결과
[host-a-1] - cpu 90%
thc   elaptime      reads     writes   others       tps        qps    errs        min        avg        max        p95
   2   60.0095s      82320      23520    11760     97.98    1959.64       0      19.10      20.41     235.45      20.74
   4   60.0147s     162848      46528    23264    193.81    3876.29       0      19.29      20.64     251.62      21.11
sysbench 1.0.20 (using bundled LuaJIT 2.1.0-beta2)
[host-b-1] - cpu 83%
thc   elaptime      reads     writes   others       tps        qps    errs        min        avg        max        p95
   2   60.0055s     295330      84380    42190    351.54    7030.86       0       4.76       5.69     197.98       6.09
"""

HAMMERDB = """\
Vuser 1:5 Active Virtual Users configured
107604 PostgreSQL tpm
Vuser 1:TEST RESULT : System achieved 50123 NOPM from 115377 PostgreSQL TPM
Vuser 1:8 Active Virtual Users configured
Vuser 1:TEST RESULT : System achieved 123456 PostgreSQL TPM at 53210 NOPM
"""


PEAKS = (
    "Version 9.4\t\tScale 100\t\tScale 3,000\t\n"
    "\t\t1:1\t2:1\t1:1\t2:1\n"
    "incl.\tClients/Threads\t26/26\t48/24\t28/28\t48/24\n"
    "\tTPS /Latency\t423,148/0.12 3\t379,866/0.1 26\t365,974/0.1 53\t355,882/0.13 5\n"
)


def only(text: str) -> Output:
    (output,) = read_document(text).outputs
    return output


def test_pgbench_9_5_has_colons_and_words_of_its_own() -> None:
    found = only(PGBENCH_9_5)
    assert (found.workload, found.scale, found.protocol) == ("tpcb-like", 10, "simple")
    assert (found.clients, found.workers, found.duration_s, found.transactions) == (8, 2, 10, 10214)
    assert (found.latency_mean_ms, found.latency_stddev_ms) == (7.831, 3.105)
    assert (found.tps, found.tps_including_connections) == (1021.902, 1020.731)
    assert [moment.tps for moment in found.progress] == [1021.4]


def test_pgbench_11_with_its_command_line() -> None:
    found = only(PGBENCH_11)
    assert (found.line, found.last_line) == (1, 15)
    assert found.command is not None
    assert found.command.startswith("bash-4.2$ pgbench -U postgres")
    assert (found.clients, found.workers, found.transactions_per_client) == (64, 64, 5000)
    assert found.printed["tps"] == (15, "tps = 15509.394300 (excluding connections establishing)")


def test_pgbench_17_with_failures_and_statements() -> None:
    found = only(PGBENCH_17)
    assert found.version == "17.2"
    assert (found.failed, found.retried, found.retries) == (12, 40, 41)
    assert (found.tps, found.tps_excluding_connections, found.connect_ms) == (1707.812345, 1707.812345, 5.123)
    assert [(each.latency_ms, each.failures, each.retries) for each in found.statements] == [
        (0.002, 0, 0),
        (0.431, 3, 11),
        (1.804, 9, 30),
    ]
    assert found.statements[2].text == "END;"


def test_sysbench() -> None:
    found = only(SYSBENCH)
    assert (found.workload, found.clients, found.version) == ("oltp-read-write", 16, "1.0.20")
    assert (found.reads, found.writes, found.others, found.errors) == (638652, 182472, 91236, 1)
    assert (found.tps, found.qps, found.duration_s) == (760.09, 15201.71, 60.0155)
    assert (found.latency_min_ms, found.latency_mean_ms, found.latency_max_ms) == (19.55, 21.05, 33.94)
    assert found.percentiles_ms == {95.0: 21.89}
    assert [(moment.at_s, moment.tps, moment.p95_ms) for moment in found.progress] == [(10, 751.13, 23.10)]


def test_a_sweep_is_a_trial_a_row_named_by_the_heading_above() -> None:
    found = read_document(SWEEP).outputs
    assert [(each.target, each.clients, each.line) for each in found] == [
        ("host-a-1", 2, 4),
        ("host-a-1", 4, 5),
        ("host-b-1", 2, 9),
    ]
    assert found[0].percentiles_ms == {95.0: 20.74}
    assert found[0].duration_s == 60.0095


def test_hammerdb_in_both_wordings() -> None:
    found = read_document(HAMMERDB).outputs
    assert [(each.clients, each.nopm, each.tpm) for each in found] == [(5, 50123, 115377), (8, 53210, 123456)]


@pytest.mark.parametrize(
    "table",
    [
        "接続数\tTPM\t\t\n\tEC2\tRDS\n32\t185963\t142304\n48\t266534\t172968\n",
        "\tTPM\t\nclients\tEC2\tRDS\n32\t185963\t142304\n48\t266534\t172968\n",
        "| clients | TPM | |\n|---|---|---|\n| | EC2 | RDS |\n| 32 | 185963 | 142304 |\n| 48 | 266534 | 172968 |\n",
    ],
)
def test_a_table_of_targets_is_a_trial_a_cell(table: str) -> None:
    found = read_document(f"## 測定結果\n- r5.2xlarge (8vCPU)\n\n{table}\nand so on\n").outputs
    assert [(each.target, each.clients, each.tpm) for each in found] == [
        ("EC2", 32, 185963),
        ("RDS", 32, 142304),
        ("EC2", 48, 266534),
        ("RDS", 48, 172968),
    ]
    assert {each.words["host"] for each in found} == {"r5.2xlarge"}


def test_a_table_of_peaks_with_cells_broken_by_spaces() -> None:
    found = read_document(PEAKS).outputs
    assert [(each.scale, each.clients, each.workers, each.tps, each.latency_mean_ms) for each in found] == [
        (100, 26, 26, 423148, 0.123),
        (100, 48, 24, 379866, 0.126),
        (3000, 28, 28, 365974, 0.153),
        (3000, 48, 24, 355882, 0.135),
    ]
    assert {each.target for each in found} == {"Version 9.4"}


def test_outputs_with_prose_between_them_in_any_language() -> None:
    text = f"# 측정\n\n다음과 같다.\n```\n{PGBENCH_11}```\n결론\n\n# Zweiter\n\n{PGBENCH_9_5}\nEnde: 1.021 tps\n"
    document = read_document(text)
    assert [(each.target, each.clients) for each in document.outputs] == [("측정", 64), ("Zweiter", 8)]
    assert [each.text for each in document.unread] == ["Ende: 1.021 tps"]


def test_figures_in_prose_are_outputs_where_the_sentence_is_known_and_unread_otherwise() -> None:
    document = read_document("- 190,000 TPS on PostgreSQL 9.4.4 at scale factor 3,000\nup to 5 tps more\n")
    assert [(each.target, each.scale, each.tps) for each in document.outputs] == [("PostgreSQL 9.4.4", 3000, 190000)]
    assert [(each.line, each.text) for each in document.unread] == [(2, "up to 5 tps more")]


def test_a_cut_output_without_a_rate_is_none() -> None:
    assert read_document(PGBENCH_11.split("tps =", maxsplit=1)[0]).outputs == []


def test_equations_are_worked_out() -> None:
    (claim,) = claims_in("- € 2.03 ((€ 61,179 + (3 x 60 x € 1,800)) / 190,000 TPS) at scale factor 3,000.", 7)
    assert (claim.line, claim.printed, claim.decimals) == (7, 2.03, 2)
    assert claim.computed == pytest.approx(2.027, abs=0.001)


@pytest.mark.parametrize("formula", ["__import__('os')", "2 ** 9999", "1 / 0", "", "a + b", "(1"])
def test_text_that_is_no_formula_is_not_evaluated(formula: str) -> None:
    assert evaluate(formula) is None
