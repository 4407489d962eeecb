"""Tables of figures in documents: shapes, notes, units and numbers; unread lines are listed."""

import pytest

from pgdyno.importers.documents.read_document import read_document
from pgdyno.importers.documents.text_tables import MOST_ROWS
from pgdyno.importers.parsed import Output

ROWS = [(1, 950.5, 1.05), (8, 6100.0, 1.31), (32, 9800.5, 3.27)]


def figures(outputs: list[Output]) -> list[tuple[int | None, float | None, float | None]]:
    return [(each.clients, each.tps, each.latency_mean_ms) for each in outputs]


def lines(pattern: str) -> str:
    return "".join(pattern.format(*row) + "\n" for row in ROWS)


@pytest.mark.parametrize(
    "table",
    [
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
    ],
)
def test_a_row_is_a_trial_whatever_parts_the_columns(table: str) -> None:
    document = read_document(f"# a\n\ntext\n\n{table}\nmore text\n")
    assert figures(document.outputs) == ROWS
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
    head = (
        separator.format("clients", "tps", "latency", "").rstrip()
        + "\n"
        + ("|---|---|---|\n" if "|" in separator else "")
    )
    notes = ["", "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}----- best", "", "(peak)", "<- here"]
    rows = [(number, 100 * number, 1.5) for number in range(1, 6)]
    text = head + "".join(separator.format(*row, note).rstrip() + "\n" for row, note in zip(rows, notes, strict=True))
    document = read_document(text)
    assert figures(document.outputs) == rows
    assert document.unread == []


def test_a_note_within_a_cell_is_none_of_its_figure() -> None:
    text = "| threads | TPS |\n|---|---|\n| 8 | 1,200 (peak) |\n| 16 | ~1,150 ✓ |\n| 32 | 1.1k |\n| 64 | 900* |\n"
    assert [each.tps for each in read_document(text).outputs] == [1200, 1150, 1100, 900]


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        (
            "Results in TPS:\n\n| threads | PG14 | PG15 |\n|---|---|---|\n| 8 | 1200 | 1300 |\n| 16 | 2200 | 2300 |\n",
            "tps",
        ),
        ("| threads (TPS) | PG14 | PG15 |\n|---|---|---|\n| 8 | 1200 | 1300 |\n| 16 | 2200 | 2300 |\n", "tps"),
        ("| threads | PG14 TPS | PG15 TPS |\n|---|---|---|\n| 8 | 1200 | 1300 |\n| 16 | 2200 | 2300 |\n", "tps"),
        ("| threads | PG14 (nopm) | PG15 (nopm) |\n|---|---|---|\n| 8 | 1200 | 1300 |\n| 16 | 2200 | 2300 |\n", "nopm"),
        ("## NOPM\n\nthreads\tPG14\tPG15\n8\t1200\t1300\n16\t2200\t2300\n", "nopm"),
        ("| TPS | 8 clients | 16 clients |\n|---|---|---|\n| PG14 | 1200 | 2200 |\n| PG15 | 1300 | 2300 |\n", "tps"),
    ],
)
def test_columns_may_be_what_was_compared(text: str, unit: str) -> None:
    found = {(each.target, each.clients): getattr(each, unit) for each in read_document(text).outputs}
    assert found == {("PG14", 8): 1200, ("PG15", 8): 1300, ("PG14", 16): 2200, ("PG15", 16): 2300}


def test_figures_without_any_unit_are_taken_as_transactions_a_second_and_say_so() -> None:
    text = "| threads | PG14 | PG15 |\n|---|---|---|\n| 8 | 1200 | 1300 |\n"
    outputs = read_document(text).outputs
    assert [each.tps for each in outputs] == [1200, 1300]
    assert {each.words["unit"] for each in outputs} == {"not printed: taken as transactions a second"}


def test_possible_latencies_are_listed_and_not_read_as_throughput() -> None:
    text = "Latency in ms\n\n| threads | PG14 | PG15 |\n|---|---|---|\n| 8 | 120.5 | 130.5 |\n| 16 | 220.5 | 230.5 |\n"
    document = read_document(text)
    assert document.outputs == []
    assert [each.line for each in document.unread] == [1, 5, 6][1:]


def test_metrics_may_be_rows() -> None:
    text = (
        "| metric | PG14 | PG15 |\n|---|---|---|\n| clients | 8 | 8 |\n"
        "| TPS | 1200 | 1300 |\n| Latency avg (ms) | 6.6 | 6.1 |\n"
    )
    outputs = read_document(text).outputs
    assert [(each.target, each.clients, each.tps, each.latency_mean_ms) for each in outputs] == [
        ("PG14", 8, 1200, 6.6),
        ("PG15", 8, 1300, 6.1),
    ]


