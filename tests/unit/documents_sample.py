"""Documents in the formats of published benchmarks, generated from their figures."""

from collections.abc import Sequence
from itertools import groupby

from pgdyno.published import published

Row = dict[str, str | float]

CLAIMS = """\
- € 0.11 (€ 38,364 / 365,974 TPS) on A at scale factor 3,000.
- € 0.08 (€ 38,364 / 492,072 TPS) on B at scale factor 3,000.
- € 0.32 (€ 61,179 / 190,000 TPS) on A at scale factor 3,000
- € 0.17 (€ 61,179 / 360,000 TPS) on C at scale factor 3,000
- € 0.17 ((€ 38,364 + 3 x 2 x € 4,200) / 365,974 TPS) on A at scale factor 3,000.
- € 0.13 ((€ 38,364 + 3 x 2 x € 4,200) / 492,072 TPS) on B at scale factor 3,000.
- € 2.03 ((€ 61,179 + (3 x 60 x € 1,800)) / 190,000 TPS) A at scale factor 3,000.
- € 1.07 ((€ 61,179 + (3 x 60 x € 1,800)) / 360,000 TPS) C at scale factor 3,000.
"""


def pgbench_report() -> str:
    """Returns a heading per host, each with pgbench 11's output for each duration of a trial."""
    parts = []
    for target, rows in groupby(published("graviton-pgbench").rows, key=lambda row: row["target"]):
        parts.append(f"#### {target} ####\n")
        parts += [_pgbench(row) for row in rows]
    return "\n".join(parts)


def _pgbench(row: Row) -> str:
    count, each = int(row["transactions"]), int(row["transactions_per_client"])
    return (
        f"-bash-4.2$ pgbench -U postgres -c 64 -t {each} -M extended -j 64 -P 10 shop\n"
        "transaction type: <builtin: TPC-B (sort of)>\nscaling factor: 100\nquery mode: extended\n"
        "number of clients: 64\nnumber of threads: 64\n"
        f"number of transactions per client: {each}\n"
        f"number of transactions actually processed: {count}/{count}\n"
        f"latency average = {row['latency_mean_ms']:.3f} ms\nlatency stddev = {row['latency_stddev_ms']:.3f} ms\n"
        f"tps = {row['tps']:.6f} (including connections establishing)\n"
        f"tps = {row['tps_excluding_connections']:.6f} (excluding connections establishing)\n"
    )


def statements_report() -> str:
    """Returns the output of pgbench -r for three ranges of a table, with the scale as a variable."""
    parts = []
    for number, row in enumerate(published("hundred-billion").rows, start=1):
        parts.append(
            f"#### {number}. active rows {row['variables.range']}\n"
            "pgbench -M prepared -n -r -P 1 -f ./rw.sql -c 64 -j 64 -T 360 "
            f"-D scale=1000000 -D range={row['variables.range']}\n"
            "transaction type: ./rw.sql\nscaling factor: 1\nquery mode: prepared\nnumber of clients: 64\n"
            "number of threads: 64\nduration: 360 s\n"
            f"number of transactions actually processed: {row['transactions']:.0f}\n"
            f"latency average = {row['latency_mean_ms']:.3f} ms\nlatency stddev = {row['latency_stddev_ms']:.3f} ms\n"
            f"tps = {row['tps']:.6f} (including connections establishing)\n"
            f"tps = {row['tps_excluding_connections']:.6f} (excluding connections establishing)\n"
            "statement latencies in milliseconds:\n"
            "         0.003  \\set aid random_gaussian(1, :range, 10.0)\n"
            "         0.047  BEGIN;\n"
            "         0.193  UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n"
            "         0.144  END;\n"
        )
    return "\n".join(parts)


def peaks_report() -> str:
    """Returns peaks by scale and ratio, with and without connections; a sweep; and prices as equations."""
    rows = published("power8-select-only").rows
    parts = ["5.3 Options\n", "-c clients [2..160]\n", "- Create tmpfs mountpoint size of 50GB.\n"]
    for number, name in enumerate(dict.fromkeys(row["target"] for row in rows if "clients" in row), start=1):
        of_target = [row for row in rows if row["target"] == name]
        parts.append(f"7.{number} {name} results\n")
        parts.append(_peaks(str(name), of_target))
    for target, tps in (("power8-9.4.4", "365,974"), ("power8-9.5beta1", "492,072")):
        parts.append(f"- {tps} TPS on {target} at scale factor 3,000.\n")
    parts.append("8.2 Another machine\n\n")
    parts += [
        f"- {row['tps']:,.0f} TPS on {row['target']} at scale factor 3,000\n" for row in rows if "clients" not in row
    ]
    return "".join(parts) + CLAIMS


def _peaks(name: str, rows: Sequence[Row]) -> str:
    scales = sorted({int(row["scale"]) for row in rows})
    lines = [f"{name}\t" + "".join(f"\tScale {scale:,}\t" for scale in scales), "\t" + "\t1:1\t2:1" * len(scales)]
    for kind, word in (("including", "incl. conn"), ("excluding", "excl. conn")):
        of_kind = [row for row in rows if row["connections"] == kind]
        pairs = [f"{row['clients']:.0f}/{row['workers']:.0f}" for row in of_kind]
        figures = [f"{row['tps']:,.0f}/{row['latency_mean_ms']:.3f}" for row in of_kind]
        lines.append("\t".join([word, "Clients/Threads", *pairs]))
        lines.append("\t".join(["", "TPS/Latency", *figures]))
    return "\n".join(lines) + "\n\n"
