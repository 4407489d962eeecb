"""Tables of figures in documents: shapes, notes, units and numbers; unread lines are listed."""

import pytest

from pgdyno.importers.documents.read_document import read_document
from pgdyno.importers.documents.text_tables import MOST_ROWS
from tests.unit.import_sample import fields, listed, only, output_fields

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
        ("379,6 | 21,07", 379.6, 21.07),
        ("1.234,5 | 6,5", 1234.5, 6.5),
        ("1 234,5 | 6,5", 1234.5, 6.5),
        ("1,234.5 | 6.5", 1234.5, 6.5),
        ("1'234.5 | 6.5 ms", 1234.5, 6.5),
        ("1234.5 tps | 0.0065 s", 1234.5, 6.5),
        ("1,234 | 6500 µs", 1234, 6.5),
    ):
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
        ("TPM: 1.2M", "tpm", 1_200_000),
        ("TPM: 900k", "tpm", 900_000),
        ("TPM: 1.2 million", "tpm", 1_200_000),
        ("TPS: 12,5 k", "tps", 12_500),
        ("TPS (k): 12.5", "tps", 12_500),
        ("TPS (K): 12.5k", "tps", 12_500),
        ("TPS (thousands): 12.5", "tps", 12_500),
        ("TPS in thousands: 12.5", "tps", 12_500),
        ("TPS x1000: 12.5", "tps", 12_500),
        ("TPS (x 1,000): 12.5", "tps", 12_500),
        ("TPS/1000: 12.5", "tps", 12_500),
        ("kTPS: 12.5", "tps", 12_500),
        ("k transactions/s: 12.5", "tps", 12_500),
        ("TPM (millions): 1.2", "tpm", 1_200_000),
        ("NOPM: 50123 /min", "nopm", 50_123),
    ):
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
