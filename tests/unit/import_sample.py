"""Outputs of tools, and what pgdyno imports of them."""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from pgdyno.audit import Severity, audit
from pgdyno.importers.documents.read_document import read_document
from pgdyno.importers.parsed import Output
from pgdyno.importers.write import ImportResult, import_files
from pgdyno.store import RunData, load_run

SUMMARY = """\
transaction type: <builtin: TPC-B (sort of)>
scaling factor: 10
query mode: simple
number of clients: 8
number of threads: 2
duration: 60 s
number of transactions actually processed: 5980
latency average = 7.613 ms
latency stddev = 2.898 ms
initial connection time = 397.804 ms
tps = 100.955497 (without initial connection time)
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


def import_texts(folder: Path, *texts: str, names: Sequence[str] = (), **options: Any) -> ImportResult:  # noqa: ANN401
    """Imports a file for each of `texts`, by default out.txt, out1.txt and so on."""
    files = [folder / (names[at] if names else f"out{at or ''}.txt") for at in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return import_files(files, folder / "runs", **options)


def imported_run(folder: Path, *texts: str, names: Sequence[str] = (), **options: Any) -> RunData:  # noqa: ANN401
    return load_run(import_texts(folder, *texts, names=names, **options).run)


def only(text: str) -> Output:
    (output,) = read_document(text).outputs
    return output


def output_fields(text: str, names: str) -> list[Any]:
    """Returns these attributes of each output of a document."""
    return fields(read_document(text).outputs, names)


def listed(text: str, names: str = "line") -> list[Any]:
    """Returns these attributes of each line of a document that is not understood."""
    return fields(read_document(text).unread, names)


def fields(found: Iterable[object], names: str) -> list[Any]:
    """Returns these attributes of each, as tuples if there are several."""
    return list(map(attrgetter(*names.split()), found))


def findings(run: RunData) -> dict[str, Severity]:
    """Returns the severities of what the audit finds, by rule."""
    return {finding.rule: finding.severity for finding in audit(run) if finding.checked}
