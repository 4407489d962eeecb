"""Documents that contain outputs and tables of other tools: every output, its figures, its line, and no password."""

import re

import pytest

from pgdyno.importers.documents.passwords import connection_options, server_parts, without_passwords
from pgdyno.importers.documents.prose import claims_in, evaluate
from pgdyno.importers.documents.read_document import read_document
from pgdyno.importers.documents.text_tables import MOST_ROWS
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


ROWS = [(1, 950.5, 1.05), (8, 6100.0, 1.31), (32, 9800.5, 3.27)]
FIGURES = "clients tps latency_mean_ms"


def lines(pattern: str) -> str:
    return "".join(pattern.format(*row) + "\n" for row in ROWS)


def bars(head: str, *rows: str) -> str:
    """Returns a table of Markdown; cells are separated by bars."""
    return "".join(f"| {line} |\n" for line in (head, "|".join("---" for _ in head.split("|")), *rows))


def test_a_row_is_a_trial_whatever_parts_the_columns() -> None:
    for table in (
        "| clients | tps | latency |\n|---|---|---|\n" + lines("| {} | {} | {} |"),
        "| Clients | TPS | Latency (ms) |\n|:--|--:|--:|\n" + lines("| **{}** | {} | {} ms |"),
        " clients |  tps   | latency avg \n---------+--------+-------------\n" + lines("  {} | {} | {}") + "(3 rows)\n",
        "+---------+-----+---------+\n| clients | tps | latency |\n+=========+=====+=========+\n"
        + lines("| {} | {} | {} |"),
        "clients tps latency\n" + lines("{} {} {}"),
        "clients    tps     latency_ms\n-------  -------  ----------\n" + lines("{:>7}  {:>7}  {:>7}"),
        "clients\ttps\tlatency\n" + lines("{}\t{}\t{}"),
        "clients,tps,lat_avg_ms\n" + lines("{},{},{}"),
        "#clients;TPS;avg latency\n" + lines("{};{};{}"),
    ):
        document = read_document(f"# a\n\ntext\n\n{table}\nmore text\n")
        assert fields(document.outputs, FIGURES) == ROWS
        assert document.unread == []


def test_rows_beyond_the_limit_of_a_table_are_listed() -> None:
    heads = ["| server | tps |\n|---|---|\n", "server  clients  tps\n"]
    rows = ["| t{at} | {at} |\n", "t{at}  4  {at}\n"]
    for head, row in zip(heads, rows, strict=True):
        document = read_document(head + "".join(row.format(at=at) for at in range(1, MOST_ROWS + 3)))
        assert len(document.outputs) == MOST_ROWS
        line = MOST_ROWS + head.count("\n") + 1
        assert (line, True) in [(each.line, "more than 2,000 rows" in each.text) for each in document.unread]
        whole = read_document(head + "".join(row.format(at=at) for at in range(1, MOST_ROWS + 1)))
        assert not [each for each in whole.unread if "2,000 rows" in each.text]


@pytest.mark.parametrize("separator", ["| {} | {} | {} |{}", "{}\t{}\t{}\t{}", "{}  {}  {}  {}"])
def test_a_note_ends_no_table(separator: str) -> None:
    head = separator.format("clients", "tps", "latency", "").rstrip() + "\n"
    notes = ["", "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}----- best", "", "(peak)", "<- here"]
    rows = [(number, 100 * number, 1.5) for number in range(1, 6)]
    text = head + ("|---|---|---|\n" if "|" in separator else "")
    text += "".join(separator.format(*row, note).rstrip() + "\n" for row, note in zip(rows, notes, strict=True))
    document = read_document(text)
    assert fields(document.outputs, FIGURES) == rows
    assert document.unread == []


COMPARED = ("8 | 1200 | 1300", "16 | 2200 | 2300")


def test_columns_may_be_what_was_compared() -> None:
    for text, unit in (
        ("Results in TPS:\n\n" + bars("threads | PG14 | PG15", *COMPARED), "tps"),
        (bars("threads (TPS) | PG14 | PG15", *COMPARED), "tps"),
        (bars("threads | PG14 TPS | PG15 TPS", *COMPARED), "tps"),
        (bars("threads | PG14 (nopm) | PG15 (nopm)", *COMPARED), "nopm"),
        ("## NOPM\n\nthreads\tPG14\tPG15\n8\t1200\t1300\n16\t2200\t2300\n", "nopm"),
        (bars("TPS | 8 clients | 16 clients", "PG14 | 1200 | 2200", "PG15 | 1300 | 2300"), "tps"),
    ):
        found = {(each.target, each.clients): getattr(each, unit) for each in read_document(text).outputs}
        assert found == {("PG14", 8): 1200, ("PG15", 8): 1300, ("PG14", 16): 2200, ("PG15", 16): 2300}