def test_rows_that_cannot_be_read_are_listed_and_the_table_goes_on() -> None:
    text = (
        "| clients | tps | latency |\n|---|---|---|\n| 1 | 950 | 1.0 |\n"
        "| 8 | ~10,000-11,000 | 1.3 |\n| 32 | 9800 | 3.2 |\n"
    )
    document = read_document(text)
    assert [each.clients for each in document.outputs] == [1, 32]
    assert [each.line for each in document.unread] == [4]
    sweep = "thc reads writes tps p95\n 2 10 20 97.98 20.74\n 4 1x 20 193.81 21.1\n 8 12 22 380.0 21.2  <--- best\n"
    document = read_document(sweep)
    assert [(each.clients, each.tps) for each in document.outputs] == [(2, 97.98), (4, 193.81), (8, 380.0)]
    assert [each.line for each in document.unread] == [3]


@pytest.mark.parametrize(
    "line",
    [
        "we saw 12,000 TPS",
        "we saw 1.2M TPM",
        "latency: 3.2 ms at 8",
        "NOPM 50123",
        "TPM = 115377",
        "5000 transactions",
        "latency 12",
    ],
)
def test_a_line_with_a_figure_that_nothing_reads_is_listed(line: str) -> None:
    assert [each.text for each in read_document(f"text\n{line}\n").unread] == [line]


@pytest.mark.parametrize(
    ("cells", "tps", "latency"),
    [
        (("379,6", "21,07"), 379.6, 21.07),
        (("1.234,5", "6,5"), 1234.5, 6.5),
        (("1 234,5", "6,5"), 1234.5, 6.5),
        (("1,234.5", "6.5"), 1234.5, 6.5),
        (("1'234.5", "6.5 ms"), 1234.5, 6.5),
        (("1234.5 tps", "0.0065 s"), 1234.5, 6.5),
        (("1,234", "6500 µs"), 1234, 6.5),
    ],
)
def test_numbers_are_read_as_they_are_written(cells: tuple[str, str], tps: float, latency: float) -> None:
    (found,) = read_document(
        f"| clients | tps | latency (ms) |\n|---|---|---|\n| 8 | {cells[0]} | {cells[1]} |\n"
    ).outputs
    assert found.tps == tps
    assert found.latency_mean_ms == pytest.approx(latency)


def test_dots_are_for_thousands_where_clients_and_latency_say_so() -> None:
    text = "| clients | tps | latency ms |\n|---|---|---|\n| 1 | 1.436 | 0.70 |\n| 4 | 5.082 | 0.79 |\n"
    assert [each.tps for each in read_document(text).outputs] == [1436, 5082]
    slow = "| clients | tps | latency ms |\n|---|---|---|\n| 1 | 1.436 | 696.4 |\n| 4 | 5.082 | 787.1 |\n"
    assert [each.tps for each in read_document(slow).outputs] == [1.436, 5.082]


def test_a_table_of_settings_is_no_table_of_figures() -> None:
    text = (
        "| setting | EC2 | RDS |\n|---|---|---|\n| max_connections | 500 | 5000 |\n| checkpoint_timeout | 60 | 3600 |\n"
    )
    document = read_document(text)
    assert (document.outputs, document.unread) == ([], [])


@pytest.mark.parametrize(
    "table",
    [
        "Time (seconds),Throughput (requests/second),Average Latency (millisecond)\n0,1002.6,8.8\n5,1009.9,8.4\n",
        "Time (seconds),Requests,Throughput (requests/second)\n0,1000,1002.6\n1,1010,1009.9\n",
        "| time | clients | TPS |\n|---|---|---|\n| 12:00:01 | 8 | 1002 |\n| 12:00:02 | 8 | 1003 |\n",
        "| elapsed_s | PG14 TPS | PG15 TPS |\n|---|---|---|\n| 1 | 1002 | 1003 |\n| 2 | 1003 | 1004 |\n",
        "| server | second | TPS |\n|---|---|---|\n| a | 1 | 1002 |\n| a | 2 | 1003 |\n| b | 1 | 1004 |\n",
        "| second | 1 | 2 | 3 |\n|---|---|---|---|\n| TPS | 1002 | 1003 | 1004 |\n",
    ],
)
def test_seconds_of_a_run_are_no_trials(table: str) -> None:
    document = read_document(f"text\n\n{table}")
    assert document.outputs == []
    (unread,) = document.unread
    assert unread.line == 3
    assert "the rows are moments of one run (column '" in unread.text
    assert "import its summary" in unread.text


@pytest.mark.parametrize(
    "table",
    [
        "| time (s) | clients | TPS |\n|---|---|---|\n| 60.1 | 8 | 1002 |\n| 60.2 | 8 | 1003 |\n",
        "| clients | time | TPS |\n|---|---|---|\n| 8 | 10.2 s | 1002 |\n| 16 | 12.5 s | 1003 |\n",
        "| run | time | TPS |\n|---|---|---|\n| 1 | 10.2 s | 1002 |\n| 2 | 12.5 s | 1003 |\n",
        "| server | time | TPS |\n|---|---|---|\n| a | 12:00 | 1002 |\n| b | 13:00 | 1003 |\n",
    ],
)
def test_runs_with_their_lengths_or_times_are_trials(table: str) -> None:
    document = read_document(f"text\n\n{table}")
    assert ([each.tps for each in document.outputs], document.unread) == ([1002, 1003], [])


