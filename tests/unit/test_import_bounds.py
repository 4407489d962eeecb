"""Lines, fields and files are limited, with errors that name them; reading takes time in proportion to the length."""

import gc
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pgdyno.errors import StoreError
from pgdyno.importers import sources
from pgdyno.importers.csv_tables import is_table
from pgdyno.importers.documents.blocks import LONGEST_LINE
from pgdyno.importers.documents.read_document import read_document
from pgdyno.importers.documents.repeats import variants
from pgdyno.importers.hammerdb import HammerdbParser
from pgdyno.importers.parsed import Output, number
from pgdyno.importers.write import import_files, keep_files_apart
from pgdyno.records import ImportedFile

pytestmark = pytest.mark.slow

RESULT = "tps = 100.5 (without initial connection time)\n"


def refusal(place: Path, into: Path) -> str:
    with pytest.raises(StoreError) as caught:
        import_files([place], into)
    assert not (into / "runs").exists()
    return f"{caught.value} {caught.value.hint}"


def test_what_is_no_text_of_a_reasonable_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, pipe, linked, binary, large = (tmp_path / name for name in ("runs", "pipe", "linked", "x.xlsx", "big.txt"))
    os.mkfifo(pipe)
    linked.symlink_to(pipe)
    binary.write_bytes(b"PK\x03\x04" + bytes(500))
    large.write_bytes(b"x\n" * (1 << 20))
    monkeypatch.setattr(sources, "LARGEST_DOCUMENT", 1 << 20)
    for place, said in (
        (pipe, f"cannot read {pipe}: it is a named pipe"),
        (Path("/dev/zero"), "cannot read /dev/zero: it is a device"),
        (tmp_path, "it is a folder"),
        (linked, "it is a named pipe"),
        (large, "big.txt: it is larger than 1 MiB"),
        (binary, "x.xlsx: it is not text"),
    ):
        assert said in refusal(place, runs)


def test_lines_and_fields_that_are_too_long_are_refused_or_listed(tmp_path: Path) -> None:
    for head in ("target,clients,tps\n", "clients,tps,latency\n"):
        (tmp_path / "t.csv").write_text(f'{head}a,1,"{"x" * 140_000}\n', encoding="utf-8")
        said = refusal(tmp_path / "t.csv", tmp_path / "runs")
        assert "t.csv" in said
        assert "line 2: a field of more than 131,072 characters" in said or "a line of 140," in said
    assert not is_table("tps," + "x" * 200_000, {})
    document = read_document(f"{'7' * (LONGEST_LINE + 1)} tps\n{RESULT}")
    assert [each.tps for each in document.outputs] == [100.5]
    (unread,) = document.unread
    assert unread.line == 1
    assert unread.text.startswith("a line of 65,541 characters, longer than the limit of 65,536: 7777")


def test_numbers_have_one_meaning_or_are_refused() -> None:
    for text, value in (("379,6", 379.6), ("1.234,5", 1234.5), ("0,123", 0.123), ("12,3456", 12.3456)):
        assert number(text) == value
    for text in ("1,23,4", "1..2", "9" * 41, "1e400", "", "-", "٣", "12,"):
        with pytest.raises(ValueError, match="is not a number"):
            number(text)


def test_figures_that_make_no_sense_crash_nothing() -> None:
    for text in (
        "Scale 1\tScale 1\tScale 3\t\n\t1:1\t2:1\nincl.\tC/T\t26/26\t48/24\n\tTPS\t379,6/0,12\t1,2,3/0.1\n",
        "- 1,2,3 TPS on x at scale factor 3,,\n",
        "thc reads writes tps p95\n 2 379,6 20 97,98 20,74\n",
        "| clients | tps |\n|---|---|\n| 99999999999999999999 | 1,2,3 |\n| 8 | 379,6 |\n",
        "transaction type: x\nnumber of clients: 8,5\nlatency average = ms\ntps = 379,6 (excluding)\n",
        "progress: 1.2.3 s, 4 tps, lat NaN ms stddev NaN\n",
        "SQL statistics:\n transactions: 1 (2.3.4 per sec.)\n total time: s\n min: x\n",
        "SQL statistics:\n transactions: 1 (2.3 per sec.)\n total time: soon\n min: x\n read: 1,2,3\n",
        '{\n "Throughput (requests/second)": 1e999,\n "terminals": "many",\n "scalefactor": 1e999\n}\n',
        RESULT.join(["transaction type: x\n", "SQL script 1: a\n - latency average = x ms\n - weight: 3\n"]),
        RESULT.join(["transaction type: x\n", "SQL script 1: a\n - number of failed transactions:\n"]),
        "€ 9 (" + "(" * 140 + "1/1" + ")" * 140 + ")\n",
        '$ pgbench -c "8 -D x -R fast -T 1e9\n' + RESULT,
        "$ pgbench -c 99999999999999999999999 -T 60\n" + RESULT,
    ):
        read_document(text)