def test_figures_of_a_table_and_lines_with_a_figure_that_nothing_reads() -> None:
    # a note within a cell is not part of the figure
    text = bars("threads | TPS", "8 | 1,200 (peak)", "16 | ~1,150 ✓", "32 | 1.1k", "64 | 900*")
    assert output_fields(text, "tps") == [1200, 1150, 1100, 900]
    # those without any unit are taken as transactions a second, and say so
    said = {"unit": "not printed: taken as transactions a second"}
    assert output_fields(bars("threads | PG14 | PG15", "8 | 1200 | 1300"), "tps words") == [(1200, said), (1300, said)]
    # possible latencies are listed, and not read as throughput
    text = "Latency in ms\n\n" + bars("threads | PG14 | PG15", "8 | 120.5 | 130.5", "16 | 220.5 | 230.5")
    assert (output_fields(text, "line"), listed(text)) == ([], [5, 6])
    # metrics may be rows
    text = bars("metric | PG14 | PG15", "clients | 8 | 8", "TPS | 1200 | 1300", "Latency avg (ms) | 6.6 | 6.1")
    assert output_fields(text, f"target {FIGURES}") == [("PG14", 8, 1200, 6.6), ("PG15", 8, 1300, 6.1)]
    # rows that cannot be read are listed, and the table goes on
    text = bars("clients | tps | latency", "1 | 950 | 1.0", "8 | ~10,000-11,000 | 1.3", "32 | 9800 | 3.2")
    assert (output_fields(text, "clients"), listed(text)) == ([1, 32], [4])
    text = "thc reads writes tps p95\n 2 10 20 97.98 20.74\n 4 1x 20 193.81 21.1\n 8 12 22 380.0 21.2  <--- best\n"
    assert (output_fields(text, "clients tps"), listed(text)) == ([(2, 97.98), (4, 193.81), (8, 380.0)], [3])
    # a cell of a compared column that is not read is listed
    text = bars("threads (TPS) | PG14 | PG15", "8 | 1200 | 1300 tpm", "16 | 2200 | -")
    assert (output_fields(text, "tps"), listed(text)) == ([1200, 2200], [3])
    # a table of settings has no measured figures
    text = bars("setting | EC2 | RDS", "max_connections | 500 | 5000", "checkpoint_timeout | 60 | 3600")
    assert (output_fields(text, "line"), listed(text)) == ([], [])
    # the heading above compared columns may say thousands
    text = "TPS (thousands)\n\n" + bars("clients | PG14 | PG15", "8 | 12.5 | 13k")
    assert output_fields(text, "target tps") == [("PG14", 12_500), ("PG15", 13_000)]
    # a line with a figure that nothing reads is listed
    for line in (
        "we saw 12,000 TPS", "we saw 1.2M TPM", "latency: 3.2 ms at 8", "NOPM 50123", "TPM = 115377",
        "5000 transactions", "latency 12",
    ):  # fmt: skip
        assert listed(f"text\n{line}\n", "text") == [line]


def test_numbers_are_read_as_they_are_written_with_the_decimal_sign_of_their_table() -> None:
    for cells, tps, latency in (
        ("379,6 | 21,07", 379.6, 21.07), ("1.234,5 | 6,5", 1234.5, 6.5), ("1 234,5 | 6,5", 1234.5, 6.5),
        ("1,234.5 | 6.5", 1234.5, 6.5), ("1'234.5 | 6.5 ms", 1234.5, 6.5), ("1234.5 tps | 0.0065 s", 1234.5, 6.5),
        ("1,234 | 6500 µs", 1234, 6.5),
    ):  # fmt: skip
        found = only(bars("clients | tps | latency (ms)", f"8 | {cells}"))
        assert found.tps == tps
        assert found.latency_mean_ms == pytest.approx(latency)
    # dots are for thousands where clients and latency say so
    for latencies, rates in ((("0.70", "0.79"), [1436, 5082]), (("696.4", "787.1"), [1.436, 5.082])):
        text = bars("clients | tps | latency ms", f"1 | 1.436 | {latencies[0]}", f"4 | 5.082 | {latencies[1]}")
        assert output_fields(text, "tps") == rates
    # a comma is decimal where semicolons separate cells
    for words, figures in (("17,514", (456.789, 17.514)), ("17.5", (456_789, 17.5))):
        text = f"server;clients;TPS;avg latency (ms)\npg17;8;456,789;{words}\n"
        assert output_fields(text, "tps latency_mean_ms") == [figures]


