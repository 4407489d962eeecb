"""The stacks of perf's output, counted in the folded form."""

import io

import pytest

from pgdyno.probe import perf
from pgdyno.probe.perf import KERNEL, LONGEST_LINE, LONGEST_NAME, OTHER, fold, lines_of

RECORDED = """\
postgres cpu-clock:ppp: 
\t          5ccbe0 MemoryContextReset (/usr/lib/postgresql/15/bin/postgres)
\t          32ab6d [unknown] (/usr/lib/postgresql/15/bin/postgres)
\t          2fba59 standard_ExecutorRun (/usr/lib/postgresql/15/bin/postgres)
\t          1530e0 _start (/usr/lib/postgresql/15/bin/postgres)

postgres cpu-clock:ppp: 
\tffffffff821ed4e6 do_syscall_64 ([kernel.kallsyms])
\t          10a929 __libc_recv (/usr/lib/x86_64-linux-gnu/libc.so.6)

postgres cpu-clock:ppp: 
\tffffffff821ed4e6 do_syscall_64 ([kernel.kallsyms])
\t          10a929 __libc_recv (/usr/lib/x86_64-linux-gnu/libc.so.6)

sh -c x cpu-clock:ppp: 
\t          32ab6d [unknown] (/usr/bin/dash)
\t               0 [unknown] ([unknown])

:17 cpu-clock:ppp: 

"""  # noqa: W291 - as perf 6.1 prints it


def test_samples_are_counted_by_stack_with_the_outermost_function_first() -> None:
    found = fold(RECORDED.splitlines())
    assert found.samples == {
        "postgres;_start;standard_ExecutorRun;[postgres];MemoryContextReset": 1,
        f"postgres;__libc_recv;do_syscall_64{KERNEL}": 2,
        "sh -c x;[unknown];[dash]": 1,
        ":17;[unknown]": 1,
    }
    assert (found.event, found.unresolved) == ("cpu-clock:ppp", 2)


def test_a_file_that_was_removed_is_not_part_of_a_function() -> None:
    lines = [
        "postgres cycles:",
        "\t 1 hash_search (/usr/lib/postgresql/18/bin/postgres (deleted))",
        "\t 2 [unknown] (/dev/zero (deleted))",
    ]
    assert fold(lines).samples == {"postgres;[zero];hash_search": 1}


def test_hostile_names_become_harmless() -> None:
    lines = ["p;x\x1b cycles:", "\t 1 a;b\x07\u202e</script> (/lib/x)", f"\t 2 {'n' * 1_000_000} (/lib/x)"]
    (stack,) = fold(lines).samples
    process, outer, inner = stack.split(";")
    assert (process, inner) == ("p:x?", "a:b??</script>")
    assert len(outer) == LONGEST_NAME + 1


def test_a_very_long_line_is_cut_and_the_next_one_whole() -> None:
    stream = io.BytesIO(b"x" * (3 * LONGEST_LINE) + b"\nnext\nlast")
    assert [len(line) for line in lines_of(stream)] == [LONGEST_LINE, 4, 4]


def test_memory_is_bounded_by_the_number_of_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf, "MOST_STACKS", 2)
    lines = [line for name in "abcda" for line in ("p e:", f"\t 1 {name} (/x)")]
    assert fold(lines).samples == {"p;a": 2, "p;b": 1, OTHER: 2}