@pytest.mark.parametrize(
    ("head", "cell", "field", "value"),
    [
        ("TPM", "1.2M", "tpm", 1_200_000),
        ("TPM", "900k", "tpm", 900_000),
        ("TPM", "1.2 million", "tpm", 1_200_000),
        ("TPS", "12,5 k", "tps", 12_500),
        ("TPS (k)", "12.5", "tps", 12_500),
        ("TPS (K)", "12.5k", "tps", 12_500),
        ("TPS (thousands)", "12.5", "tps", 12_500),
        ("TPS in thousands", "12.5", "tps", 12_500),
        ("TPS x1000", "12.5", "tps", 12_500),
        ("TPS (x 1,000)", "12.5", "tps", 12_500),
        ("TPS/1000", "12.5", "tps", 12_500),
        ("kTPS", "12.5", "tps", 12_500),
        ("k transactions/s", "12.5", "tps", 12_500),
        ("TPM (millions)", "1.2", "tpm", 1_200_000),
        ("NOPM", "50123 /min", "nopm", 50_123),
    ],
)
def test_thousands_and_millions_of_cells_and_headings_count(head: str, cell: str, field: str, value: float) -> None:
    (found,) = read_document(f"| target | clients | {head} |\n|---|---|---|\n| a | 8 | {cell} |\n").outputs
    assert (found.target, getattr(found, field)) == ("a", value)


def test_the_heading_above_compared_columns_may_say_thousands() -> None:
    text = "TPS (thousands)\n\n| clients | PG14 | PG15 |\n|---|---|---|\n| 8 | 12.5 | 13k |\n"
    assert [(each.target, each.tps) for each in read_document(text).outputs] == [("PG14", 12_500), ("PG15", 13_000)]


@pytest.mark.parametrize("cell", ["1200 tpm", "1200 ms", "1200 clients", "5 min"])
def test_a_rate_with_a_unit_of_something_else_is_listed(cell: str) -> None:
    document = read_document(f"| target | clients | TPS |\n|---|---|---|\n| a | 8 | {cell} |\n")
    assert (document.outputs, [each.line for each in document.unread]) == ([], [3])


@pytest.mark.parametrize(
    "head",
    ["TPS/$", "TPS/vCPU", "TPS per client", "TPS per dollar", "Cost per TPS", "Failed TPS", "TPS (errors)",
     "tp (req/s) scaled"],
)  # fmt: skip
def test_rates_per_something_and_of_failures_are_no_throughput(head: str) -> None:
    text = f"| target | clients | TPS | {head} |\n|---|---|---|---|\n| a | 8 | 1200 | 30.5 |\n"
    (found,) = read_document(text).outputs
    assert (found.target, found.tps) == ("a", 1200)
    alone = read_document(f"| target | clients | {head} |\n|---|---|---|\n| a | 8 | 30.5 |\n")
    assert (alone.outputs, [each.line for each in alone.unread]) == ([], [3])


@pytest.mark.parametrize(
    ("head", "cell"),
    [
        ("Latency (ns)", "6500000"),
        ("Latency (usec)", "6500"),
        ("Latency (microsec)", "6500"),
        ("Average Latency (microsecond)", "6500"),
        ("Average Latency (millisecond)", "6.5"),
        ("Latency", "6500 usec"),
        ("Latency", "6500000 ns"),
    ],
)
def test_latencies_have_many_units(head: str, cell: str) -> None:
    (found,) = read_document(f"| clients | tps | {head} |\n|---|---|---|\n| 8 | 1200 | {cell} |\n").outputs
    assert found.latency_mean_ms == pytest.approx(6.5)


@pytest.mark.parametrize(("head", "cell"), [("Latency", "65 ticks/s"), ("Latency", "3.2-3.5"), ("p95", "5 min")])
def test_a_latency_that_is_not_read_is_listed(head: str, cell: str) -> None:
    document = read_document(f"| clients | tps | {head} |\n|---|---|---|\n| 8 | 1200 | {cell} |\n")
    assert [each.tps for each in document.outputs] == [1200]
    assert [each.text for each in document.unread] == [f"figure under '{head}' not understood: {cell}"]


def test_a_comma_is_decimal_where_semicolons_separate_cells() -> None:
    (found,) = read_document("server;clients;TPS;avg latency (ms)\npg17;8;456,789;17,514\n").outputs
    assert (found.tps, found.latency_mean_ms) == (456.789, 17.514)
    (found,) = read_document("server;clients;TPS;avg latency (ms)\npg17;8;456,789;17.5\n").outputs
    assert (found.tps, found.latency_mean_ms) == (456_789, 17.5)


def test_a_cell_of_a_compared_column_that_is_not_read_is_listed() -> None:
    text = "| threads (TPS) | PG14 | PG15 |\n|---|---|---|\n| 8 | 1200 | 1300 tpm |\n| 16 | 2200 | - |\n"
    document = read_document(text)
    assert [each.tps for each in document.outputs] == [1200, 2200]
    assert [each.line for each in document.unread] == [3]