def test_seconds_of_a_run_are_no_trials_but_lengths_and_times_of_runs_may_be_columns() -> None:
    for table in (
        "Time (seconds),Throughput (requests/second),Average Latency (millisecond)\n0,1002.6,8.8\n5,1009.9,8.4\n",
        "Time (seconds),Requests,Throughput (requests/second)\n0,1000,1002.6\n1,1010,1009.9\n",
        bars("time | clients | TPS", "12:00:01 | 8 | 1002", "12:00:02 | 8 | 1003"),
        bars("elapsed_s | PG14 TPS | PG15 TPS", "1 | 1002 | 1003", "2 | 1003 | 1004"),
        bars("server | second | TPS", "a | 1 | 1002", "a | 2 | 1003", "b | 1 | 1004"),
        bars("second | 1 | 2 | 3", "TPS | 1002 | 1003 | 1004"),
    ):
        document = read_document(f"text\n\n{table}")
        assert document.outputs == []
        (unread,) = document.unread
        assert unread.line == 3
        assert "the rows are moments of one run (column '" in unread.text
        assert "import its summary" in unread.text
    for text in (
        bars("time (s) | clients | TPS", "60.1 | 8 | 1002", "60.2 | 8 | 1003"),
        bars("clients | time | TPS", "8 | 10.2 s | 1002", "16 | 12.5 s | 1003"),
        bars("run | time | TPS", "1 | 10.2 s | 1002", "2 | 12.5 s | 1003"),
        bars("server | time | TPS", "a | 12:00 | 1002", "b | 13:00 | 1003"),
    ):
        assert (output_fields(f"text\n\n{text}", "tps"), listed(f"text\n\n{text}")) == ([1002, 1003], [])


def test_thousands_and_millions_count_and_latencies_have_many_units() -> None:
    for cells, field, value in (
        ("TPM: 1.2M", "tpm", 1_200_000), ("TPM: 900k", "tpm", 900_000), ("TPM: 1.2 million", "tpm", 1_200_000),
        ("TPS: 12,5 k", "tps", 12_500), ("TPS (k): 12.5", "tps", 12_500), ("TPS (K): 12.5k", "tps", 12_500),
        ("TPS (thousands): 12.5", "tps", 12_500), ("TPS in thousands: 12.5", "tps", 12_500),
        ("TPS x1000: 12.5", "tps", 12_500), ("TPS (x 1,000): 12.5", "tps", 12_500), ("TPS/1000: 12.5", "tps", 12_500),
        ("kTPS: 12.5", "tps", 12_500), ("k transactions/s: 12.5", "tps", 12_500),
        ("TPM (millions): 1.2", "tpm", 1_200_000), ("NOPM: 50123 /min", "nopm", 50_123),
    ):  # fmt: skip
        head, _, cell = cells.partition(": ")
        assert fields([only(bars(f"target | clients | {head}", f"a | 8 | {cell}"))], f"target {field}") == [
            ("a", value)
        ]
    for cells in (
        "(ns): 6500000", "(usec): 6500", "(microsec): 6500", "(microsecond): 6500", "(millisecond): 6.5",
        ": 6500 usec", ": 6500000 ns",
    ):  # fmt: skip
        unit, _, cell = cells.partition(": ")
        for head in ("Latency", "Average Latency"):
            found = only(bars(f"clients | tps | {head} {unit}".strip(), f"8 | 1200 | {cell}"))
            assert found.latency_mean_ms == pytest.approx(6.5), cells


