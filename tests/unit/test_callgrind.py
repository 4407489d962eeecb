"""Files of Valgrind's callgrind, of which one is a whole one: BEGIN in PostgreSQL 15."""

import gzip
from pathlib import Path

import pytest

from pgdyno.instructions.callgrind import UNKNOWN, read_dump

BEGIN = gzip.decompress((Path(__file__).parents[1] / "golden" / "callgrind-begin.out.gz").read_bytes()).decode()
CALLERS = """\
events: Ir
ob=(3) /usr/lib/x86_64-linux-gnu/libc.so.6
fl=(395) ./io/../sysdeps/unix/sysv/linux/lseek64.c
fn=(78870) lseek'FileSize'0x00000000003b00a0'PostgresMain
36 4
+2 1
fn=(12) pgstat_report_stat'PostgresMain
0 7
cfn=(13) pgstat_flush'pgstat_report_stat'PostgresMain
calls=1 0
0 90
fn=(14) PostgresMain
0 3
cfn=(12)
calls=1 0
0 97
fn=(13)
0 90
totals: 105
"""


def test_a_dump_has_the_instructions_of_each_function_itself() -> None:
    dump = read_dump(BEGIN.splitlines())
    assert dump.total == dump.functions.total() == 9603
    # as callgrind_annotate prints them
    assert dump.functions["MemoryContextAllocZero"] == 33 + 261
    assert dump.functions["core_yy_scan_buffer"] == 17 + 16 + 7
    assert dump.functions[UNKNOWN] > 0


def test_functions_with_callers_are_stacks_and_the_flush_includes_what_it_called() -> None:
    dump = read_dump(CALLERS.splitlines())
    assert dump.functions == {
        f"PostgresMain;{UNKNOWN};FileSize;lseek": 5,
        "PostgresMain;pgstat_report_stat": 7,
        "PostgresMain;pgstat_report_stat;pgstat_flush": 90,
        "PostgresMain": 3,
    }
    assert dump.flush == 97


@pytest.mark.parametrize("text", [BEGIN[:5000], "", "fn=(3)\n", CALLERS.replace("totals: 105", "totals: 9")])
def test_a_dump_that_is_not_whole_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"total|name"):
        read_dump(text.splitlines())
