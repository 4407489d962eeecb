"""Documents that contain outputs of other tools: every output, its figures, its line."""

import pytest

from pgdyno.importers.documents.prose import claims_in, evaluate
from pgdyno.importers.documents.read_document import read_document
from tests.unit.import_sample import PGBENCH_11, PGBENCH_17, SYSBENCH, fields, listed, only, output_fields

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


def test_outputs_of_pgbench_and_sysbench() -> None:
    # colons and words of its own
    found = only(PGBENCH_9_5)
    assert (found.workload, found.scale, found.protocol) == ("tpcb-like", 10, "simple")
    assert (found.clients, found.workers, found.duration_s, found.transactions) == (8, 2, 10, 10214)
    assert (found.latency_mean_ms, found.latency_stddev_ms) == (7.831, 3.105)
    assert (found.tps, found.tps_including_connections) == (1021.902, 1020.731)
    assert fields(found.progress, "tps") == [1021.4]
    # with its command line
    found = only(PGBENCH_11)
    assert (found.line, found.last_line) == (1, 15)
    assert (found.command or "").startswith("bash-4.2$ pgbench -U postgres")
    assert (found.clients, found.workers, found.transactions_per_client) == (64, 64, 5000)
    assert found.printed["tps"] == (15, "tps = 15509.394300 (excluding connections establishing)")
    # with failures and statements
    found = only(PGBENCH_17)
    assert (found.version, found.failed, found.retried, found.retries) == ("17.2", 12, 40, 41)
    assert (found.tps, found.tps_excluding_connections, found.connect_ms) == (1707.812345, 1707.812345, 5.123)
    statements = fields(found.statements, "latency_ms failures retries")
    assert statements == [(0.002, 0, 0), (0.431, 3, 11), (1.804, 9, 30)]
    assert found.statements[2].text == "END;"
    # output without a rate is not a result
    assert read_document(PGBENCH_11.split("tps =", maxsplit=1)[0]).outputs == []
    found = only(SYSBENCH)
    assert (found.workload, found.clients, found.version) == ("oltp-read-write", 16, "1.0.20")
    assert (found.reads, found.writes, found.others, found.errors) == (638652, 182472, 91236, 1)
    assert (found.tps, found.qps, found.duration_s) == (760.09, 15201.71, 60.0155)
    assert (found.latency_min_ms, found.latency_mean_ms, found.latency_max_ms) == (19.55, 21.05, 33.94)
    assert found.percentiles_ms == {95.0: 21.89}
    assert fields(found.progress, "at_s tps p95_ms") == [(10, 751.13, 23.10)]


def test_a_table_is_a_trial_a_row_or_a_cell() -> None:
    found = read_document(SWEEP).outputs
    assert fields(found, "target clients line") == [("host-a-1", 2, 4), ("host-a-1", 4, 5), ("host-b-1", 2, 9)]
    assert (found[0].percentiles_ms, found[0].duration_s) == ({95.0: 20.74}, 60.0095)
    # hammerdb in both wordings
    assert output_fields(HAMMERDB, "clients nopm tpm") == [(5, 50123, 115377), (8, 53210, 123456)]
    for table in (
        "接続数\tTPM\t\t\n\tEC2\tRDS\n32\t185963\t142304\n48\t266534\t172968\n",
        "\tTPM\t\nclients\tEC2\tRDS\n32\t185963\t142304\n48\t266534\t172968\n",
        "| clients | TPM | |\n|---|---|---|\n| | EC2 | RDS |\n| 32 | 185963 | 142304 |\n| 48 | 266534 | 172968 |\n",
    ):
        found = read_document(f"## 測定結果\n- r5.2xlarge (8vCPU)\n\n{table}\nand so on\n").outputs
        assert fields(found, "target clients tpm") == [
            ("EC2", 32, 185963), ("RDS", 32, 142304), ("EC2", 48, 266534), ("RDS", 48, 172968),
        ]  # fmt: skip
        assert {each.words["host"] for each in found} == {"r5.2xlarge"}
    found = read_document(PEAKS).outputs
    assert fields(found, "scale clients workers tps latency_mean_ms") == [
        (100, 26, 26, 423148, 0.123), (100, 48, 24, 379866, 0.126),
        (3000, 28, 28, 365974, 0.153), (3000, 48, 24, 355882, 0.135),
    ]  # fmt: skip
    assert {each.target for each in found} == {"Version 9.4"}


def test_outputs_are_told_from_prose_and_equations_are_worked_out() -> None:
    text = f"# 측정\n\n다음과 같다.\n```\n{PGBENCH_11}```\n결론\n\n# Zweiter\n\n{PGBENCH_9_5}\nEnde: 1.021 tps\n"
    assert output_fields(text, "target clients") == [("측정", 64), ("Zweiter", 8)]
    assert listed(text, "text") == ["Ende: 1.021 tps"]
    # figures are outputs where the sentence is known, and unread otherwise
    text = "- 190,000 TPS on PostgreSQL 9.4.4 at scale factor 3,000\nup to 5 tps more\n"
    assert output_fields(text, "target scale tps") == [("PostgreSQL 9.4.4", 3000, 190000)]
    assert listed(text, "line text") == [(2, "up to 5 tps more")]
    (claim,) = claims_in("- € 2.03 ((€ 61,179 + (3 x 60 x € 1,800)) / 190,000 TPS) at scale factor 3,000.", 7)
    assert (claim.line, claim.printed, claim.decimals) == (7, 2.03, 2)
    assert claim.computed == pytest.approx(2.027, abs=0.001)
    for text in ("__import__('os')", "2 ** 9999", "1 / 0", "", "a + b", "(1"):
        assert evaluate(text) is None, text