def test_figures_with_a_unit_of_something_else_are_listed() -> None:
    for cell in ("1200 tpm", "1200 ms", "1200 clients", "5 min"):
        text = bars("target | clients | TPS", f"a | 8 | {cell}")
        assert (output_fields(text, "line"), listed(text)) == ([], [3]), cell
    for head in (
        "TPS/$", "TPS/vCPU", "TPS per client", "TPS per dollar", "Cost per TPS", "Failed TPS", "TPS (errors)",
        "tp (req/s) scaled",
    ):  # fmt: skip
        assert output_fields(bars(f"target | clients | TPS | {head}", "a | 8 | 1200 | 30.5"), "target tps") == [
            ("a", 1200)
        ]
        alone = bars(f"target | clients | {head}", "a | 8 | 30.5")
        assert (output_fields(alone, "line"), listed(alone)) == ([], [3]), head
    for head, cell in (("Latency", "65 ticks/s"), ("Latency", "3.2-3.5"), ("p95", "5 min")):
        text = bars(f"clients | tps | {head}", f"8 | 1200 | {cell}")
        assert output_fields(text, "tps") == [1200]
        assert listed(text, "text") == [f"figure under '{head}' not understood: {cell}"]


CASES = r"""
sysbench oltp_read_only --pgsql-password=sEcret --threads=8 run
sysbench oltp_read_only --pgsql-password='sEcret sEcret' --threads=8 run
sysbench oltp_read_only "--pgsql-password=sEcret sEcret" --threads=8 run
sysbench oltp_read_only "--pgsql-password=a\"sEcret sEcret" run
sysbench --pgsql-password 'sEcret' --threads=8 run
sysbench --pgsql-password=sE'cret sEcret'sEcret --mysql-password='it'"'"'sEcret' run
'--pgsql-password=it'"'"'sEcret' run
PGPASSWORD=sEcret pgbench -c 8 bench
export PGPASSWORD='sEcret sEcret'
set -x PGPASSWORD sEcret
setenv PGPASSWORD sEcret
$env:PGPASSWORD = "sEcret sEcret"
docker exec -e "PGPASSWORD=sEcret" pg pgbench -c 8 -f "x.sql" bench
sshpass -p sEcret ssh root@h pgbench -c 8
pgbench -c 8 -d "host=h password=sEcret dbname=b" -f "x y.sql"
pgbench -c 8 -d "host=h dbname=b password=sEcret" -f "x y.sql"
pgbench -c 8 -d "host=h password='sEcret sEcret' dbname=b"
pgbench -c 8 "host=h password = 'it\'sEcret sEcret' dbname=b"
pgbench -c 8 "host=h password=it\\'sEcret dbname=b"
pgbench -c 8 "host=h password='sEcret sEcret
--pgsql-password='sEcret sEcret\
pgbench -c 8 postgresql://u:sEcret@h1:5432/db
pgbench -c 8 'postgresql://u:sE%40cret@sEcret@h1/db?sslmode=require'
pgbench -c 8 postgresql://u:a/sEcret@h1/db
pgbench -c 8 postgresql://u@h1/db?password=sEcret&sslmode=require
bash -c "pgbench -d \"host=h password=sEcret\" -c 8"
bash -c "pgbench -d \"host=h password='sEcret sEcret' dbname=b\""
SELECT dblink('host=h password=sEcret')
ALTER ROLE b PASSWORD 'it''sEcret'
CREATE USER b PASSWORD E'it\'sEcret'
diset tpcc pg_superuserpass sEcret
diset tpcc pg_pass {sEcret sEcret}
diset connection pg_pass "sEcret sEcret" ;# x
set password "sEcret sEcret" ;# Postgres password
Changed tpcc:pg_superuserpass from sEcret sEcret to sEcret for PostgreSQL
Value sEcret for tpcc:pg_pass is the same as existing value sEcret, no change made
 pg_superuserpass = sEcret
tpcc {pg_count_ware 40 pg_pass sEcret pg_num_vu 4 pg_superuserpass {a {sEcret} b}}
<password>sEcret sEcret</password>
<url>jdbc:postgresql://h/db?user=u&amp;password=sEcret&amp;ssl=true</url>
"url": "jdbc:postgresql://h/db?user=u&password=sEcret&ssl=true"
{"password": "sE\"cret sEcret", "tps": 5}
:password => 'sEcret',
password: sEcret
ALTER USER u WITH ENCRYPTED PASSWORD $$sE cret$$; -- 100 tps
ALTER ROLE u PASSWORD $q$sE$$cret$q$ LOGIN
psql -c "ALTER USER u PASSWORD \\$\\$sE cret\\$\\$"
CREATE ROLE u PASSWORD $$sE cret
CREATE ROLE u PASSWORD U&'sE cret'
OPTIONS (user 'u', password = $$sE cret$$)
""".strip("\n").splitlines()