HOSTILE: dict[str, Callable[[int], str]] = {
    "digits and commas": lambda n: "1," * n,
    "digits": lambda n: "1" * n,
    "TPS on": lambda n: "1 TPS on " * (n // 9),
    "spaces": lambda n: "a" + " " * n + "b",
    "key without a colon": lambda n: RESULT + "a" + " " * n,
    "hashes": lambda n: "# a" + " #" * n,
    "dollars": lambda n: "$" * n + " pgbench",
    "slashes": lambda n: "/" * n + "pgbench -",
    "pgbench": lambda n: "pgbench -c " * (n // 11),
    "sysbench": lambda n: "sysbench --a=b " * (n // 15) + "run",
    "bars": lambda n: "|" * n + "\n" + "|" * n,
    "tabs": lambda n: "a\t" * n + "\n" + "1\t" * n,
    "equations": lambda n: "€ 1 (" * (n // 5),
    "quotes": lambda n: ">" * n,
    "tags": lambda n: "<" * n,
    "entities": lambda n: "&" * n,
    "braces": lambda n: '{"a":' * (n // 5),
    "strings": lambda n: '"' * n + ":",
    "latencies": lambda n: "latency " * (n // 8),
    "brackets": lambda n: "[" * n,
    "escapes": lambda n: "\x1b[" * (n // 2),
    "settings": lambda n: "pg_host a " * (n // 10),
    "connection strings": lambda n: "pgbench postgres://a@b/c " * (n // 25),
    "backticks": lambda n: "`a -" * (n // 4),
}


def assert_grows_with_size(work: Callable[[int], object], small: int, large: int, most: float) -> None:
    """Fails if `large` takes more than `most` times as long as `small`.

    The least of three counts, because what else happens only adds. What takes less than a clock can tell counts as a
    millisecond.
    """

    def seconds(size: int) -> float:
        # a collection of garbage takes up to 0.2 s, and only `large` has enough objects for one
        gc.disable()
        began = time.process_time()
        work(size)
        took = time.process_time() - began
        gc.enable()
        return took

    pairs = [(seconds(small), seconds(large)) for _ in range(3)]
    assert min(after for _, after in pairs) / max(min(before for before, _ in pairs), 0.001) < most


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_the_time_for_a_line_grows_with_its_length_and_not_with_its_square(make: Callable[[int], str]) -> None:
    texts = {size: make(size) for size in (4_000, 64_000)}
    # 16 times as long: 256 times the time if it were by the square
    assert_grows_with_size(lambda size: read_document(texts[size]), 4_000, 64_000, 64)


@pytest.mark.parametrize(
    "line",
    ["text 5\n", "# heading\n\n" + RESULT, "a | b | c\n", "Instance: m5.large\n" + RESULT, "x\ty\tz\n",
     '{\n"terminals": 4\n', "pgbench -c 8 \\\n", "progress: 1.0 s, 2.0 tps, lat 3.0 ms stddev 1.0\n\n"],
    ids=["text", "headings", "bars", "instances", "tabs", "braces", "continued", "progress"],
)  # fmt: skip
def test_the_time_for_a_document_grows_with_its_lines(line: str) -> None:
    assert_grows_with_size(lambda size: read_document(line * size), 200, 1_600, 32)


def names_of_files(count: int) -> None:
    paths = [Path(f"/runs/{at}/pgbench.out") for at in range(count)]
    parts = [
        sources.Part(
            files=[ImportedFile(path=str(path), sha256="", trials=1)],
            outputs=[Output("pgbench", 1, 1, file=path.name, trial_target=path.stem)],
        )
        for path in paths
    ]
    keep_files_apart(parts)
    assert [part.outputs[0].trial_target for part in parts[:2]] == ["0/pgbench", "1/pgbench"]


def results_of_one_session(count: int) -> None:
    parser = HammerdbParser()
    for at in range(count):
        parser.read(f"Changed tpcc:pg_rampup from {at} to {at + 1} for PostgreSQL", 2 * at + 1)
        parser.read(f"TEST RESULT : System achieved {at} NOPM from 2300 PostgreSQL TPM", 2 * at + 2)
    assert len(parser.found) == count


def outputs_with_text_between(count: int) -> None:
    outputs = [Output("pgbench", at, at, section=at) for at in range(count)]
    assert variants(outputs, ["pg"] * count) == list(range(count))


@pytest.mark.parametrize("work", [names_of_files, results_of_one_session, outputs_with_text_between])
def test_results_take_time_by_their_number_and_not_by_its_square(work: Callable[[int], None]) -> None:
    # 16 times as many: 256 times the time if it were by the square
    assert_grows_with_size(work, 500, 8_000, 64)