def test_passwords_are_removed_from_a_line() -> None:
    for line in CASES:
        shown = without_passwords(line)
        assert not re.search(r"sE|cret", shown)
        assert "***" in shown
        assert without_passwords(shown) == shown
    (unread,) = read_document("PGPASSWORD=sEcret " + "x" * 70_000).unread
    assert "beginning" in unread.parameters
    assert "sEcret" not in unread.text


def test_what_surrounds_a_password_is_kept() -> None:
    for line, shown in (
        ('pgbench -d "host=h oauth_client_secret=xyz"', 'pgbench -d "host=h oauth_client_secret=***"'),
        ("sysbench --pgsql-password=x --threads=8 run", "sysbench --pgsql-password=*** --threads=8 run"),
        ('pgbench -d "host=h password=x" -f "y"', 'pgbench -d "host=h password=***" -f "y"'),
        ("pgbench -d \"host=h password='x y' port=1\"", "pgbench -d \"host=h password='***' port=1\""),
        ("pgbench postgresql://u:x@h1:5432/db", "pgbench postgresql://u:***@h1:5432/db"),
        ("pgbench postgresql://h/db?password=x&port=1", "pgbench postgresql://h/db?password=***&port=1"),
        ("ALTER ROLE u PASSWORD $$x y$$ LOGIN", "ALTER ROLE u PASSWORD *** LOGIN"),
        ('{"password": "x", "tps": 5}', '{"password": "***", "tps": 5}'),
        ("{pg_pass x pg_count_ware 40}", "{pg_pass *** pg_count_ware 40}"),
        ("{pg_count_ware 40 pg_pass x}", "{pg_count_ware 40 pg_pass ***}"),
    ):
        assert without_passwords(line) == shown
    for line in (
        "Password:", "Password for user postgres:", "sysbench --pgsql-password= run", "sysbench --pgsql-password run",
        "PGPASSWORD= pgbench -c 8", "psql --password -h x", "password_encryption = scram-sha-256, 100 tps",
        "PGPASSFILE=/home/x/.pgpass", "| user | password | tps |", "pass 1: 3400 tps", "bypass = on",
        "postgresql://h1:5432,h2:5433/db?user=a@b", '{"password": null, "tps": 5}', "ALTER ROLE u PASSWORD $1",
    ):  # fmt: skip
        assert without_passwords(line) == line


def test_the_time_grows_with_the_length_of_a_line() -> None:
    parts = [
        "password $$", "password $a", "://a:", "://:", "password=", "'password='", '"--password=', "--password ",
        "password=\\", "passwd\\'", "_pass ", "x_pass {", "&password=", "<password>", "Value x for ", "Changed ",
        "set password ", "password=a'b", "password='",
    ]  # fmt: skip
    for part in parts:
        # a time by the square of the length would be most of an hour
        assert without_passwords("password=" + part * (160_000 // len(part))).startswith("password=")


def test_of_a_connection_string_the_server_and_options_of_the_load_are_kept() -> None:
    for text, parts in (
        ("bench", {"d": "bench"}),
        ("postgresql://u:x@h1:5432/db?sslmode=require", {"h": "h1:5432", "d": "db"}),
        ("postgres://u@h1,h2/db", {"h": "h1,h2", "d": "db"}),
        ("postgresql:///db?host=/tmp&port=5433&password=x", {"h": "/tmp", "p": "5433", "d": "db"}),
        ("postgresql://h1", {"h": "h1"}),
        ("host=h1 port = 5433 user=u password='x y' dbname='my db'", {"h": "h1", "p": "5433", "d": "my db"}),
        ("hostaddr=10.0.0.1 host=h1 sslmode=disable", {"h": "h1"}),
        ("service=fast password=x", {"h": "fast"}),
        ("user=u password=x", {}),
    ):
        assert server_parts(text) == parts
    for text, options in (
        ("bench", []),
        ("postgresql://u:x@h1/db?password=x&sslmode=require&options=-c%20a%3Db", ["options=-c a=b", "sslmode=require"]),
        ("host=h user=u password='x y' options='-c a=b' application_name=t", ["options=-c a=b"]),
    ):
        assert connection_options(text) == options
